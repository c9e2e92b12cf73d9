//! The bytes of one connection that the program has sent and the peer has not acknowledged yet, and
//! the blocks of the send area that hold them.
//!
//! Bytes are appended to the connection's last block while it has room, so that a thousand small
//! writes take one block and the engine finds them side by side. A block is free again when the
//! peer has acknowledged everything in it, the last one too: an idle connection holds none.

use std::collections::VecDeque;
use std::sync::Arc;

use queue_pair::MOST_PIECES;

use crate::send_pool::{Block, Class, Run, SendPool};

/// The rest of a block, in bytes, that is used even if what follows does not fit into it.
const WORTH_FILLING: u32 = 4096;

/// A block with bytes of this connection in it.
#[derive(Debug)]
struct Filled {
    /// The registered memory that it is a part of, or [none](Run::NONE) that stands for a file; `None`: a
    /// block of the pool's.
    registered: Option<Arc<Run>>,
    addr: u64,
    capacity: u32,
    used: u32,
    /// Where in the stream the bytes in the block end.
    end: u64,
}

/// What of a connection's stream is on its way.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    blocks: VecDeque<Filled>,
    /// Bytes written since the connection began.
    written: u64,
    /// How many of them the peer has acknowledged.
    acked: u64,
    /// How many of them have left, as far as the engine has said so of its own accord: it does if there is a
    /// bound.
    departed: u64,
    /// The rest of the last block is being filled by the program: it stays where it is.
    reserved: bool,
    /// Nothing is on its way any more, acknowledged or not.
    is_over: bool,
}

impl Filled {
    fn give_back(self, pool: &mut SendPool) {
        match self.registered {
            None => pool.give_back(self.addr),
            // The last reference to memory that its owner has let go of.
            Some(run) => {
                if let Some(run) = Arc::into_inner(run) {
                    pool.give_run_back(run);
                }
            }
        }
    }
}

impl SendQueue {
    /// Bytes that are written and not acknowledged, and may still be.
    pub(crate) fn in_flight(&self) -> u64 {
        match self.is_over {
            true => 0,
            false => self.written - self.acked,
        }
    }

    /// How many more bytes may be sent, of `buffer` bytes of send buffer: none while there are as many pieces
    /// under way as the engine takes, however short they are.
    pub(crate) fn space(&self, buffer: u64) -> u64 {
        if self.blocks.len() >= MOST_PIECES {
            return 0;
        }
        buffer.saturating_sub(self.in_flight())
    }

    /// Whether a third of `buffer` bytes of send buffer is free, and of the pieces.
    pub(crate) fn is_writable(&self, buffer: u64) -> bool {
        let in_flight = self.in_flight();
        let pieces = self.blocks.len();
        in_flight + in_flight / 2 <= buffer && pieces + pieces / 2 <= MOST_PIECES
    }

    /// How many bytes have to be acknowledged for it to be writable, of what is written by now.
    pub(crate) fn writable_from(&self, buffer: u64) -> u64 {
        // The most that may be under way, of bytes and of pieces.
        let bytes = (2 * buffer + 1) / 3;
        let pieces = (2 * MOST_PIECES + 1) / 3;
        let too_many = self.blocks.len().saturating_sub(pieces);
        let last = too_many
            .checked_sub(1)
            .and_then(|last| self.blocks.get(last));
        let for_pieces = last.map_or(0, |last| last.end);
        self.written.saturating_sub(bytes).max(for_pieces)
    }

    /// How many bytes have to be acknowledged for a third of the pool's memory under way to come back: up to the end of a
    /// block, for no part of one does. `None`: none is under way, but files or memory that the program has registered.
    pub(crate) fn third_from(&self) -> Option<u64> {
        let comes_back = |block: &&Filled| {
            block.registered.is_none() && block.used > 0 && block.end > self.acked
        };
        let own = || self.blocks.iter().filter(comes_back);
        let third = own()
            .map(|block| u64::from(block.capacity))
            .sum::<u64>()
            .div_ceil(3);
        let mut back = 0;
        own().find_map(|block| {
            back += u64::from(block.capacity);
            (back >= third).then_some(block.end)
        })
    }

