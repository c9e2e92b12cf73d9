//! A region: the memory that one host process and the engine share.
//!
//! The engine [creates](create) it as a sealed memfd, publishes the header and keeps its own copy
//! of the layout, which it never reads again. The host [attaches](attach): it checks the seals and
//! the header, maps the memory and keeps it from its children. Then each side owns its ends of the
//! rings and armed words, and both see both areas.

use crate::accept_word::AcceptWord;
use crate::area::Area;
use crate::armed::{Armed, Sleepers, Word};
use crate::core_word::CoreWord;
use crate::descriptor::{CONNECT_BLOCK_LEN, Completion, ConnectBlock, Submission};
use crate::layout::{self, Layout};
use crate::memfd::{self, MemfdError};
use crate::memory::Memory;
use crate::opening::OpeningWord;
use crate::ring::{Cells, Consumer, Producer};
use crate::version;
use crate::violation::Violation;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;

/// What the engine holds of a region.
#[derive(Debug)]
pub struct EngineSide {
    /// What the host asks for.
    pub submissions: Consumer<Submission, RingCells>,
    /// What the engine reports.
    pub completions: Producer<Completion, RingCells>,
    /// How far the host has read each connection.
    pub positions: Positions,
    /// Written by the host.
    pub send: Area,
    /// Written by the engine.
    pub receive: Area,
    /// The engine's own armed word; its only sleeper is 0.
    pub armed: Armed<RegionWord>,
    /// The host's threads that sleep: one bit for each waker it was given.
    pub sleepers: Sleepers<RegionWord>,
    /// Who opens connections, for the host to read.
    pub opening: OpeningWord,
    /// On which core the host last ran, as it says.
    pub core: CoreWord,
    /// When the host last accepted a connection, as it says.
    pub accepted: AcceptWord,
    /// Where everything lies.
    pub layout: Layout,
    memory: Arc<Memory>,
}

/// What a host process holds of a region.
#[derive(Debug)]
pub struct HostSide {
    /// What the host asks for.
    pub submissions: Producer<Submission, RingCells>,
    /// What the engine reports.
    pub completions: Consumer<Completion, RingCells>,
    /// How far this process has read each connection.
    pub positions: Positions,
    /// Written by the host.
    pub send: Area,
    /// Written by the engine.
    pub receive: Area,
    /// The host's own armed word: one bit for each waker.
    pub armed: Armed<RegionWord>,
    /// The engine, if it sleeps: not zero means ring.
    pub sleepers: Sleepers<RegionWord>,
    /// Who opens connections.
    pub opening: OpeningWord,
    /// On which core the host last ran, for the engine to read.
    pub core: CoreWord,
    /// When the host last accepted a connection, for the engine to read.
    pub accepted: AcceptWord,
    /// Where everything lies.
    pub layout: Layout,
}

