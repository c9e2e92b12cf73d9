//! A region: the memory that one host process and the engine share.
//!
//! The engine [creates](create) it as a sealed memfd, publishes the header and keeps its own copy
//! of the layout, which it never reads again. The host [attaches](attach): it checks the seals and
//! the header, maps the memory and keeps it from its children. Then each side owns its ends of the
//! rings and armed words, and both see both areas.

use crate::accept_word::AcceptWord;
use crate::area::Area;
use crate::armed::{Armed, Sleepers};
use crate::core_word::CoreWord;
use crate::descriptor::{CONNECT_BLOCK_LEN, Completion, ConnectBlock, Submission};
use crate::layout::{self, Layout};
use crate::memfd::{self, MemfdError};
use crate::memory::Memory;
use crate::opening::OpeningWord;
use crate::ring::{Consumer, Producer};
use crate::version;
use crate::violation::Violation;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;

pub use crate::words::{Positions, RegionWord, RingCells};

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