    /// Memory for up to `want` bytes that follow: the rest of the last block, or a new one.
    /// `None`: the pool is used up. Nothing changes until [`append`](Self::append).
    ///
    /// A rest that is too small for `want` is left alone unless it is worth a piece of its own, so
    /// that a file after a header is read, and sent, in one piece instead of two.
    pub(crate) fn room(
        &mut self,
        want: usize,
        take: impl FnOnce(Class) -> Option<Block>,
    ) -> Option<Block> {
        let rest = self.rest();
        if rest < WORTH_FILLING && (rest as usize) < want.max(1) {
            match take(Class::for_bytes(want)) {
                Some(block) => self.blocks.push_back(Filled {
                    registered: None,
                    addr: block.addr,
                    capacity: block.len,
                    used: 0,
                    end: self.written,
                }),
                None if rest == 0 => return None,
                None => {}
            }
        }
        let last = self.blocks.back()?;
        let len = (last.capacity - last.used).min(u32::try_from(want).unwrap_or(u32::MAX));
        Some(Block {
            addr: last.addr + u64::from(last.used),
            len,
        })
    }

    /// Bytes that still fit into the last block.
    fn rest(&self) -> u32 {
        self.blocks
            .back()
            .map_or(0, |last| last.capacity - last.used)
    }

    /// The first `len` bytes of what [`room`](Self::room) returned have been filled and posted.
    pub(crate) fn append(&mut self, len: u32) {
        self.reserved = false;
        if let Some(last) = self.blocks.back_mut() {
            last.used += len;
            self.written += u64::from(len);
            last.end = self.written;
        }
    }

    /// `len` bytes of a file with these uses have been posted.
    pub(crate) fn append_file(&mut self, len: u32, uses: &Arc<Run>) {
        self.append_registered(0, len, Arc::clone(uses));
    }

    /// `len` bytes of registered memory at `addr` have been posted.
    pub(crate) fn append_registered(&mut self, addr: u64, len: u32, run: Arc<Run>) {
        self.written += u64::from(len);
        self.blocks.push_back(Filled {
            registered: Some(run),
            addr,
            capacity: len,
            used: len,
            end: self.written,
        });
    }

    /// Nothing came of what [`room`](Self::room) returned: a block that holds nothing goes back.
    pub(crate) fn abandon(&mut self, pool: &mut SendPool) {
        self.reserved = false;
        if self.blocks.back().is_some_and(|last| last.used == 0)
            && let Some(last) = self.blocks.pop_back()
        {
            last.give_back(pool);
        }
    }

    /// What [`room`](Self::room) returned is the program's until [`append`](Self::append) or
    /// [`abandon`](Self::abandon): it is neither given back nor written by anyone else.
    pub(crate) fn reserve(&mut self) {
        self.reserved = true;
    }

