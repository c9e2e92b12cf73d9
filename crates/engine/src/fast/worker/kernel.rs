//! What the kernel has beside the engine on its ports, as the slow half says: sockets that listen, and
//! connections. A listener is believed until its last proof is gone, and its port is mixed until the
//! kernel has no connections there.

use std::net::SocketAddr;
use std::time::Duration;

use netdev::Device;
use tables::Queue;
use tcp::{ConnId, Instant, ListenerId, Request};

use super::Worker;
use crate::exchange::Tale;
use crate::fast::connections::SessionId;
use crate::fast::listeners::{Listener, Offer};
use crate::network::{COOKIE_LIFE, Network, Shared, Steered};

/// Connections of a listener that has ended which are ended in a turn.
const AT_ONCE: usize = 64;

/// What a listener had offered that has ended, as one of its members.
#[derive(Debug)]
pub(super) struct Unoffering {
    session: SessionId,
    member: u32,
    listener: u32,
    /// When it ended.
    since: Instant,
    /// What of all that its session was offered, by whichever listener, has not been looked at, taken from there.
    /// `None`: it has not begun. Only the first of all has, so what its session was offered is nowhere else.
    rest: Option<Queue<(ConnId, u16)>>,
}

impl Unoffering {
    /// How many offers are to be looked at, as far as that has begun.
    pub fn left(&self) -> usize {
        self.rest.as_ref().map_or(0, Queue::len)
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Leaves a listener's port mixed from now on, and asks when that need not be so; or shared, as it was
    /// placed.
    pub(super) fn mix(&mut self, number: u32) {
        if let Some(listener) = self.listeners.get_mut(number) {
            listener.how = listener.open();
            listener.mix(self.network.now());
        }
        self.steer_as_said(number);
        self.ask_of_mixed(number);
    }

    /// Mixes listeners all of whose segments were to be the engine's where the kernel was left a new connection: the
    /// steering looks each segment up there since, and goes on until it is asked about.
    pub(super) fn mix_what_was_left(&mut self) {
        let is_noted = |listener: &&Listener| {
            let port = listener.local.port();
            let mut own = listener.own_to_take();
            listener.how == Steered::Engine
                && own.any(|address| self.network.noted(address, port).is_some())
        };
        let left = self.listeners.iter().filter(is_noted);
        let left: Vec<u32> = left.map(|listener| listener.number).collect();
        for number in left {
            self.mix(number);
        }
    }

    /// Divides the new connections of a listener with the kernel like this from now on, or not any more. What
    /// the kernel has stays its own either way.
    pub(super) fn place(&mut self, local: SocketAddr, shared: Option<Shared>) {
        let Some(listener) = self.listeners.on(local) else {
            return;
        };
        if std::mem::replace(&mut listener.shared, shared) == shared {
            return;
        }
        // One that is left to the kernel is placed when it is taken up again.
        if listener.how != Steered::Closing {
            let number = listener.number;
            self.mix(number);
        }
    }

    /// Asks about the ports of which it was in vain until now.
    pub(super) fn ask_later(&mut self) {
        let now = self.network.now();
        let listeners = self.listeners.iter();
        let waiting = listeners.filter(|listener| listener.is_to_ask(now));
        let waiting: Vec<u32> = waiting.map(|listener| listener.number).collect();
        for number in waiting {
            self.ask_of_mixed(number);
        }
    }

    /// Asks whether the kernel has connections on a listener's port, if that is mixed and not asked yet, unless it would
    /// be in vain.
    pub(super) fn ask_of_mixed(&mut self, number: u32) {
        let now = self.network.now();
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        if !listener.is_to_ask(now) {
            return;
        }
        // Each has a number of its own: what is answered to one before was looked at before this moment, in which the
        // steering may have noted more.
        self.questions += 1;
        listener.asked = Some(self.questions);
        listener.asked_at = now;
        self.slow.tell(Tale::Mixed {
            port: listener.local.port(),
            question: self.questions,
        });
    }

    /// The kernel had no connections on this port when it was asked: the lookup for each packet is spared
    /// from now on, unless it may have got some since, or clients may have `cookies` of its own.
    pub(super) fn only_ours(&mut self, port: u16, question: u64, cookies: bool) {
        // This thread may have been away since it took the answer up.
        self.beat();
        let mut again = Vec::new();
        for listener in self.listeners.iter_mut() {
            // One that has asked since then hears another answer.
            let is_answered = listener.asked.is_some_and(|asked| asked <= question);
            if listener.local.port() != port || !is_answered {
                continue;
            }
            listener.asked = None;
            if listener.how != Steered::Mixed {
                continue;
            }
            // Who was left to the kernel since then may have been sent a cookie, which is in no table of its.
            let life = if cookies { COOKIE_LIFE } else { Duration::ZERO };
            let life = life.as_nanos() as u64;
            let as_of = listener.asked_at.saturating_sub(life);
            let only = match listener.mixed_at > as_of {
                // It was asked, or a cookie sent, before.
                true => Ok(false),
                // Of each, whatever is found of another.
                false => listener.own_to_take().try_fold(true, |all, address| {
                    let only = self.network.only_ours(address, port, as_of)?;
                    Ok::<_, std::io::Error>(all && only)
                }),
            };
            match only {
                Ok(true) => {
                    listener.how = Steered::Engine;
                    if listener.is_news(false) {
                        tracing::info!(port, "the port is the engine's alone at last");
                    }
                }
                Ok(false) => {
                    // To look for connections there takes long, and would say nothing while cookies live that may be of
                    // then.
                    let own = listener.own_to_take();
                    let noted = own.filter_map(|address| self.network.noted(address, port));
                    let last = noted.fold(listener.mixed_at, u64::max);
                    listener.ask_from = last.saturating_add(life);
                    again.push(listener.number);
                }
                Err(error) => {
                    if listener.is_news(true) {
                        tracing::warn!(port, %error, "the port stays mixed for now");
                    }
                    again.push(listener.number);
                }
            }
        }
        for number in again {
            self.ask_of_mixed(number);
        }
        // Or this moment.
        self.beat();
    }

    /// A socket that was shown as proof listens no longer. Without any, new connections are the kernel's:
    /// the port may be another program's by now, which has nothing to do with the engine. Those that nobody
    /// has accepted end by RST, as in the kernel, whoever has a copy of the socket.
    pub(super) fn unproven(&mut self, cookie: u64) {
        self.network.hide_socket(cookie);
        let (mut lost, mut ended) = (Vec::new(), Vec::new());
        for listener in self.listeners.iter_mut() {
            let before = listener.proofs.len();
            listener.proofs.retain(|proof| *proof != cookie);
            if listener.proofs.len() == before || !listener.proofs.is_empty() {
                continue;
            }
            ended.push(listener.number);
            if let Some(left) = &mut listener.left {
                left.look = self.now;
            }
            if listener.how != Steered::Closing {
                listener.how = Steered::Closing;
                tracing::warn!(
                    local = %listener.local,
                    "its program has closed the kernel's socket: new connections are the kernel's"
                );
                lost.push(listener.number);
            }
        }
        for number in lost {
            self.steer_as_said(number);
        }
        for number in ended {
            self.end_unaccepted(number);
        }
    }

    /// Ends the connections of a listener that nobody has accepted, offered or not, some in each turn. Handshakes
    /// that are under way end when they come to its queue.
    fn end_unaccepted(&mut self, number: u32) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        for member in listener.members.clone() {
            self.unoffering.push_back(Unoffering {
                session: member.session,
                member: member.number,
                listener: number,
                since: self.now,
                rest: None,
            });
        }
        self.hand_over(number);
    }

