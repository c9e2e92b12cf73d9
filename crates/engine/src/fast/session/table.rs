//! All sessions, by slot, and which of them are awake.
//!
//! A session is *awake* while it is looked at in every turn: for what its process has submitted, and for what it
//! is to be told. Where there are many, those in which nothing happens *rest*: they are armed, so that their
//! processes ring when they submit something, and no turn looks at them. A thousand children of a server that wait
//! cost a turn nothing. Whoever changes a session wakes it by that.

use crate::fast::connections::SessionId;

use super::Session;

/// All sessions, by slot.
#[derive(Debug)]
pub struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    live: usize,
    /// Those that are awake, each once.
    awake: Vec<SessionId>,
}

impl Sessions {
    /// None yet, and room for `limit`.
    pub fn with_room(limit: usize) -> Self {
        Self {
            slots: Vec::with_capacity(limit),
            live: 0,
            awake: Vec::with_capacity(limit),
        }
    }

    /// The slot that [`insert`](Self::insert) will use, if there are fewer than `limit`.
    pub fn vacancy(&self, limit: usize) -> Option<SessionId> {
        let slot = self.slots.iter().position(Option::is_none);
        let slot = slot.unwrap_or(self.slots.len());
        (self.live < limit).then_some(SessionId(u16::try_from(slot).ok()?))
    }

    /// Puts a session in a vacant slot. It is awake.
    pub fn insert(&mut self, id: SessionId, mut session: Box<Session>) {
        while self.slots.len() <= id.index() {
            self.slots.push(None);
        }
        debug_assert!(self.slots[id.index()].is_none(), "a vacant slot");
        debug_assert!(!self.awake.contains(&id), "each once");
        session.wakes();
        self.slots[id.index()] = Some(session);
        self.live += 1;
        self.awake.push(id);
    }

    /// Takes a session out.
    pub fn remove(&mut self, id: SessionId) -> Option<Box<Session>> {
        let session = self.slots.get_mut(id.index())?.take()?;
        self.live -= 1;
        self.awake.retain(|awake| *awake != id);
        Some(session)
    }

    /// The session in a slot, which is awake from now on.
    #[inline]
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        let session = self.slots.get_mut(id.index())?.as_deref_mut()?;
        if !session.awake {
            session.wakes();
            self.awake.push(id);
        }
        Some(session)
    }

    /// How many are awake.
    pub fn awake(&self) -> usize {
        self.awake.len()
    }

    /// One of those that are awake; `None` beyond the last. Another may have its place once one has gone.
    #[inline]
    pub fn awake_at(&self, at: usize) -> Option<SessionId> {
        self.awake.get(at).copied()
    }

    /// Whether any rests.
    pub fn any_rests(&self) -> bool {
        self.awake.len() < self.live
    }

    /// Those that are awake.
    pub fn iter_awake(&self) -> impl Iterator<Item = &Session> {
        self.awake.iter().filter_map(|id| self.get(*id))
    }

    /// Visits those that are awake.
    pub fn each_awake(&mut self, mut visit: impl FnMut(SessionId, &mut Session)) {
        for id in &self.awake {
            if let Some(session) = self.slots[id.index()].as_deref_mut() {
                visit(*id, session);
            }
        }
    }

    /// Nothing is known to happen in the session at this place among those that are awake, and its process rings
    /// before something does: the caller has [made sure](Session::may_rest). The last of them takes the place.
    pub fn rest_at(&mut self, at: usize) {
        let id = self.awake.swap_remove(at);
        if let Some(session) = self.slots[id.index()].as_deref_mut() {
            session.awake = false;
        }
    }

    /// The session in a slot.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.slots.get(id.index())?.as_deref()
    }

    /// How many slots there are, taken or not.
    pub fn slots(&self) -> u16 {
        // Never more than `u16::MAX`, since `vacancy` gives no slot beyond.
        self.slots.len() as u16
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// All sessions, the drained ones too.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, session)| Some((SessionId(slot as u16), session.as_deref()?)))
    }
}
