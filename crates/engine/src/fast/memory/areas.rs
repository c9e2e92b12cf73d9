//! The memory of all sessions, by slot: what they receive into and what they send from.

use core::sync::atomic::AtomicU8;

use queue_pair::{Area, EngineSide};
use tcp::{ConnId, Extent, Instant, ListenerId, PayloadStore};

use super::budget::Budget;
use super::files::{Files, Held};
use super::pool::Pool;
use super::reclaim::{Reclaim, Upkeep};
use crate::exchange::SessionKey;
use crate::fast::connections::{Conn, Connections, PoolId, SessionId};
use crate::fast::listeners::Listeners;

/// Bits of an address that say where in a send area; those above say whose.
const OFFSET_BITS: u32 = 40;
/// Set in an address that is of a file: then which one stands above the offset, and whose above that.
const OF_FILE: u64 = 1 << 63;
/// Bits of such an address that say which file.
const FILE_BITS: u32 = Files::MOST.trailing_zeros();

/// Where the bytes of an extent are.
#[derive(Debug)]
pub enum Place<'a> {
    /// In memory.
    Memory(&'a [AtomicU8]),
    /// In a file, from this offset on.
    File(&'a Held, u64),
}

/// Receive pools and send areas.
#[derive(Debug)]
pub struct Memory {
    /// The engine's own pool, then one for each session's slot.
    pools: Vec<Option<Pool>>,
    /// One for each session's slot.
    send: Vec<Option<Area>>,
    /// What else each session's slot sends from.
    files: Vec<Files>,
    /// One for each session's slot.
    upkeep: Vec<Upkeep>,
    budget: Budget,
}

impl Memory {
    /// With a pool of `bytes` for what no process has been handed, of which each user has a share.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(super::CHUNK as usize);
        Self {
            pools: vec![Some(Pool::shared(Area::private("unaccepted", bytes)))],
            send: Vec::new(),
            files: Vec::new(),
            upkeep: Vec::new(),
            budget: Budget::of_bytes(u64::MAX),
        }
    }

    /// Sessions may make it touch so many bytes of their receive memory.
    pub fn set_budget(&mut self, bytes: u64) {
        self.budget = Budget::of_bytes(bytes);
    }

    /// Each session that comes may make it touch so many bytes in any case, of either kind.
    pub fn guarantee(&mut self, bytes: u64) {
        self.budget.guarantee(bytes);
    }

    /// How often there was receive memory that might not be touched any more.
    pub fn refused(&self) -> u64 {
        self.budget.refused()
    }

    /// How often there was no memory for what no process has been handed, of its user's share or at all.
    pub fn refused_unaccepted(&self) -> u64 {
        let own = self.pools.first().and_then(Option::as_ref);
        own.map_or(0, Pool::refused)
    }

    /// The engine's own pool, on a user's account.
    pub fn pool_for(&mut self, uid: u32) -> PoolId {
        let own = self.pools.first_mut().and_then(Option::as_mut);
        own.map_or(PoolId::ENGINE, |own| PoolId::shared(own.account_of(uid)))
    }

    /// Whether little is left that may be touched.
    pub fn is_short(&self) -> bool {
        self.budget.is_short()
    }

    /// The memory of a user's session comes.
    pub fn add(&mut self, session: SessionId, uid: u32, region: &EngineSide) {
        let (pool, slot) = (PoolId::of(session).index(), session.index());
        if self.pools.len() <= pool {
            self.pools.resize_with(pool + 1, || None);
        }
        if self.send.len() <= slot {
            self.send.resize_with(slot + 1, || None);
            self.files.resize_with(slot + 1, Files::default);
            self.upkeep.resize_with(slot + 1, Upkeep::default);
        }
        self.upkeep[slot] = Upkeep::default();
        self.pools[pool] = Some(Pool::within(region.receive.clone(), self.budget.allow(uid)));
        self.send[slot] = Some(region.send.clone());
    }

    /// A session's memory goes; no connection may refer to it any more. Its files are left, to be closed.
    pub fn remove(&mut self, session: SessionId) -> Files {
        if let Some(pool) = self.pools.get_mut(PoolId::of(session).index()) {
            *pool = None;
        }
        if let Some(area) = self.send.get_mut(session.index()) {
            *area = None;
        }
        self.files_of(session)
            .map(core::mem::take)
            .unwrap_or_default()
    }

    /// The files of a session.
    pub fn files_of(&mut self, session: SessionId) -> Option<&mut Files> {
        self.files.get_mut(session.index())
    }

    /// A pool, if its session is still there.
    #[inline]
    pub fn pool(&mut self, id: PoolId) -> Option<&mut Pool> {
        Some(named(id, self.pools.get_mut(id.index())?.as_mut()?))
    }

    /// Two different pools.
    pub fn two_pools(&mut self, a: PoolId, b: PoolId) -> Option<(&mut Pool, &mut Pool)> {
        let pools = self.pools.get_disjoint_mut([a.index(), b.index()]);
        let [of_a, of_b] = pools.ok()?;
        Some((named(a, of_a.as_mut()?), named(b, of_b.as_mut()?)))
    }

    /// Bytes that sessions hold to receive into, and to send from as far as that is known.
    pub fn held(&self) -> (u64, u64) {
        let sessions = self.pools.iter().skip(1).zip(&self.upkeep);
        let held = sessions.filter_map(|(pool, upkeep)| {
            let chunks = pool.as_ref()?.held();
            Some((u64::from(chunks) * u64::from(super::CHUNK), upkeep.sent))
        });
        held.fold((0, 0), |(receive, send), (chunks, sent)| {
            (receive + chunks, send + sent)
        })
    }

    /// Whether a session, which has done so much, has memory that is to be given back or looked at.
    pub fn is_restless(&self, session: SessionId, activity: u64) -> bool {
        let upkeep = self.upkeep.get(session.index());
        let pool = self.pools.get(PoolId::of(session).index());
        let has_spare = || pool.is_some_and(|pool| pool.as_ref().is_some_and(Pool::has_spare));
        upkeep.is_some_and(|upkeep| upkeep.is_restless(activity) || upkeep.is_free() && has_spare())
    }

    /// What of the memory of a user's session, which has done so much, is to be given back or looked at
    /// now: in a `hurry` all that is free. Called now and then.
    pub fn reclaim(
        &mut self,
        (key, uid): (SessionKey, u32),
        activity: u64,
        now: Instant,
        hurry: bool,
    ) -> Option<Reclaim> {
        let slot = key.id.index();
        let pool = self.pools.get_mut(PoolId::of(key.id).index())?.as_mut()?;
        let send = self.send.get(slot)?.as_ref()?;
        let upkeep = self.upkeep.get_mut(slot)?;
        upkeep.begin((key, uid), (pool, send), activity, now, hurry)
    }

    /// That is done, of a session that is still there: how many bytes were given back.
    pub fn reclaimed(&mut self, done: &Reclaim) -> u64 {
        let id = done.session.id;
        let pool = self.pools.get_mut(PoolId::of(id).index());
        let (Some(Some(pool)), Some(upkeep)) = (pool, self.upkeep.get_mut(id.index())) else {
            return 0;
        };
        u64::from(upkeep.end(done, pool)) * u64::from(super::CHUNK)
    }

    /// Chunks that are free, over all pools.
    pub fn available(&self) -> u64 {
        let pools = self.pools.iter().flatten();
        pools.map(|pool| u64::from(pool.unused())).sum()
    }

    /// The extent that stands for `len` bytes at `offset` of a session's send area.
    pub fn extent(session: SessionId, offset: u64, len: u32) -> Extent {
        debug_assert!(offset < 1 << OFFSET_BITS, "an area is smaller");
        Extent {
            addr: u64::from(session.0) << OFFSET_BITS | offset,
            len,
        }
    }

    /// The extent that stands for `len` bytes at `offset` of a session's file; `None` if they end beyond
    /// what can be named.
    pub fn extent_of_file(session: SessionId, file: u16, offset: u64, len: u32) -> Option<Extent> {
        let end = offset.checked_add(len.into())?;
        // What ends at the very edge would seem to go on in the next file.
        let fits = end < 1 << OFFSET_BITS && usize::from(file) < Files::MOST;
        let whose = u64::from(session.0) << FILE_BITS | u64::from(file);
        fits.then_some(Extent {
            addr: OF_FILE | whose << OFFSET_BITS | offset,
            len,
        })
    }

    /// Whose file an extent is of, its name, and where in it the extent begins.
    pub fn file_of(extent: Extent) -> Option<(SessionId, u16, u64)> {
        let whose = (extent.addr & !OF_FILE) >> OFFSET_BITS;
        let offset = extent.addr & ((1 << OFFSET_BITS) - 1);
        let file = whose & ((1 << FILE_BITS) - 1);
        let session = SessionId((whose >> FILE_BITS) as u16);
        (extent.addr & OF_FILE != 0).then_some((session, file as u16, offset))
    }

    /// Where the bytes of an extent are.
    #[inline]
    pub fn place(&self, extent: Extent) -> Option<Place<'_>> {
        if extent.addr & OF_FILE == 0 {
            return self.bytes(extent).map(Place::Memory);
        }
        let (session, file, offset) = Self::file_of(extent)?;
        let file = self.files.get(session.index())?.get(file)?;
        Some(Place::File(file, offset))
    }

    /// The bytes of an extent that is in memory.
    #[inline]
    pub fn bytes(&self, extent: Extent) -> Option<&[AtomicU8]> {
        let slot = (extent.addr >> OFFSET_BITS) as usize;
        let offset = extent.addr & ((1 << OFFSET_BITS) - 1);
        let area = self.send.get(slot)?.as_ref()?;
        area.slice(offset, extent.len as usize).ok()
    }

    /// The send area of the session in whose pool a connection's bytes are.
    fn area_of(&self, pool: PoolId) -> Option<Area> {
        self.send.get(pool.session()?.index())?.clone()
    }

    /// Nothing more that a connection receives goes to buffers of the program's own; see
    /// [`Stream::withdraw`](super::Stream::withdraw).
    pub fn withdraw_posted(&mut self, conn: &mut Conn) -> bool {
        if !conn.stream.has_posted() {
            return true;
        }
        let area = self.area_of(conn.pool);
        match (area, self.pool(conn.pool)) {
            (Some(area), Some(pool)) => conn.stream.withdraw(pool, &area),
            _ => false,
        }
    }

    /// Moves what a connection has received, and nobody has read, to another pool; false, and it can be
    /// read as before, if there is too little memory.
    pub fn move_stream(&mut self, conn: &mut Conn, to: PoolId) -> bool {
        if !self.withdraw_posted(conn) {
            return false;
        }
        let moved = match self.two_pools(conn.pool, to) {
            Some((from, to)) => conn.stream.move_to(from, to),
            None => false,
        };
        if moved {
            conn.pool = to;
        }
        moved
    }

    /// Lets go of what a connection has received, which nobody will read: what still comes is the
    /// engine's. Returns the pool in which it was.
    pub fn abandon_stream(&mut self, conn: &mut Conn) -> PoolId {
        if let Some(pool) = self.pool(conn.pool) {
            conn.stream.release(pool);
        }
        let former = std::mem::replace(&mut conn.pool, PoolId::ENGINE);
        self.expect_stream(PoolId::ENGINE);
        former
    }

    /// Begins the bookkeeping of a stream in `pool`.
    pub fn expect_stream(&mut self, pool: PoolId) {
        if let Some(pool) = self.pool(pool) {
            pool.reserve(true);
        }
    }
}