/// Creates a region: the file to hand to the host, and the engine's side of it.
///
/// # Errors
/// The kernel's, when it has no memory to give.
pub fn create(layout: &Layout) -> io::Result<(OwnedFd, EngineSide)> {
    let len = usize::try_from(layout.total_len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let fd = memfd::create("outboard-region", layout.total_len)?;
    let memory = Arc::new(Memory::map(&fd, len)?.survive_loss()?);
    layout.publish(&memory);
    if memory.is_lost() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    Ok((fd, EngineSide::new(&memory, *layout)))
}

/// Maps the region that the engine handed over, after checking its seals and header.
///
/// # Errors
/// It is not a region of this version, or the kernel refuses to map it.
pub fn attach(fd: impl AsFd) -> Result<HostSide, MemfdError> {
    let size = memfd::verify(&fd)?;
    let len =
        usize::try_from(size)
            .ok()
            .filter(|len| *len != 0)
            .ok_or(Violation::ImpossibleSize {
                field: "total_len",
                found: size,
            })?;
    let memory = Arc::new(Memory::map(&fd, len)?);
    memory.keep_from_children()?;
    let layout = Layout::read(&memory)?;
    Ok(HostSide::new(&memory, layout))
}

/// Both sides of a region on the heap of one process: for tests, and for whatever cannot make a
/// memfd, such as miri.
///
/// # Errors
/// None but a defect: the host's side validates the header as it would any.
pub fn on_heap(layout: &Layout) -> Result<(EngineSide, HostSide), Violation> {
    let len = usize::try_from(layout.total_len).expect("a test region fits in memory");
    let memory = Arc::new(Memory::heap(len));
    layout.publish(&memory);
    let read = Layout::read(&memory)?;
    Ok((
        EngineSide::new(&memory, *layout),
        HostSide::new(&memory, read),
    ))
}

impl EngineSide {
    fn new(memory: &Arc<Memory>, layout: Layout) -> Self {
        Self {
            submissions: Consumer::new(RingCells::submission(memory, &layout)),
            completions: Producer::new(RingCells::completion(memory, &layout)),
            positions: Positions::new(memory, &layout),
            send: Area::new("send", memory, layout.send_at, layout.sizes.send_len),
            receive: Area::new(
                "receive",
                memory,
                layout.receive_at,
                layout.sizes.receive_len,
            ),
            armed: Armed::new(RegionWord::new(memory, layout::ENGINE_ARMED_AT)),
            sleepers: Sleepers::new(RegionWord::new(memory, layout::HOST_ARMED_AT)),
            opening: OpeningWord::new(RegionWord::new(memory, layout::OPENING_AT)),
            core: CoreWord::new(RegionWord::new(memory, layout::CORE_AT)),
            accepted: AcceptWord::new(RegionWord::new(memory, layout::ACCEPTED_AT)),
            layout,
            memory: Arc::clone(memory),
        }
    }

    /// The next submission, if there is one: a word of the version that is spoken here.
    ///
    /// # Errors
    /// As [`Consumer::take`], and for a word that came with a later version: the host has agreed on one
    /// that has not got it, so this side would believe what it has never said.
    pub fn take_submission(&mut self) -> Result<Option<Submission>, Violation> {
        let taken = self.submissions.take()?;
        if let Some(submission) = &taken {
            version::check("submission", submission.since(), self.layout.version)?;
        }
        Ok(taken)
    }

    /// What a host asks for with a connection to open, whose block lies at `addr` of the send area.
    ///
    /// # Errors
    /// It does not lie there, a value is not defined, or one came with a later version than is spoken here.
    pub fn connect_block(&self, addr: u64) -> Result<ConnectBlock, Violation> {
        let mut bytes = [0; CONNECT_BLOCK_LEN];
        self.send.copy_out(addr, &mut bytes)?;
        let block = ConnectBlock::decode(&bytes)?;
        version::check("Fast Open", block.fast_open.since(), self.layout.version)?;
        Ok(block)
    }

    /// Whether the kernel had a page of it to give no more: what is read there is zeros, what is written
    /// the host does not see, and the session is to end. See [`lost`](crate::lost).
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }
}

impl HostSide {
    /// Lets go of the region without unmapping it: for the child of a fork, in which it is not
    /// mapped and its addresses may mean something else by now.
    ///
    /// Clones of the areas can still be dropped later: what is forgotten here keeps its share, so
    /// none of them is the last.
    pub fn forget(self) {
        core::mem::forget(self);
    }

    fn new(memory: &Arc<Memory>, layout: Layout) -> Self {
        Self {
            submissions: Producer::new(RingCells::submission(memory, &layout)),
            completions: Consumer::new(RingCells::completion(memory, &layout)),
            positions: Positions::new(memory, &layout),
            send: Area::new("send", memory, layout.send_at, layout.sizes.send_len),
            receive: Area::new(
                "receive",
                memory,
                layout.receive_at,
                layout.sizes.receive_len,
            ),
            armed: Armed::new(RegionWord::new(memory, layout::HOST_ARMED_AT)),
            sleepers: Sleepers::new(RegionWord::new(memory, layout::ENGINE_ARMED_AT)),
            opening: OpeningWord::new(RegionWord::new(memory, layout::OPENING_AT)),
            core: CoreWord::new(RegionWord::new(memory, layout::CORE_AT)),
            accepted: AcceptWord::new(RegionWord::new(memory, layout::ACCEPTED_AT)),
            layout,
        }
    }
}

/// The words of a ring in a region.
#[derive(Debug)]
pub struct RingCells {
    produced: RegionPointer<AtomicU32>,
    consumed: RegionPointer<AtomicU32>,
    entries: RegionPointer<[AtomicU64; 4]>,
    capacity: u32,
}

impl RingCells {
    fn submission(memory: &Arc<Memory>, layout: &Layout) -> Self {
        Self::new(
            memory,
            layout::SUBMISSION_PRODUCED_AT,
            layout::SUBMISSION_CONSUMED_AT,
            layout.submission_at,
            layout.sizes.submission_entries,
        )
    }

