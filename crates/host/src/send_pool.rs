//! Who owns which bytes of the send area.
//!
//! The area is cut into slabs of 64 KiB. A slab is free, or belongs to one class of blocks: 32 small
//! ones of 2 KiB (a response header, a small answer), four medium ones of 16 KiB, or one large one
//! (bulk, and files). Blocks of one class come from the slabs of that class that have room; a slab
//! whose last block comes back is free again for any class. Every operation is constant time, and
//! nothing is allocated after the pool was made.
//!
//! The memory of slabs that were free for a second goes back to the machine, but for a few. They are
//! taken out of the pool meanwhile, and come back as slabs that were never touched.
//!
//! The pool knows nothing of connections: a connection fills a block from its front, posts each
//! piece, and gives the block back when the peer has acknowledged all of it.

use std::sync::Arc;

use arrayvec::ArrayVec;

/// Bytes in a slab, and in the largest block.
pub const SLAB: u32 = 64 * 1024;

/// A connection may hold this part of the memory that is free.
const SHARE_OF_FREE: u64 = 2;

/// This part of the area is kept for connections that hold nothing.
const RESERVED: u64 = 8;

/// Free slabs that keep their memory, whatever comes: 256 KiB.
const KEPT: u32 = 4;

/// For how many nanoseconds a slab is free before its memory goes.
pub const UNUSED_FOR_NS: u64 = 1_000_000_000;

/// Slabs whose memory goes at a time: 8 MiB.
const AT_ONCE: usize = 128;

/// No slab: the end of a list.
const NONE: u32 = u32::MAX;

/// The sizes in which send memory is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 2 KiB.
    Small,
    /// 16 KiB.
    Medium,
    /// 64 KiB, a whole slab.
    Large,
}

impl Class {
    const ALL: [Class; 3] = [Class::Small, Class::Medium, Class::Large];

    /// The smallest class that holds `bytes` in one block, or the largest that there is.
    pub fn for_bytes(bytes: usize) -> Class {
        Class::ALL
            .into_iter()
            .find(|class| bytes <= class.block() as usize)
            .unwrap_or(Class::Large)
    }

    /// Bytes in a block of this class.
    pub const fn block(self) -> u32 {
        match self {
            Class::Small => 2 * 1024,
            Class::Medium => 16 * 1024,
            Class::Large => SLAB,
        }
    }

    /// The bitmap of a slab of this class in which every block is free.
    const fn all_free(self) -> u32 {
        match SLAB / self.block() {
            32 => u32::MAX,
            blocks => (1 << blocks) - 1,
        }
    }
}

/// A block of the send area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Offset of its first byte in the send area.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// Whole slabs in one piece, taken as one.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of its first byte in the send area.
    pub addr: u64,
    /// Its length in bytes, a multiple of [`SLAB`].
    pub len: u64,
    /// What is in use for as long as this is: a file of which it stands for a part.
    pub of: Option<Arc<Run>>,
}

impl Run {
    /// None of the area: for what is sent from without being there.
    pub const NONE: Self = Self {
        addr: 0,
        len: 0,
        of: None,
    };
}

/// Free slabs that nobody gets while their memory goes, in the order of the area.
#[derive(Debug, PartialEq, Eq)]
pub struct Spare(ArrayVec<u32, AT_ONCE>);

impl Spare {
    /// Where they lie: offset and length in bytes of each stretch without a gap.
    pub fn stretches(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        let bytes = |slabs: u64| slabs * u64::from(SLAB);
        runs.map(move |run| (bytes(run[0].into()), bytes(run.len() as u64)))
    }
}

/// What a [look](SendPool::look) for spare memory comes to.
#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack for a moment, of a thread that may not allocate"
)]
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// There is nothing to do, or somebody else looks again in time.
    Nothing,
    /// So many nanoseconds from now the caller is to look again, if it sleeps that long.
    Later(u64),
    /// The memory of these is to go, and they are to be [put back](SendPool::put_back).
    Now(Spare),
}

