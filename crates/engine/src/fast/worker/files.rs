//! Sending from files. The TCP says when bytes leave; they are read then, into what leaves, by calls that
//! do not wait ([`OpenFile`](crate::fast::memory::OpenFile)). What is not in memory is fetched by a thread
//! that may wait, for which the slow half sends; until it is back, the connection sends nothing, and all
//! others go on. Whoever sends one part after the other does not come to that twice, if the disk is fast
//! enough: the same thread has the next part read before it is needed
//! ([`Readers`](crate::fast::memory::Readers)).

use core::ops::Range;
use std::sync::Arc;

use netdev::Device;
use rustix::io::Errno;
use tcp::{ConnId, Extent};

use super::Worker;
use crate::config::shares;
use crate::exchange::{FETCHES, Fetch, Fetched, SessionKey, Tale};
use crate::fast::connections::SessionId;
use crate::fast::memory::{Memory, OpenFile, WINDOW};
use crate::fast::session::EndReason;
use crate::network::Network;

/// What is being fetched for one session: what others wait for must not be all that there can be.
const FETCHES_OF_SESSION: usize = 16;
/// As many of all, and of one session, may be under way when nobody waits for the next one: who waits goes first.
const AHEAD: (usize, usize) = (FETCHES / 2, FETCHES_OF_SESSION / 2);
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
    /// Whose it counts as.
    uid: u32,
    file: u16,
    part: Range<u64>,
    /// Nobody waits for it, and who comes to it nevertheless has it fetched once more.
    is_ahead: bool,
    waiting: Vec<ConnId>,
}

impl Fetches {
    /// Whether one more may be sent for within its user's share of `all`, while there are fewer than `own` of the
    /// same session.
    fn has_room(&self, (whose, uid): (SessionKey, u32), (all, own): (usize, usize)) -> bool {
        let of_session = self.under_way.iter().filter(|it| it.session == whose);
        let holders = self.under_way.iter().map(|it| it.uid);
        of_session.count() < own && shares::has_room(all, uid, holders)
    }

    /// Whether somebody is to try again who is told by nobody that he may.
    pub fn any_later(&self) -> bool {
        !self.later.is_empty()
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A session may send from a file from now on; its name. What is refused goes back: whoever has shown it may be
    /// gone, and then this would be its last holder.
    pub(super) fn add_file(
        &mut self,
        session: Option<SessionId>,
        file: Arc<OpenFile>,
    ) -> Result<u16, Errno> {
        let files = session.map(|id| self.memory.files_of(id));
        let (errno, file) = match files {
            Some(Some(files)) => match files.add(file) {
                Ok(name) => return Ok(name),
                Err(file) => (Errno::MFILE, file),
            },
            Some(None) => (Errno::BADF, file),
            None => (Errno::NOTCONN, file),
        };
        self.slow.tell(Tale::Forgotten(file));
        Err(errno)
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
        while let Some(extent) = self.findings.marks.pop() {
            self.fetch_ahead(extent);
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
        let Some((whose, uid)) = self.key_of(id) else {
            self.end_for_its_file(conn);
            return;
        };
        let fetches = &mut self.fetches;
        let covers = |it: &&mut UnderWay| {
            let same = it.session == whose && it.file == file && !it.is_ahead;
            same && it.part.contains(&offset)
        };
        if let Some(under_way) = fetches.under_way.iter_mut().find(covers) {
            under_way.waiting.push(conn);
            return;
        }
        if !fetches.has_room((whose, uid), (FETCHES, FETCHES_OF_SESSION)) {
            fetches.later.push(conn);
            return;
        }
        let held = self.memory.files_of(id).and_then(|it| it.get_mut(file));
        let Some(next) = held.map(|held| held.readers.wait(offset)) else {
            self.end_for_its_file(conn);
            return;
        };
        let part = offset..offset.saturating_add(WINDOW);
        self.send_for(whose, file, part, Some(conn));
        // The disk is busy with what was begun before: he who waits need not wait until more is.
        if let Some(part) = next.filter(|_| self.fetches.has_room((whose, uid), AHEAD)) {
            self.send_for(whose, file, part, None);
        }
    }

    /// Has the disk go on for whoever reads where this extent is, if others leave room for that.
    fn fetch_ahead(&mut self, extent: Extent) {
        let Some((id, file, offset)) = Memory::file_of(extent) else {
            return;
        };
        let whose = self.key_of(id);
        let held = self.memory.files_of(id).and_then(|it| it.get_mut(file));
        let (Some(held), Some((whose, uid))) = (held, whose) else {
            return;
        };
        // It is asked again wherever he reads, until it is passed.
        if !self.fetches.has_room((whose, uid), AHEAD) {
            return;
        }
        if let Some(part) = held.readers.pass(offset) {
            self.send_for(whose, file, part, None);
        }
    }

    /// What a session is called where it may be gone by the time of an answer, and its user.
    fn key_of(&self, id: SessionId) -> Option<(SessionKey, u32)> {
        let session = self.sessions.get(id)?;
        let number = session.number;
        Some((SessionKey { id, number }, session.process.uid))
    }

    /// Sends for part of a file, for which a connection waits, or nobody.
    fn send_for(&mut self, whose: SessionKey, file: u16, part: Range<u64>, waits: Option<ConnId>) {
        let session = self.sessions.get(whose.id);
        let files = self.memory.files_of(whose.id);
        let held = files.and_then(|files| files.get(file));
        let (Some(session), Some(held)) = (session, held) else {
            if let Some(conn) = waits {
                self.end_for_its_file(conn);
            }
            return;
        };
        let fetches = &mut self.fetches;
        fetches.number += 1;
        let number = fetches.number;
        fetches.under_way.push(UnderWay {
            number,
            session: whose,
            uid: session.process.uid,
            file,
            part: part.clone(),
            is_ahead: waits.is_none(),
            waiting: waits.into_iter().collect(),
        });
        let fetch = Fetch {
            number,
            uid: session.process.uid,
            file: Arc::clone(&held.file),
            part,
            is_ahead: waits.is_none(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_has_all_that_is_fetched_however_many_sessions_it_has() {
        let whose = |number: u32| SessionKey {
            id: SessionId(number as u16),
            number,
        };
        let mut fetches = Fetches::default();
        let most = (FETCHES, FETCHES_OF_SESSION);
        let mut begin = |session: u32, uid| {
            let has_room = fetches.has_room((whose(session), uid), most);
            if has_room {
                fetches.under_way.push(UnderWay {
                    number: 0,
                    session: whose(session),
                    uid,
                    file: 0,
                    part: 0..1,
                    is_ahead: false,
                    waiting: Vec::new(),
                });
            }
            has_room
        };
        // As often as a session may, of as many sessions as would do for all.
        let of_one =
            (0..FETCHES_OF_SESSION * FETCHES).filter(|n| begin((n / FETCHES) as u32, 1000));
        assert_eq!(of_one.count(), FETCHES / 2);
        assert!(begin(77, 1001));
        let of_session = (0..FETCHES).filter(|_| begin(78, shares::ROOT));
        assert_eq!(of_session.count(), FETCHES_OF_SESSION);
    }
}