/// A pool under this name: what is done with it is on that account.
#[inline]
fn named(id: PoolId, pool: &mut Pool) -> &mut Pool {
    if let Some(account) = id.account() {
        pool.turn_to(account);
    }
    pool
}

/// Where received payload is placed: the pool of the connection's owner, or the engine's.
#[derive(Debug)]
pub struct Store<'a> {
    /// All connections.
    pub connections: &'a mut Connections,
    /// All memory.
    pub memory: &'a mut Memory,
    /// Those to which connections come.
    pub listeners: &'a Listeners,
    /// Connections for whose data there was no memory.
    pub starved: &'a mut Vec<ConnId>,
}

impl PayloadStore for Store<'_> {
    fn expect(&mut self, conn: ConnId, listener: ListenerId) {
        let (conn, new) = self.connections.enter(conn);
        debug_assert!(new, "nothing was placed before");
        if new {
            let uid = self.listeners.of_stack(listener).map(|it| it.uid);
            conn.pool = uid.map_or(PoolId::ENGINE, |uid| self.memory.pool_for(uid));
            self.memory.expect_stream(conn.pool);
        }
    }

    #[inline]
    fn place(&mut self, conn: ConnId, offset: u64, bytes: &[u8]) -> usize {
        let (conn, new) = self.connections.enter(conn);
        if new {
            self.memory.expect_stream(conn.pool);
        }
        let area = match conn.stream.has_posted() {
            true => self.memory.area_of(conn.pool),
            false => None,
        };
        let Some(pool) = self.memory.pool(conn.pool) else {
            return 0;
        };
        let placed = match &area {
            Some(area) => conn.stream.place_posted(pool, area, offset, bytes),
            None => conn.stream.place(pool, offset, bytes),
        };
        if placed < bytes.len() && self.starved.last() != Some(&conn.id) {
            self.starved.push(conn.id);
        }
        placed
    }
}