#[derive(Clone, Copy)]
struct Slab {
    /// One bit a free block.
    free: u32,
    class: Class,
    next: u32,
    previous: u32,
}

/// The blocks of one send area.
pub struct SendPool {
    slabs: Box<[Slab]>,
    /// The first slab of each class that has a free block.
    partial: [u32; 3],
    /// The first slab that belongs to no class and has memory: the one that came back last.
    empty: u32,
    /// How many of those there are, and how many there were at least since that was last looked at.
    empties: u32,
    least_empties: u32,
    /// The first slab that belongs to no class and has no memory.
    fresh: u32,
    /// When spare memory is looked for again, by CLOCK_MONOTONIC, and until when somebody sees to that.
    due: u64,
    seen_to_until: u64,
    /// All memory stays.
    keeps: bool,
    free_bytes: u64,
    /// Bytes that only connections which hold nothing may take from.
    reserve: u64,
}

impl SendPool {
    /// A pool over an area of `area` bytes; what is left over by whole slabs stays unused.
    pub fn new(area: u64) -> Self {
        let count = u32::try_from(area / u64::from(SLAB)).unwrap_or(NONE - 1);
        let slabs = (0..count)
            .map(|index| Slab {
                free: Class::Large.all_free(),
                class: Class::Large,
                next: if index + 1 < count { index + 1 } else { NONE },
                previous: NONE,
            })
            .collect();
        Self {
            slabs,
            partial: [NONE; 3],
            empty: NONE,
            empties: 0,
            least_empties: 0,
            fresh: if count > 0 { 0 } else { NONE },
            due: 0,
            seen_to_until: 0,
            keeps: false,
            free_bytes: u64::from(count) * u64::from(SLAB),
            reserve: u64::from(count) * u64::from(SLAB) / RESERVED,
        }
    }

    /// Bytes in blocks that nobody owns.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Takes a block for a connection that has `in_flight` bytes here already; `None` if it has to
    /// wait for acknowledgements, its own or others'.
    ///
    /// A connection may hold a part of what is free, so a few that send much can use nearly all and
    /// many share it. The last part of the area is for those that hold nothing: whoever else does
    /// not read, the head of a response finds memory.
    pub fn take_share(&mut self, class: Class, in_flight: u64) -> Option<Block> {
        let spare = self.free_bytes.saturating_sub(self.reserve);
        if in_flight < spare / SHARE_OF_FREE {
            self.take(class)
        } else if in_flight == 0 {
            self.take(Class::Small)
        } else {
            None
        }
    }

    /// Takes a block of the given class, or a smaller one when slabs have run out.
    /// `None`: the area is used up.
    pub fn take(&mut self, class: Class) -> Option<Block> {
        (0..=class as usize)
            .rev()
            .find_map(|at| self.take_exactly(Class::ALL[at]))
    }

    fn take_exactly(&mut self, class: Class) -> Option<Block> {
        if self.partial[class as usize] == NONE {
            let whole = self.take_whole()?;
            let slab = &mut self.slabs[whole as usize];
            slab.class = class;
            slab.free = class.all_free();
            self.link(whole);
        }
        let index = self.partial[class as usize];
        let slab = &mut self.slabs[index as usize];
        let block = slab.free.trailing_zeros();
        slab.free &= slab.free - 1;
        if slab.free == 0 {
            self.unlink(index);
        }
        self.free_bytes -= u64::from(class.block());
        Some(Block {
            addr: u64::from(index) * u64::from(SLAB) + u64::from(block * class.block()),
            len: class.block(),
        })
    }

    /// A slab that belongs to no class, out of its list.
    fn take_whole(&mut self) -> Option<u32> {
        let has_memory = self.empty != NONE;
        let first = match has_memory {
            true => &mut self.empty,
            false => &mut self.fresh,
        };
        let index = *first;
        *first = self.slabs.get(index as usize)?.next;
        if has_memory {
            self.empties -= 1;
            self.least_empties = self.least_empties.min(self.empties);
        }
        Some(index)
    }

