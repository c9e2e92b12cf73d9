//! Locks that are held across a fork.
//!
//! Only the thread that forks lives on in the child, and a lock that another one held at that moment
//! would stay locked there for ever. So the thread that forks takes every lock that the child may
//! touch, and lets go of all of them on both sides. It takes them in the order in which everybody does
//! ([`crate::lock`]). Some are held by one who waits for the engine: for an answer, or for an engine that a
//! connection hangs on. Until he has it, the thread that forks holds none, so that others go on.

use std::sync::Arc;
use std::time::Duration;

use self_cell::self_cell;

use crate::attachment::Listens;
use crate::clock::pause;
use crate::interest::SetCore;
use crate::locks::{Locks, Manner};
use crate::reserve;
use crate::session::SessionCore;
use crate::socket::{Attachment, SocketCore};

/// Whatever has a lock.
struct Everything {
    session: Arc<SessionCore>,
    attachment: Option<Arc<Attachment>>,
    listeners: Vec<Arc<dyn Listens<Attachment>>>,
    sockets: Vec<Arc<SocketCore>>,
    sets: Vec<Arc<SetCore>>,
}

impl Everything {
    fn of(session: &Arc<SessionCore>) -> Self {
        let attachment = session.present();
        let listeners = session.listeners.living();
        let sockets = match &attachment {
            Some(attachment) => attachment.sockets(),
            None => Vec::new(),
        };
        let sources = sockets.iter().map(|socket| socket.source());
        let sources = sources.chain(listeners.iter().map(|listener| listener.source()));
        let mut sets: Vec<Arc<SetCore>> = Vec::new();
        for source in sources {
            source.0.with_watches(|watches| {
                for watch in watches.watches() {
                    if !sets.iter().any(|set| Arc::ptr_eq(set, &watch.set)) {
                        sets.push(Arc::clone(&watch.set));
                    }
                }
            });
        }
        Self {
            session: Arc::clone(session),
            attachment,
            listeners,
            sockets,
            sets,
        }
    }

    fn lock(&self, manner: Manner) -> Locks<'_> {
        let mut locks = Locks::taken(manner);
        self.session.lock_link(&mut locks);
        if let Some(attachment) = &self.attachment {
            attachment.lock_pump(&mut locks);
        }
        for listener in &self.listeners {
            listener.lock_all(&mut locks);
        }
        for socket in &self.sockets {
            socket.lock_all(&mut locks);
        }
        for set in &self.sets {
            set.lock_all(&mut locks);
        }
        if let Some(attachment) = &self.attachment {
            attachment.lock_leaves(&mut locks);
        }
        self.session.lock_leaves(&mut locks);
        locks
    }
}

self_cell!(
    /// All locks of a session, held until this is dropped.
    pub(crate) struct Quiet {
        owner: Everything,
        #[covariant]
        dependent: Locks,
    }
);

/// How long somebody is left alone who has a lock and waits for the engine: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// The pauses of one who waits.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Self {
        Self(PAUSES[0])
    }

    /// With no lock held.
    fn pause(&mut self) {
        pause(self.0);
        self.0 = (self.0 * 2).min(PAUSES[1]);
    }
}

/// Takes all locks of a session but that of the way to ask the engine. `holds_none`: the calling thread has
/// none of them itself, and so waits until it has all; otherwise it takes those that are to be had.
pub(crate) fn quiet(session: &Arc<SessionCore>, holds_none: bool) -> Quiet {
    let mut pauses = Pauses::new();
    loop {
        // Before anything is locked: while one waits for an answer, the others go on.
        if can_ask(session.present().as_deref()) {
            let all = Quiet::new(Everything::of(session), |all| all.lock(Manner::Together));
            let attachment = all.borrow_owner().attachment.as_deref();
            if all.borrow_dependent().are_all() && can_ask(attachment) {
                return all;
            }
        }
        if !holds_none {
            return Quiet::new(Everything::of(session), |all| all.lock(Manner::AsCanBe));
        }
        pauses.pause();
    }
}

/// Waits until nobody has a lock who waits for the engine. All that it takes for that it lets go of.
pub(crate) fn await_calm(session: &Arc<SessionCore>) {
    let mut pauses = Pauses::new();
    while !is_calm(session) {
        pauses.pause();
    }
}

fn is_calm(session: &Arc<SessionCore>) -> bool {
    let attachment = session.present();
    if !can_ask(attachment.as_deref()) {
        return false;
    }
    let listeners = session.listeners.living();
    let mut locks = Locks::taken(Manner::Together);
    session.lock_link(&mut locks);
    if let Some(attachment) = &attachment {
        attachment.lock_pump(&mut locks);
    }
    for listener in &listeners {
        listener.lock_all(&mut locks);
    }
    locks.are_all() && can_ask(attachment.as_deref())
}

/// Whether nobody waits for an answer of the engine's just now. Of a connection that is being claimed the engine would
/// give the child a part, and the child would not know of it.
fn can_ask(attachment: Option<&Attachment>) -> bool {
    attachment.is_none_or(|attachment| !attachment.claims() && attachment.can_ask())
}

impl Quiet {
    /// The attachment, if it has anything that a child would inherit.
    pub(crate) fn attachment_with_something(&self) -> Option<Arc<Attachment>> {
        let all = self.borrow_owner();
        let something = !all.sockets.is_empty() || !all.listeners.is_empty();
        all.attachment.clone().filter(|_| something)
    }

    /// Whether a child would inherit connections.
    pub(crate) fn has_connections(&self) -> bool {
        !self.borrow_owner().sockets.is_empty()
    }

    /// Takes the last lock, once nothing is to be asked.
    pub(crate) fn complete(&mut self, holds_none: bool) {
        self.with_dependent_mut(|all, locks| {
            locks.go_on(match holds_none {
                true => Manner::Surely,
                false => Manner::AsCanBe,
            });
            if let Some(attachment) = &all.attachment {
                attachment.lock_control(locks);
            }
            reserve::lock_all(locks);
        });
    }
}
