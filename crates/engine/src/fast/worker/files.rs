//! Sending from files. The TCP says when bytes leave; they are read then, into what leaves, by calls that
//! do not wait ([`OpenFile`](crate::fast::memory::OpenFile)). What is not in memory is fetched by a thread
//! that may wait, for which the slow half sends; until it is back, the connection sends nothing, and all
//! others go on.

use std::sync::Arc;

use netdev::Device;
use rustix::io::Errno;
use tcp::{ConnId, Extent};

use super::Worker;
use crate::exchange::{FETCHES, Fetch, Fetched, SessionKey, Tale};
use crate::fast::connections::SessionId;
use crate::fast::memory::{Memory, OpenFile};
use crate::fast::session::EndReason;
use crate::network::Network;

/// What is being fetched for one session: what others wait for must not be all that there can be.
const FETCHES_OF_SESSION: usize = 16;
/// Connections that try again when one has what it waited for.
const AGAIN: usize = 16;

/// What is fetched, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// Names the last one.
    number: u64,
    under_way: Vec<UnderWay>,
    /// Connections that wait for others to have what they wait for.
    later: Vec<ConnId>,
}

#[derive(Debug)]
struct UnderWay {
    number: u64,
    session: SessionKey,
    file: u16,
    offset: u64,
    waiting: Vec<ConnId>,
}

impl Fetches {
    /// Whether somebody is to try again who is told by nobody that he may.
    pub fn any_later(&self) -> bool {
        !self.later.is_empty()
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A session may send from a file from now on; its name.
    pub(super) fn add_file(&mut self, id: SessionId, file: Arc<OpenFile>) -> Result<u16, Errno> {
        let files = self.memory.files_of(id).ok_or(Errno::BADF)?;
        files.add(file).ok_or(Errno::MFILE)
    }

    /// A session sends nothing more from a file.
    pub(super) fn forget_file(&mut self, id: SessionId, file: u16) -> Result<(), EndReason> {
        let taken = self.memory.files_of(id).and_then(|files| files.take(file));
        let taken = taken.ok_or(EndReason::ForeignFile(file))?;
        self.slow.tell(Tale::Forgotten(taken));
        Ok(())
    }

    /// The extent that a session names in one of its files.
    pub(super) fn in_file(
        &mut self,
        id: SessionId,
        file: u16,
        offset: u64,
        len: u32,
    ) -> Result<Extent, EndReason> {
        let files = self.memory.files_of(id);
        if files.and_then(|files| files.get(file)).is_none() {
            return Err(EndReason::ForeignFile(file));
        }
        let extent = Memory::extent_of_file(id, file, offset, len);
        extent.ok_or(EndReason::BeyondFiles { offset, len })
    }

    /// Sees to what sending has found out about files; true if there is something to be sent for it.
    pub(super) fn see_to_files(&mut self) -> bool {
        let mut resets = false;
        while let Some(conn) = self.findings.gone.pop() {
            self.end_for_its_file(conn);
            resets = true;
        }
        while let Some((conn, extent)) = self.findings.away.pop() {
            self.counters.file_waits += 1;
            self.fetch(conn, extent);
        }
        self.findings.refused = None;
        resets
    }

    /// What a connection is to send next cannot be had: a hole in the stream would be worse than its end.
    fn end_for_its_file(&mut self, conn: ConnId) {
        self.counters.files_short += 1;
        self.stack.payload_is_lost(self.now, conn);
    }

    /// Has fetched what a connection waits for.
    fn fetch(&mut self, conn: ConnId, extent: Extent) {
        let Some((id, file, offset)) = Memory::file_of(extent) else {
            return;
        };
        let session = self.sessions.get(id);
        let open = self.memory.files_of(id).and_then(|files| files.get(file));
        let (Some(session), Some(open)) = (session, open) else {
            self.end_for_its_file(conn);
            return;
        };
        let key = SessionKey {
            id,
            number: session.number,
        };
        let fetches = &mut self.fetches;
        let covers = |it: &&mut UnderWay| {
            let window = it.offset..it.offset.saturating_add(Fetch::WINDOW);
            it.session == key && it.file == file && window.contains(&offset)
        };
        if let Some(under_way) = fetches.under_way.iter_mut().find(covers) {
            under_way.waiting.push(conn);
            return;
        }
        let own = fetches.under_way.iter().filter(|it| it.session == key);
        if fetches.under_way.len() >= FETCHES || own.count() >= FETCHES_OF_SESSION {
            fetches.later.push(conn);
            return;
        }
        fetches.number += 1;
        let number = fetches.number;
        fetches.under_way.push(UnderWay {
            number,
            session: key,
            file,
            offset,
            waiting: vec![conn],
        });
        let fetch = Fetch {
            number,
            uid: session.process.uid,
            file: Arc::clone(open),
            offset,
        };
        self.slow.tell(Tale::Fetch(Box::new(fetch)));
    }

    /// What was to be fetched is there, or will not be.
    pub(super) fn fetched(&mut self, number: u64, outcome: Fetched) {
        let under_way = &mut self.fetches.under_way;
        let Some(at) = under_way.iter().position(|it| it.number == number) else {
            return;
        };
        let done = under_way.swap_remove(at);
        for conn in done.waiting {
            match outcome {
                Fetched::There => self.stack.payload_is_there(conn),
                Fetched::Gone => self.end_for_its_file(conn),
                Fetched::NotNow => self.fetches.later.push(conn),
            }
        }
        if outcome == Fetched::There {
            self.try_files_again(AGAIN);
        }
    }

    /// Some connections that wait for nothing in particular try again.
    pub(super) fn try_files_again(&mut self, most: usize) {
        let later = &mut self.fetches.later;
        for conn in later.drain(..most.min(later.len())) {
            self.stack.payload_is_there(conn);
        }
    }
}