    /// Whether there are more free slabs with memory than are kept.
    pub fn has_spare(&self) -> bool {
        self.empties > KEPT && !self.keeps
    }

    /// From now on all memory stays.
    pub fn keep_all(&mut self) {
        self.keeps = true;
    }

    /// Looks for slabs whose memory can go, at the time `now` (CLOCK_MONOTONIC, in nanoseconds): those
    /// beyond what is kept that were free since the last look, a second ago or longer; the longest unused
    /// first. Walks over the free slabs once a second at most.
    pub fn look(&mut self, now: u64) -> Look {
        if !self.has_spare() {
            return Look::Nothing;
        }
        if now >= self.due {
            self.due = now + UNUSED_FOR_NS;
            self.seen_to_until = 0;
            let spare = self.take_spare();
            self.least_empties = self.empties;
            if !spare.0.is_empty() {
                return Look::Now(spare);
            }
        }
        if now < self.seen_to_until {
            return Look::Nothing;
        }
        self.seen_to_until = self.due;
        Look::Later(self.due - now)
    }

    /// Who was to [look later](Look::Later) sleeps no longer.
    pub fn looks_no_longer(&mut self) {
        self.seen_to_until = 0;
    }

    fn take_spare(&mut self) -> Spare {
        let spare = self.least_empties.min(self.empties).saturating_sub(KEPT);
        let spare = spare.min(AT_ONCE as u32);
        let mut taken = ArrayVec::new();
        if spare == 0 {
            return Spare(taken);
        }
        // The last ones of the list were free for the longest time.
        let mut last = self.empty;
        for _ in 1..self.empties - spare {
            last = self.slabs[last as usize].next;
        }
        let mut at = std::mem::replace(&mut self.slabs[last as usize].next, NONE);
        while at != NONE {
            taken.push(at);
            let slab = &mut self.slabs[at as usize];
            slab.free = 0;
            at = slab.next;
        }
        self.empties -= spare;
        self.free_bytes -= u64::from(spare) * u64::from(SLAB);
        taken.sort_unstable();
        Spare(taken)
    }

    /// The inverse of a look that took slabs. `given`: they have no memory any more. If not, that is not
    /// tried again.
    pub fn put_back(&mut self, spare: Spare, given: bool) {
        self.keeps |= !given;
        for index in spare.0.into_iter().rev() {
            let list = match given {
                true => &mut self.fresh,
                false => &mut self.empty,
            };
            let slab = &mut self.slabs[index as usize];
            slab.class = Class::Large;
            slab.free = Class::Large.all_free();
            slab.next = std::mem::replace(list, index);
            self.empties += u32::from(!given);
            self.free_bytes += u64::from(SLAB);
        }
    }

    /// Takes `bytes`, rounded up to whole slabs, in one piece; `None`: no such piece is free outside of
    /// the reserve. Costs a walk over the slabs. It goes back by [`give_run_back`](Self::give_run_back).
    pub fn take_run(&mut self, bytes: u64) -> Option<Run> {
        let count = usize::try_from(bytes.div_ceil(u64::from(SLAB))).ok()?;
        let len = u64::try_from(count).ok()?.checked_mul(u64::from(SLAB))?;
        if count == 0 || len > self.free_bytes.saturating_sub(self.reserve) {
            return None;
        }
        let is_whole = |slab: &Slab| slab.free == slab.class.all_free();
        let first = self
            .slabs
            .windows(count)
            .position(|run| run.iter().all(is_whole))?;
        let run = first as u32..(first + count) as u32;
        (self.empty, self.empties) = self.without(&run, self.empty);
        self.least_empties = self.least_empties.min(self.empties);
        (self.fresh, _) = self.without(&run, self.fresh);
        for slab in &mut self.slabs[first..first + count] {
            slab.class = Class::Large;
            slab.free = 0;
        }
        self.free_bytes -= len;
        let addr = u64::from(run.start) * u64::from(SLAB);
        Some(Run {
            addr,
            len,
            of: None,
        })
    }

