//! Which chunks hold which part of a stream that a connection receives.
//!
//! Chunk `i` of a connection holds the 4 KiB of its stream that begin at `base + 4096 i`, so a byte
//! has one place from the moment it arrives, in order or not, and small segments share a chunk.
//! When everything has been consumed no chunk is held, and the next byte begins a new base.

use std::collections::VecDeque;

use queue_pair::Area;

use super::budget::CHUNK;
use super::pool::Pool;
use super::posted::Posted;

/// A part of the stream for which nothing has arrived yet.
const HOLE: u32 = u32::MAX;
/// What a stream that holds nothing may keep of its list's memory, in chunks.
const KEPT_CAPACITY: usize = 64;

/// The received part of a stream that has not been consumed.
#[derive(Debug, Default)]
pub struct Stream {
    /// Stream offset of the first chunk's first byte.
    base: u64,
    chunks: VecDeque<u32>,
    /// The end of what was placed furthest.
    end: u64,
    /// Everything before it was consumed.
    consumed: u64,
    /// Parts of it that go to buffers of the program's own; none if it has posted none.
    posted: Option<Box<Posted>>,
}

impl Stream {
    /// A stream of which `consumed` bytes are done with.
    pub fn beginning_at(consumed: u64) -> Self {
        Self {
            base: consumed,
            chunks: VecDeque::new(),
            end: consumed,
            consumed,
            posted: None,
        }
    }

    /// Forgets everything but the list's memory; the chunks must have been given back.
    pub fn reset(&mut self) {
        debug_assert!(self.chunks.is_empty());
        debug_assert!(self.posted.is_none());
        self.base = 0;
        self.end = 0;
        self.consumed = 0;
    }

    /// Whether no chunk is held.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many bytes were consumed.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// How many chunks are held.
    pub fn held(&self) -> usize {
        self.chunks.iter().filter(|&&chunk| chunk != HOLE).count()
    }

    /// Copies `bytes` to their place; returns how many of them found memory.
    pub fn place(&mut self, pool: &mut Pool, offset: u64, bytes: &[u8]) -> usize {
        if offset < self.consumed {
            return 0;
        }
        let done = self.place_in_chunks(pool, offset, bytes);
        self.end = self.end.max(offset + done as u64);
        done
    }

    fn place_in_chunks(&mut self, pool: &mut Pool, offset: u64, bytes: &[u8]) -> usize {
        if self.chunks.is_empty() {
            self.base = self.consumed;
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = ((at - self.base) % u64::from(CHUNK)) as usize;
            let Some(chunk) = self.chunk_for(pool, at) else {
                break;
            };
            let length = (bytes.len() - done).min(CHUNK as usize - within);
            let place = Pool::offset(chunk) + within as u64;
            if pool
                .area()
                .copy_in(place, &bytes[done..done + length])
                .is_err()
            {
                break;
            }
            done += length;
        }
        done
    }

    fn chunk_for(&mut self, pool: &mut Pool, at: u64) -> Option<u32> {
        let index = usize::try_from((at - self.base) / u64::from(CHUNK)).ok()?;
        match self.chunks.get(index) {
            Some(&chunk) if chunk != HOLE => return Some(chunk),
            _ => {}
        }
        let first = self.chunks.is_empty();
        let chunk = pool.take(first)?;
        if first {
            pool.reserve(false);
        }
        if index >= self.chunks.len() {
            // Nothing in between unless the segment came out of order.
            while self.chunks.len() < index {
                self.chunks.push_back(HOLE);
            }
            self.chunks.push_back(chunk);
        } else {
            self.chunks[index] = chunk;
        }
        Some(chunk)
    }