    /// Whether the program is filling the rest of the last block.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Bytes written since the connection began.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// How many of them the peer has acknowledged, also when the connection is over.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acked
    }

    /// How many of them have left, as far as is known: of what is acknowledged it is.
    pub(crate) fn departed(&self) -> u64 {
        self.departed.max(self.acked)
    }

    /// Bytes written that have not left, as far as is known.
    pub(crate) fn waiting(&self) -> u64 {
        match self.is_over {
            true => 0,
            false => self.written - self.departed(),
        }
    }

    /// So many bytes have left in all. More than was written is no news from an honest engine: `Err` with the
    /// offending count.
    pub(crate) fn depart(&mut self, total: u64) -> Result<(), u64> {
        if total > self.written {
            return Err(total);
        }
        self.departed = self.departed.max(total);
        Ok(())
    }

    /// The peer has acknowledged `acked` bytes in all. Returns whether blocks can be given back now,
    /// which [`give_back`](Self::give_back) does. More than was written is no news from an honest
    /// engine: `Err` with the offending count.
    pub(crate) fn acknowledge(&mut self, acked: u64) -> Result<bool, u64> {
        if acked > self.written {
            return Err(acked);
        }
        self.acked = self.acked.max(acked);
        Ok(self
            .blocks
            .front()
            .is_some_and(|first| first.end <= self.acked))
    }

    /// Gives back the blocks that are acknowledged as a whole.
    pub(crate) fn give_back(&mut self, pool: &mut SendPool) {
        let kept = usize::from(self.reserved);
        while self.blocks.len() > kept
            && self.blocks[0].end <= self.acked
            && let Some(block) = self.blocks.pop_front()
        {
            block.give_back(pool);
        }
    }

    /// Gives back every block, but one that the program is filling: the engine no longer reads them.
    /// What was acknowledged before is still known.
    pub(crate) fn clear(&mut self, pool: &mut SendPool) {
        self.is_over = true;
        for block in &mut self.blocks {
            block.end = 0;
        }
        self.give_back(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send_pool::SLAB;

    fn write(queue: &mut SendQueue, pool: &mut SendPool, mut len: usize) -> Vec<Block> {
        let mut extents = Vec::new();
        while len > 0 {
            let block = queue.room(len, |class| pool.take(class)).unwrap();
            queue.append(block.len);
            len -= block.len as usize;
            extents.push(block);
        }
        extents
    }

    #[test]
    fn small_writes_share_a_block_and_lie_side_by_side() {
        let mut pool = SendPool::new(u64::from(SLAB));
        let mut queue = SendQueue::default();
        let first = write(&mut queue, &mut pool, 100);
        let second = write(&mut queue, &mut pool, 100);
        assert_eq!(second[0].addr, first[0].addr + 100);
        assert_eq!(pool.free_bytes(), u64::from(SLAB) - 2048);
    }

    #[test]
    fn what_does_not_fit_behind_a_header_begins_a_block_of_its_own() {
        let mut pool = SendPool::new(4 * u64::from(SLAB));
        let mut queue = SendQueue::default();
        write(&mut queue, &mut pool, 200);
        let file = write(&mut queue, &mut pool, 16 * 1024);
        assert_eq!(file.len(), 1);
        // A rest that is large is not wasted.
        let half = write(&mut queue, &mut pool, 40 * 1024);
        let next = write(&mut queue, &mut pool, 40 * 1024);
        assert_eq!((half.len(), next.len()), (1, 2));
        // And none is when there is nothing else.
        let mut queue = SendQueue::default();
        let only = |_| Some(Block { addr: 0, len: 2048 });
        queue.room(100, only).unwrap();
        queue.append(100);
        let rest = queue.room(5000, |_| None).unwrap();
        assert_eq!((rest.addr, rest.len), (100, 1948));
        queue.append(1948);
        assert_eq!(queue.room(1, |_| None), None);
    }

    #[test]
    fn an_acknowledgement_frees_what_it_covers_and_no_more() {
        let total = 4 * u64::from(SLAB);
        let mut pool = SendPool::new(total);
        let mut queue = SendQueue::default();
        write(&mut queue, &mut pool, 3000);
        assert_eq!(queue.acknowledge(2999), Ok(false));
        assert_eq!(queue.in_flight(), 1);
        assert_eq!(queue.acknowledge(3001), Err(3001));
        // An old acknowledgement changes nothing.
        assert_eq!(queue.acknowledge(10), Ok(false));
        assert_eq!(queue.in_flight(), 1);
        assert_eq!(queue.acknowledge(3000), Ok(true));
        queue.give_back(&mut pool);
        assert_eq!(pool.free_bytes(), total);
        // The stream goes on in another block.
        write(&mut queue, &mut pool, 10);
        assert_eq!(queue.acknowledge(3010), Ok(true));
    }

    #[test]
    fn an_abandoned_block_goes_back_and_a_partly_filled_one_stays() {
        let mut pool = SendPool::new(u64::from(SLAB));
        let mut queue = SendQueue::default();
        queue.room(5, |class| pool.take(class)).unwrap();
        queue.abandon(&mut pool);
        assert_eq!(pool.free_bytes(), u64::from(SLAB));
        write(&mut queue, &mut pool, 5);
        queue.room(5, |class| pool.take(class)).unwrap();
        queue.abandon(&mut pool);
        assert_eq!(pool.free_bytes(), u64::from(SLAB) - 2048);
        queue.clear(&mut pool);
        assert_eq!((pool.free_bytes(), queue.in_flight()), (u64::from(SLAB), 0));
    }

    #[test]
    fn it_is_writable_from_the_count_on_that_is_stated() {
        let mut pool = SendPool::new(4 * u64::from(SLAB));
        for buffer in 4608..4620 {
            let mut queue = SendQueue::default();
            write(&mut queue, &mut pool, buffer as usize);
            let from = queue.writable_from(buffer);
            queue.acknowledge(from - 1).unwrap();
            assert!(!queue.is_writable(buffer), "{buffer}");
            queue.acknowledge(from).unwrap();
            assert!(queue.is_writable(buffer), "{buffer}");
            assert_eq!(queue.writable_from(buffer), from);
            queue.clear(&mut pool);
        }
        assert_eq!(SendQueue::default().writable_from(4608), 0);
        // Of pieces, too.
        let mut queue = SendQueue::default();
        let none = Arc::new(Run::NONE);
        for _ in 0..MOST_PIECES {
            queue.append_registered(0, 1, Arc::clone(&none));
        }
        let (buffer, from) = (1 << 20, queue.writable_from(1 << 20));
        queue.acknowledge(from - 1).unwrap();
        queue.give_back(&mut pool);
        assert!(!queue.is_writable(buffer));
        queue.acknowledge(from).unwrap();
        queue.give_back(&mut pool);
        assert!(queue.is_writable(buffer));
    }

    #[test]
    fn a_third_of_the_memory_is_back_at_the_end_of_a_block() {
        let mut pool = SendPool::new(4 * u64::from(SLAB));
        let mut queue = SendQueue::default();
        assert_eq!(queue.third_from(), None);
        write(&mut queue, &mut pool, 100);
        assert_eq!(queue.third_from(), Some(100));
        let slab = u64::from(SLAB);
        write(&mut queue, &mut pool, 3 * SLAB as usize);
        let end = queue.third_from().unwrap();
        assert!(end > slab && end <= 2 * slab, "{end}");
        queue.acknowledge(end - 1).unwrap();
        queue.give_back(&mut pool);
        let before = pool.free_bytes();
        queue.acknowledge(end).unwrap();
        queue.give_back(&mut pool);
        assert!(pool.free_bytes() > before);
        let written = queue.written();
        queue.acknowledge(written).unwrap();
        queue.give_back(&mut pool);
        assert_eq!(queue.third_from(), None);
    }

    #[test]
    fn what_is_not_of_the_pool_does_not_come_back_to_it() {
        let mut pool = SendPool::new(4 * u64::from(SLAB));
        let mut queue = SendQueue::default();
        let none = Arc::new(Run::NONE);
        queue.append_file(5_000_000, &none);
        assert_eq!(queue.third_from(), None);
        write(&mut queue, &mut pool, 100);
        queue.append_registered(0, 1_000_000, Arc::clone(&none));
        assert_eq!(queue.third_from(), Some(5_000_100));
        queue.acknowledge(5_000_100).unwrap();
        queue.give_back(&mut pool);
        assert_eq!(queue.third_from(), None);
        // A block that the program is filling comes back when it was filled, and acknowledged.
        queue.room(100, |class| pool.take(class)).unwrap();
        queue.reserve();
        assert_eq!(queue.third_from(), None);
    }

    #[test]
    fn what_was_acknowledged_before_an_end_is_still_known() {
        let mut pool = SendPool::new(u64::from(SLAB));
        let mut queue = SendQueue::default();
        write(&mut queue, &mut pool, 500);
        queue.acknowledge(200).unwrap();
        queue.depart(300).unwrap();
        queue.clear(&mut pool);
        assert_eq!((queue.acknowledged(), queue.departed()), (200, 300));
        assert_eq!((queue.in_flight(), queue.waiting()), (0, 0));
        assert_eq!(pool.free_bytes(), u64::from(SLAB));
    }
}