    /// The list that begins with `first` without the slabs of a run, in its order: its first, and how many
    /// there are.
    fn without(&mut self, run: &std::ops::Range<u32>, first: u32) -> (u32, u32) {
        let (mut kept, mut last, mut count) = (NONE, NONE, 0);
        let mut at = first;
        while at != NONE {
            let next = std::mem::replace(&mut self.slabs[at as usize].next, NONE);
            if !run.contains(&at) {
                match self.slabs.get_mut(last as usize) {
                    Some(last) => last.next = at,
                    None => kept = at,
                }
                (last, count) = (at, count + 1);
            }
            at = next;
        }
        (kept, count)
    }

    /// Gives a run back as a whole.
    pub fn give_run_back(&mut self, run: Run) {
        for slab in 0..run.len / u64::from(SLAB) {
            self.give_back(run.addr + slab * u64::from(SLAB));
        }
    }

    /// Gives a block back by the address that [`take`](Self::take) returned.
    ///
    /// An address that is no block, or is free already, is ignored: the caller's books are wrong,
    /// and giving the same bytes to two connections would be worse than losing a block.
    pub fn give_back(&mut self, addr: u64) {
        let index = addr / u64::from(SLAB);
        let Some(slab) = usize::try_from(index)
            .ok()
            .and_then(|at| self.slabs.get_mut(at))
        else {
            debug_assert!(false, "no slab at {addr:#x}");
            return;
        };
        let class = slab.class;
        let bit = 1 << ((addr % u64::from(SLAB)) as u32 / class.block());
        if slab.free & bit != 0 {
            debug_assert!(false, "block {addr:#x} given back twice");
            return;
        }
        let was_full = slab.free == 0;
        slab.free |= bit;
        let index = index as u32;
        self.free_bytes += u64::from(class.block());
        if self.slabs[index as usize].free == class.all_free() {
            if !was_full {
                self.unlink(index);
            }
            let slab = &mut self.slabs[index as usize];
            slab.next = self.empty;
            self.empty = index;
            self.empties += 1;
        } else if was_full {
            self.link(index);
        }
    }