    fn completion(memory: &Arc<Memory>, layout: &Layout) -> Self {
        Self::new(
            memory,
            layout::COMPLETION_PRODUCED_AT,
            layout::COMPLETION_CONSUMED_AT,
            layout.completion_at,
            layout.sizes.completion_entries,
        )
    }

    fn new(memory: &Arc<Memory>, produced: usize, consumed: usize, at: u64, capacity: u32) -> Self {
        let at = usize::try_from(at).expect("a layout that fits its memory");
        // Both ends of the entries must be inside; `slot` relies on it.
        let last = at + (capacity as usize - 1) * size_of::<[AtomicU64; 4]>();
        let _ = memory.word_at::<[AtomicU64; 4]>(last);
        Self {
            produced: RegionPointer::new(memory, produced),
            consumed: RegionPointer::new(memory, consumed),
            entries: RegionPointer::new(memory, at),
            capacity,
        }
    }
}

impl Cells for RingCells {
    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn produced(&self) -> &AtomicU32 {
        self.produced.get()
    }

    fn consumed(&self) -> &AtomicU32 {
        self.consumed.get()
    }

    fn slot(&self, slot: u32) -> &[AtomicU64; 4] {
        assert!(slot < self.capacity, "a slot outside of its ring");
        // SAFETY: all `capacity` slots are inside the memory, as `new` has checked, the first is
        // aligned and so are the others; any bits are valid atomics; the memory outlives `self`.
        unsafe { self.entries.at.add(slot as usize).as_ref() }
    }
}

/// What a region has for each place in the engine's table of connections: a
/// [position](crate::position) and a word by which threads [sleep](crate::parked).
#[derive(Debug)]
pub struct Positions {
    places: RegionPointer<Place>,
    count: u32,
}

#[repr(C)]
#[derive(Debug)]
struct Place {
    position: AtomicU64,
    sleeper: AtomicU32,
    _unused: AtomicU32,
}

impl Positions {
    fn new(memory: &Arc<Memory>, layout: &Layout) -> Self {
        let at = usize::try_from(layout.positions_at).expect("a layout that fits its memory");
        let count = layout.sizes.positions;
        // Both ends must be inside; `place` relies on it.
        let _ = memory.word_at::<Place>(at + (count as usize - 1) * size_of::<Place>());
        Self {
            places: RegionPointer::new(memory, at),
            count,
        }
    }

    /// The position of the connection at `place`; `None` if there is no such place.
    pub fn word(&self, place: u32) -> Option<&AtomicU64> {
        self.place(place).map(|place| &place.position)
    }

    /// The word by which threads sleep on the connection at `place`; `None` if there is no such place.
    pub fn sleeper(&self, place: u32) -> Option<&AtomicU32> {
        self.place(place).map(|place| &place.sleeper)
    }

    fn place(&self, place: u32) -> Option<&Place> {
        if place >= self.count {
            return None;
        }
        // SAFETY: all `count` places are inside the memory, as `new` has checked, the first is aligned
        // and so are the others; any bits are valid atomics; the memory outlives `self`.
        Some(unsafe { self.places.at.add(place as usize).as_ref() })
    }
}

/// A single word of a region.
#[derive(Debug)]
pub struct RegionWord(RegionPointer<AtomicU64>);

impl RegionWord {
    fn new(memory: &Arc<Memory>, at: usize) -> Self {
        Self(RegionPointer::new(memory, at))
    }
}

impl Word for RegionWord {
    fn word(&self) -> &AtomicU64 {
        self.0.get()
    }
}

/// A pointer into a region that keeps the region alive: bounds are checked once, when it is made.
/// `T` is an atomic word or an array of them.
#[derive(Debug)]
struct RegionPointer<T> {
    at: NonNull<T>,
    /// Keeps `at` valid.
    _memory: Arc<Memory>,
}

// SAFETY: it is a shared reference to atomics together with a share in what it points to.
unsafe impl<T: Sync> Send for RegionPointer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for RegionPointer<T> {}

impl<T> RegionPointer<T> {
    fn new(memory: &Arc<Memory>, at: usize) -> Self {
        Self {
            at: memory.word_at(at),
            _memory: Arc::clone(memory),
        }
    }

    fn get(&self) -> &T {
        // SAFETY: `word_at` has checked bounds and alignment, any bits are valid atomics, and the
        // memory lives as long as `self`.
        unsafe { self.at.as_ref() }
    }
}