    /// Gives back what lies before `total`, the number of bytes consumed so far.
    pub fn consume(&mut self, pool: &mut Pool, total: u64) {
        if total <= self.consumed {
            return;
        }
        self.consumed = total;
        if let Some(posted) = &mut self.posted {
            posted.forget_before(total);
            if posted.is_empty() {
                self.posted = None;
            }
        }
        if self.chunks.is_empty() {
            return;
        }
        let everything = total >= self.end;
        while let Some(&chunk) = self.chunks.front() {
            if !everything && self.base + u64::from(CHUNK) > total {
                break;
            }
            if chunk != HOLE {
                pool.give_back(chunk);
            }
            self.chunks.pop_front();
            self.base += u64::from(CHUNK);
        }
        if self.chunks.is_empty() {
            pool.reserve(true);
            if self.chunks.capacity() > KEPT_CAPACITY {
                self.chunks = VecDeque::new();
            }
        }
    }

    /// Gives back the chunks that hold nothing before `received`, the end of what arrived in
    /// order: what came out of order has been let go of, and will come again.
    pub fn shed(&mut self, pool: &mut Pool, received: u64) {
        self.end = self.end.min(received.max(self.consumed));
        while let Some(&chunk) = self.chunks.back() {
            let start = self.base + (self.chunks.len() as u64 - 1) * u64::from(CHUNK);
            if start < received {
                break;
            }
            if chunk != HOLE {
                pool.give_back(chunk);
            }
            self.chunks.pop_back();
            if self.chunks.is_empty() {
                pool.reserve(true);
            }
        }
    }

    /// Gives everything back; the stream is over.
    pub fn release(&mut self, pool: &mut Pool) {
        self.posted = None;
        if self.chunks.is_empty() {
            // It was counted as one that waits for its first chunk.
            pool.reserve(false);
        }
        for chunk in self.chunks.drain(..) {
            if chunk != HOLE {
                pool.give_back(chunk);
            }
        }
        if self.chunks.capacity() > KEPT_CAPACITY {
            self.chunks = VecDeque::new();
        }
    }

    /// The longest contiguous piece of memory with what was received from `from` up to `to`:
    /// its offset in the area and its length. All of that must have arrived. What is in a buffer of the
    /// program's own is told by [`posted_piece`](Self::posted_piece).
    pub fn piece(&self, from: u64, mut to: u64) -> Option<(u64, u32)> {
        if let Some(next) = self.posted.as_ref().and_then(|posted| posted.next(from)) {
            to = to.min(next);
        }
        if from >= to || from < self.base {
            return None;
        }
        let chunk_len = u64::from(CHUNK);
        let mut index = usize::try_from((from - self.base) / chunk_len).ok()?;
        let within = (from - self.base) % chunk_len;
        let first = *self.chunks.get(index).filter(|&&chunk| chunk != HOLE)?;
        let mut length = chunk_len - within;
        // Chunks that lie one after the other in memory make one piece.
        let mut last = first;
        while length < to - from {
            index += 1;
            match self.chunks.get(index) {
                Some(&next) if next == last + 1 && next != HOLE => last = next,
                _ => break,
            }
            length += chunk_len;
        }
        let length = length.min(to - from).min(u64::from(u32::MAX));
        Some((Pool::offset(first) + within, length as u32))
    }

    /// The program has posted a buffer for the `len` bytes of the stream from `from` on: `addr` in its send
    /// area. False: it is not used, and what it stands for comes in chunks.
    pub fn post(&mut self, from: u64, len: u32, addr: u64) -> bool {
        let placed = self.end.max(self.consumed);
        let mut posted = self.posted.take().unwrap_or_default();
        let used = posted.add(from, len, addr, placed);
        self.posted = (!posted.is_empty()).then_some(posted);
        used
    }

    /// Whether it has buffers of the program's own.
    #[inline]
    pub fn has_posted(&self) -> bool {
        self.posted.is_some()
    }