    /// Puts a slab at the front of its class.
    fn link(&mut self, index: u32) {
        let class = self.slabs[index as usize].class as usize;
        let next = std::mem::replace(&mut self.partial[class], index);
        let slab = &mut self.slabs[index as usize];
        slab.previous = NONE;
        slab.next = next;
        if next != NONE {
            self.slabs[next as usize].previous = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Slab {
            class,
            next,
            previous,
            ..
        } = self.slabs[index as usize];
        match previous {
            NONE => self.partial[class as usize] = next,
            _ => self.slabs[previous as usize].next = next,
        }
        if next != NONE {
            self.slabs[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn connections_that_never_acknowledge_leave_memory_for_others() {
        let mut pool = SendPool::new(64 * u64::from(SLAB));
        // Every connection takes as much as it is given.
        for _ in 0..40 {
            let mut held = 0;
            while let Some(block) = pool.take_share(Class::Large, held) {
                held += u64::from(block.len);
            }
            assert!(held > 0, "nothing for one that has nothing");
        }
        assert!(pool.free_bytes() > 0);
    }

    #[test]
    fn a_block_fits_what_it_was_asked_for() {
        assert_eq!(Class::for_bytes(1), Class::Small);
        assert_eq!(Class::for_bytes(2048), Class::Small);
        assert_eq!(Class::for_bytes(2049), Class::Medium);
        assert_eq!(Class::for_bytes(16 * 1024 + 1), Class::Large);
        assert_eq!(Class::for_bytes(10 << 20), Class::Large);
    }

    #[test]
    fn a_slab_serves_another_class_once_it_is_whole_again() {
        let mut pool = SendPool::new(u64::from(SLAB));
        let small: Vec<_> = (0..32).map(|_| pool.take(Class::Small).unwrap()).collect();
        assert_eq!(pool.take(Class::Small), None);
        for block in &small[1..] {
            pool.give_back(block.addr);
        }
        // A large block is not to be had while one small one is out: a small one comes instead.
        assert_eq!(
            pool.take(Class::Large).map(|block| block.len),
            Some(Class::Small.block())
        );
        pool.give_back(small[1].addr);
        pool.give_back(small[0].addr);
        assert_eq!(pool.free_bytes(), u64::from(SLAB));
        assert_eq!(pool.take(Class::Large), Some(Block { addr: 0, len: SLAB }));
        assert_eq!(pool.take(Class::Small), None);
    }

    #[test]
    fn an_area_smaller_than_a_slab_gives_nothing() {
        assert_eq!(SendPool::new(1000).take(Class::Small), None);
    }

    #[test]
    fn a_run_is_in_one_piece_and_comes_back_as_slabs() {
        let slab = u64::from(SLAB);
        let mut pool = SendPool::new(16 * slab);
        let total = pool.free_bytes();
        let small = pool.take(Class::Small).unwrap();
        assert_eq!(small.addr, 0);
        // An eighth is kept for connections that hold nothing.
        assert_eq!(pool.take_run(14 * slab), None);
        assert_eq!(pool.take_run(0), None);
        assert_eq!(pool.take_run(u64::MAX), None);
        let run = pool.take_run(12 * slab + 1).unwrap();
        assert_eq!((run.addr, run.len), (slab, 13 * slab));
        // What is left is outside of the run.
        for addr in [14 * slab, 15 * slab] {
            let block = pool.take(Class::Large).unwrap();
            assert!(
                block.len == SLAB && block.addr >= 14 * slab,
                "{addr} {block:?}"
            );
        }
        assert!(pool.take(Class::Large).unwrap().addr < slab);
        pool.give_back(2048);
        pool.give_back(14 * slab);
        pool.give_back(15 * slab);
        pool.give_run_back(run);
        pool.give_back(small.addr);
        assert_eq!(pool.free_bytes(), total);
    }

    /// Takes large blocks until there are none.
    fn take_all(pool: &mut SendPool) -> Vec<u64> {
        std::iter::from_fn(|| Some(pool.take(Class::Large)?.addr)).collect()
    }

    #[test]
    fn what_was_free_for_a_second_goes_and_comes_again() {
        let second = UNUSED_FOR_NS;
        let mut pool = SendPool::new(32 * u64::from(SLAB));
        let total = pool.free_bytes();
        assert_eq!(pool.look(5 * second), Look::Nothing, "nothing was touched");
        let blocks: Vec<u64> = (0..20)
            .map(|_| pool.take(Class::Large).unwrap().addr)
            .collect();
        assert_eq!(pool.look(5 * second), Look::Nothing, "nothing is free");
        for addr in &blocks[2..] {
            pool.give_back(*addr);
        }
        // 18 are free, and were in use since the last look.
        assert_eq!(pool.look(6 * second), Look::Later(second));
        assert_eq!(
            pool.look(6 * second + 1),
            Look::Nothing,
            "somebody will look"
        );
        pool.looks_no_longer();
        assert_eq!(pool.look(6 * second + 2), Look::Later(second - 2));
        // Of them, three are needed now and then.
        let now_and_then: Vec<u64> = (0..3)
            .map(|_| pool.take(Class::Large).unwrap().addr)
            .collect();
        for addr in now_and_then {
            pool.give_back(addr);
        }
        let Look::Now(spare) = pool.look(7 * second) else {
            panic!("15 were free all the time");
        };
        assert_eq!(spare.0.len() as u32, 15 - KEPT);
        let bytes: u64 = spare.stretches().map(|(_, len)| len).sum();
        assert_eq!(bytes, u64::from((15 - KEPT) * SLAB));
        assert_eq!(spare.stretches().count(), 1, "{spare:?}");
        assert!(pool.free_bytes() == total - bytes - u64::from(2 * SLAB));
        pool.put_back(spare, true);
        assert_eq!(pool.look(7 * second), Look::Later(second), "seven are left");
        let Look::Now(spare) = pool.look(8 * second) else {
            panic!("they were not needed");
        };
        assert_eq!(spare.0.len(), 3);
        pool.put_back(spare, true);
        assert_eq!(pool.look(9 * second), Look::Nothing, "few are kept");
        pool.give_back(blocks[0]);
        pool.give_back(blocks[1]);
        assert_eq!(pool.free_bytes(), total);
        let mut all = take_all(&mut pool);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 32, "each is there once");
    }

    #[test]
    fn what_cannot_go_stays_for_good() {
        let mut pool = SendPool::new(32 * u64::from(SLAB));
        let all = take_all(&mut pool);
        for addr in all {
            pool.give_back(addr);
        }
        assert!(matches!(pool.look(UNUSED_FOR_NS), Look::Later(_)));
        let Look::Now(spare) = pool.look(2 * UNUSED_FOR_NS) else {
            panic!("all are free");
        };
        assert!(take_all(&mut pool).len() as u32 == KEPT, "nobody gets them");
        pool.put_back(spare, false);
        assert_eq!(pool.look(9 * UNUSED_FOR_NS), Look::Nothing);
        assert_eq!(take_all(&mut pool).len() as u32, 32 - KEPT);
    }

    #[test]
    fn a_run_takes_slabs_of_either_kind() {
        let mut pool = SendPool::new(32 * u64::from(SLAB));
        let blocks: Vec<u64> = (0..16)
            .map(|_| pool.take(Class::Large).unwrap().addr)
            .collect();
        for addr in blocks {
            pool.give_back(addr);
        }
        assert!(matches!(pool.look(UNUSED_FOR_NS), Look::Later(_)));
        // Of what has memory two are left, and of the rest some.
        let run = pool.take_run(14 * u64::from(SLAB)).unwrap();
        let beside = pool.take_run(12 * u64::from(SLAB)).unwrap();
        assert_eq!((run.addr, beside.addr), (0, 14 * u64::from(SLAB)));
        assert!(!pool.has_spare());
        assert_eq!(take_all(&mut pool).len(), 6);
        pool.give_run_back(run);
        pool.give_run_back(beside);
        assert!(pool.has_spare());
        assert_eq!(take_all(&mut pool).len(), 26);
    }

    /// Takes and gives in a pseudo-random order; no two blocks that are out ever overlap, and
    /// everything comes back.
    #[test]
    fn blocks_never_overlap() {
        let mut pool = SendPool::new(20 * u64::from(SLAB) + 17);
        let total = pool.free_bytes();
        let (mut now, mut gone) = (0, 0);
        let mut out: BTreeMap<u64, u32> = BTreeMap::new();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..50_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let takes = if step % 2_000 < 1_000 { 3 } else { 1 };
            if state % 5 < takes {
                let class = Class::ALL[(state >> 20) as usize % 3];
                if let Some(block) = pool.take(class) {
                    assert!(block.len <= class.block());
                    let before = out.range(..=block.addr).next_back();
                    assert!(before.is_none_or(|(addr, len)| addr + u64::from(*len) <= block.addr));
                    let after = out.range(block.addr..).next();
                    assert!(
                        after.is_none_or(|(addr, _)| block.addr + u64::from(block.len) <= *addr)
                    );
                    out.insert(block.addr, block.len);
                }
            } else if let Some(addr) = out
                .keys()
                .nth((state >> 20) as usize % out.len().max(1))
                .copied()
            {
                out.remove(&addr);
                pool.give_back(addr);
            }
            now += UNUSED_FOR_NS / 16;
            if let Look::Now(spare) = pool.look(now) {
                gone += spare.0.len();
                pool.put_back(spare, true);
            }
            let used: u64 = out.values().map(|len| u64::from(*len)).sum();
            assert_eq!(pool.free_bytes(), total - used);
        }
        assert!(gone > 0);
        for addr in out.into_keys() {
            pool.give_back(addr);
        }
        assert_eq!(pool.free_bytes(), total);
        assert!((0..20).all(|_| {
            pool.take(Class::Large)
                .is_some_and(|block| block.len == SLAB)
        }));
    }
}