    /// Goes on with what was offered by listeners that have ended: true if there is any.
    pub(super) fn go_on_unoffering(&mut self) -> bool {
        let Some(mut of) = self.unoffering.pop_front() else {
            return false;
        };
        let mut rest = of.rest.take().unwrap_or_else(|| {
            let session = self.sessions.get_mut(of.session);
            session.map_or_else(Queue::new, |session| core::mem::take(&mut session.offered))
        });
        for _ in 0..AT_ONCE {
            let Some(offered) = rest.pop_front() else {
                break;
            };
            if !self.is_offered_to(of.session, offered) {
                continue;
            }
            let offer = Offer {
                conn: offered.0,
                member: of.member,
                since: of.since,
            };
            // One that has come since then is a new listener's.
            let is_of = self.connections.get(offer.conn).is_some_and(|conn| {
                conn.member == of.member && conn.waits().is_none_or(|since| since <= of.since)
            });
            if !(is_of && self.retract(&offer))
                && let Some(session) = self.sessions.get_mut(of.session)
            {
                session.offered.push_back(offered);
            }
        }
        self.hand_over(of.listener);
        if !rest.is_empty() {
            of.rest = Some(rest);
            // Before others begin: they may be of the same session, and would not find what is left here.
            self.unoffering.push_front(of);
        }
        true
    }

    /// Gives back to a session what of its offers is being looked at, some at a time; that begins anew.
    pub(super) fn begin_unoffering_anew(&mut self, session: SessionId) {
        let first = self.unoffering.front_mut();
        let Some(mut offered) = first
            .filter(|of| of.session == session)
            .and_then(|of| of.rest.take())
        else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(session) {
            // What was looked at, and what has come since, is looked at last.
            while let Some(later) = session.offered.pop_front() {
                offered.push_back(later);
            }
            session.offered = offered;
        }
    }

    /// Ends what waits in the queue of a listener by RST, as much as in a turn; false if there is more.
    pub(super) fn turn_away(&mut self, listener: ListenerId) -> bool {
        for _ in 0..AT_ONCE {
            let Some(conn) = self.stack.accept(listener) else {
                return true;
            };
            self.finish(conn, Request::Abort);
        }
        self.stack.waiting(listener) == 0
    }
}