    /// As [`place`](Self::place), with `area` in which the program has posted buffers.
    pub fn place_posted(
        &mut self,
        pool: &mut Pool,
        area: &Area,
        offset: u64,
        bytes: &[u8],
    ) -> usize {
        if offset < self.consumed {
            return 0;
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let left = &bytes[done..];
            let posted = self.posted.as_deref();
            let within = |limit: u64| usize::try_from(limit).unwrap_or(left.len()).min(left.len());
            let (piece, placed) = match posted.and_then(|posted| posted.place(at)) {
                Some((addr, room)) => {
                    let piece = &left[..within(room)];
                    let copied = area.copy_in(addr, piece).is_ok();
                    (piece.len(), if copied { piece.len() } else { 0 })
                }
                None => {
                    let next = posted.and_then(|posted| posted.next(at));
                    let piece = &left[..next.map_or(left.len(), |next| within(next - at))];
                    (piece.len(), self.place_in_chunks(pool, at, piece))
                }
            };
            done += placed;
            if placed < piece {
                break;
            }
        }
        self.end = self.end.max(offset + done as u64);
        done
    }

    /// What was received from `from` on, up to `to`, in one buffer of the program's own: its offset in
    /// the send area and its length. `None`: it is in a chunk.
    pub fn posted_piece(&self, from: u64, to: u64) -> Option<(u64, u32)> {
        let (addr, room) = self.posted.as_ref()?.place(from)?;
        let length = room.min(to.saturating_sub(from)).min(u32::MAX.into());
        (length > 0).then_some((addr, length as u32))
    }

    /// Nothing more goes to the buffers of the program's own, and what they hold that was not consumed
    /// goes to chunks. False: there is too little memory for that, and some of it stays where it is.
    pub fn withdraw(&mut self, pool: &mut Pool, area: &Area) -> bool {
        let Some(posted) = self.posted.take() else {
            return true;
        };
        let mut rest = Posted::default();
        let mut bytes = [0u8; CHUNK as usize];
        for (begin, end, addr) in posted.parts() {
            let (mut at, end) = (begin.max(self.consumed), end.min(self.end));
            while at < end {
                let piece = &mut bytes[..(end - at).min(CHUNK.into()) as usize];
                let addr = addr + (at - begin);
                if area.copy_out(addr, piece).is_err() {
                    break;
                }
                let placed = self.place_in_chunks(pool, at, piece);
                at += placed as u64;
                if placed < piece.len() {
                    let left = u32::try_from(end - at).unwrap_or(u32::MAX);
                    rest.add(at, left, addr + placed as u64, at);
                    break;
                }
            }
        }
        let all = rest.is_empty();
        self.posted = (!all).then(|| Box::new(rest));
        all
    }