const _: () = {
    // The slots of sessions, of which there are 4,096 at most, have room above.
    assert!(OFFSET_BITS + FILE_BITS + 12 == 63);
};

#[cfg(test)]
mod tests {
    use queue_pair::{Layout, Sizes, region};

    use super::*;
    use crate::config::shares::ROOT;
    use crate::fast::memory::CHUNK;

    #[test]
    fn an_extent_of_a_file_says_where_it_is() {
        let last = (1 << OFFSET_BITS) - 1;
        let of = |session, file, offset, len| {
            Memory::extent_of_file(SessionId(session), file, offset, len).map(Memory::file_of)
        };
        for (session, file, offset) in [(0, 0, 0), (4_095, 2_047, last - 1), (9, 77, 4_097)] {
            let found = Some((SessionId(session), file, offset));
            assert_eq!(of(session, file, offset, 1), Some(found));
        }
        assert_eq!(of(0, 0, last, 1), None);
        assert_eq!(of(0, 0, u64::MAX, 1), None);
        assert_eq!(of(0, 2_048, 0, 1), None);
        assert_eq!(
            Memory::file_of(Memory::extent(SessionId(4_095), last, 1)),
            None
        );
    }

    #[test]
    fn a_session_may_have_what_its_user_may() {
        const CHUNKS: u32 = 2_000;
        let sizes = Sizes {
            submission_entries: 16,
            completion_entries: 16,
            positions: 16,
            send_len: u64::from(CHUNK),
            receive_len: u64::from(CHUNKS * CHUNK),
        };
        let layout = Layout::new(sizes).expect("a layout");
        let (_, region) = region::create(&layout).expect("memory");
        let mut memory = Memory::new(CHUNK as usize);
        memory.set_budget(u64::from(1_000 * CHUNK));
        let mut available = |session, uid| {
            memory.add(SessionId(session), uid, &region);
            let pool = memory.pool(PoolId::of(SessionId(session)));
            pool.expect("just added").available()
        };
        assert_eq!(available(0, 1_000), 256 + 875 / 2);
        assert_eq!(available(1, ROOT), 256 + 1_000);
    }
}