    /// Moves everything from one pool to another; false, with nothing changed, if the other has
    /// too little memory.
    pub fn move_to(&mut self, from: &mut Pool, to: &mut Pool) -> bool {
        if self.chunks.is_empty() {
            from.reserve(false);
            to.reserve(true);
            return true;
        }
        if (to.available() as usize) < self.held() {
            return false;
        }
        let mut bytes = [0u8; CHUNK as usize];
        for chunk in self.chunks.iter_mut().filter(|chunk| **chunk != HOLE) {
            let Some(new) = to.take(true) else {
                // Not reached: there was room for all of them.
                return false;
            };
            let copied = from
                .area()
                .copy_out(Pool::offset(*chunk), &mut bytes)
                .and_then(|()| to.area().copy_in(Pool::offset(new), &bytes));
            debug_assert!(copied.is_ok(), "chunks lie inside their areas");
            from.give_back(*chunk);
            *chunk = new;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use queue_pair::Area;

    const C: u64 = CHUNK as u64;

    fn pool(chunks: usize) -> Pool {
        let mut pool = Pool::new(Area::private("test", chunks * CHUNK as usize));
        pool.reserve(true);
        pool
    }

    fn read(pool: &Pool, stream: &Stream, from: u64, to: u64) -> Vec<u8> {
        let (mut at, mut bytes) = (from, Vec::new());
        while let Some((place, length)) = stream.piece(at, to) {
            let mut piece = vec![0; length as usize];
            pool.area().copy_out(place, &mut piece).expect("inside");
            bytes.extend(piece);
            at += u64::from(length);
        }
        bytes
    }

    #[test]
    fn small_segments_share_a_chunk_and_a_consumed_stream_holds_none() {
        let mut pool = pool(4);
        let mut stream = Stream::default();
        for i in 0..10u8 {
            assert_eq!(stream.place(&mut pool, u64::from(i) * 10, &[i; 10]), 10);
        }
        assert_eq!((stream.held(), pool.available()), (1, 3));
        assert_eq!(read(&pool, &stream, 90, 100), [9; 10]);
        stream.consume(&mut pool, 99);
        assert_eq!(stream.held(), 1, "a byte is left");
        stream.consume(&mut pool, 100);
        assert!(stream.is_empty());
        assert_eq!(pool.available(), 4);
        assert_eq!(stream.place(&mut pool, 100, &[7]), 1);
        assert_eq!(read(&pool, &stream, 100, 101), [7]);
    }

    #[test]
    fn data_out_of_order_has_its_place_at_once() {
        let mut pool = pool(8);
        let mut stream = Stream::default();
        let data: Vec<u8> = (0..3 * C).map(|i| (i % 251) as u8).collect();
        let (a, b) = (1000, 2 * C as usize + 5);
        assert_eq!(
            stream.place(&mut pool, b as u64, &data[b..]),
            data.len() - b
        );
        assert_eq!(stream.held(), 1, "the hole takes no memory");
        assert_eq!(stream.place(&mut pool, 0, &data[..a]), a);
        assert_eq!(stream.place(&mut pool, a as u64, &data[a..b]), b - a);
        assert_eq!(read(&pool, &stream, 0, 3 * C), data);
        stream.consume(&mut pool, C + 1);
        assert_eq!(stream.held(), 2);
        assert_eq!(read(&pool, &stream, C + 1, 3 * C), data[C as usize + 1..]);
        stream.release(&mut pool);
        assert_eq!(pool.available(), 8);
    }

    #[test]
    fn without_memory_only_the_leading_bytes_are_taken() {
        let mut pool = pool(1);
        let mut stream = Stream::default();
        assert_eq!(stream.place(&mut pool, 0, &[1; 5000]), CHUNK as usize);
        assert_eq!(stream.place(&mut pool, C, &[1]), 0);
        stream.consume(&mut pool, C);
        assert_eq!(stream.place(&mut pool, C, &[1]), 1);
    }

    #[test]
    fn what_is_shed_makes_room_for_what_comes_in_order() {
        let mut pool = pool(3);
        let mut stream = Stream::default();
        assert_eq!(
            stream.place(&mut pool, 100, &vec![1; 3 * CHUNK as usize - 100]),
            12_188
        );
        assert_eq!(stream.place(&mut pool, 3 * C, &[1]), 0, "no memory");
        stream.shed(&mut pool, 0);
        assert!(stream.is_empty());
        assert_eq!(pool.available(), 3);
        assert_eq!(stream.place(&mut pool, 0, &[2; 100]), 100);
        stream.place(&mut pool, 2 * C, &[3; 10]);
        stream.shed(&mut pool, 100);
        assert_eq!(stream.held(), 1, "what is in order stays");
        assert_eq!(read(&pool, &stream, 0, 100), [2; 100]);
    }

    #[test]
    fn data_moves_between_pools_or_stays_whole() {
        let mut from = pool(4);
        let (mut small, mut large) = (pool(1), pool(4));
        small.reserve(false);
        large.reserve(false);
        let mut stream = Stream::default();
        let data: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
        stream.place(&mut from, 0, &data);
        assert!(!stream.move_to(&mut from, &mut small));
        assert!(stream.move_to(&mut from, &mut large));
        assert_eq!(from.available(), 4);
        assert_eq!(read(&large, &stream, 0, 5000), data);
    }

    #[test]
    fn neighbouring_chunks_make_one_piece() {
        let mut pool = pool(4);
        let mut stream = Stream::default();
        stream.place(&mut pool, 0, &vec![3; 3 * CHUNK as usize]);
        assert_eq!(stream.piece(10, 3 * C), Some((10, 3 * CHUNK - 10)));
    }
}
