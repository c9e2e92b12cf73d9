//! Orders of the slow half: what programs and people ask for, with everything that it takes.

use std::os::fd::AsFd;

use netdev::Device;
use rustix::io::Errno;

use super::Worker;
use super::ended::decline;
use super::order::CATCH_UP;
use super::room::{BUDGET, Until};
use super::submissions::Asked;
use crate::exchange::{Ask, ClientKey, Order, Refused, SessionKey, Tale, Told};
use crate::fast::connections::SessionId;
use crate::fast::session::{EndReason, Session};
use crate::network::Network;

/// How long orders are taken in one go, in nanoseconds: the one that is begun when this is over is
/// done, what a session has submitted before it can wait.
const BUDGET_NS: u64 = 50_000;

/// An order whose turn it is as soon as what its session had submitted before is taken.
#[derive(Debug)]
pub(super) struct Waiting {
    order: Order,
    /// Submissions that are taken before it, at most.
    left: usize,
}

impl Waiting {
    /// It is not carried out.
    pub(super) fn into_order(self) -> Order {
        self.order
    }
}

/// Whose submissions come before an order.
fn precedes(order: &Order) -> Option<SessionKey> {
    match order {
        Order::Ask { session, .. } => *session,
        _ => None,
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Takes orders for a bounded time; true if there were any.
    pub(super) fn take_orders(&mut self) -> bool {
        let clock = self.common.clock.again();
        let mut any = false;
        while let Some(waiting) = self.next_order() {
            any = true;
            let over = clock.now().as_nanos() >= BUDGET_NS;
            if over {
                self.waiting = Some(waiting);
                break;
            }
            self.take_order(waiting);
        }
        any
    }

    fn next_order(&mut self) -> Option<Waiting> {
        self.waiting.take().or_else(|| {
            let order = self.slow.order()?;
            let session = precedes(&order).and_then(|key| self.session_named(key));
            let submitted = session
                .and_then(|id| self.sessions.get(id))
                .map_or(0, Session::most_submitted);
            Some(Waiting {
                order,
                left: submitted,
            })
        })
    }

    /// Takes an order, or some of the submissions that come before it.
    fn take_order(&mut self, mut waiting: Waiting) {
        if let Order::Ask {
            client, session, ..
        } = &waiting.order
            && let Some(session) = *session
        {
            let client = *client;
            // Submissions that were made before the request may be seen only after it. They come
            // first: a connection that was accepted would be taken for one that was not.
            match self.take_before(session, waiting.left) {
                Ok(Some(taken)) if taken != 0 => {
                    waiting.left -= taken;
                    self.waiting = Some(waiting);
                    return;
                }
                // What it has submitted waits for what others had before that, and so does this: for what there
                // is by now of each.
                Ok(Some(_)) if waiting.left > 0 && self.waits_for_others(session) => {
                    self.waiting = Some(waiting);
                    return;
                }
                Ok(_) => self.note_passed_over(session),
                Err(reason) => {
                    self.breaches.push((session.id, reason));
                    let refused = Err(Refused::Breach(reason));
                    self.slow.tell(Tale::Answer(client, refused));
                    decline(&mut self.slow, waiting.order);
                    return;
                }
            }
        }
        self.carry_out(waiting.order);
    }

    /// Whose submissions come before the order that waits.
    pub(super) fn asks_first(&self) -> Option<SessionId> {
        let waiting = self.waiting.as_ref();
        let session = waiting.and_then(|waiting| precedes(&waiting.order));
        session.map(|session| session.id)
    }

    /// Whether what a session has submitted is taken as soon as more of others has been.
    fn waits_for_others(&self, key: SessionKey) -> bool {
        let session = self.sessions.get(key.id);
        session.is_some_and(|session| {
            session.number == key.number
                && session.ended.is_none()
                && !session.broken
                && session.may_be_asked_first()
                && session.peeked.is_some()
        })
    }

    /// What a session asks comes before what it has submitted, if that is not taken because it reads nothing.
    fn note_passed_over(&mut self, key: SessionKey) {
        let Some(id) = self.session_named(key) else {
            return;
        };
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        if session.broken || session.may_be_asked_first() {
            return;
        }
        if let Err(violation) = self.pass_over(id) {
            self.breaks_rules(id, violation.into());
        }
    }

    /// Takes some of what a session has submitted: how many, if it is there.
    fn take_before(&mut self, key: SessionKey, left: usize) -> Result<Option<usize>, EndReason> {
        let Some(id) = self.session_named(key) else {
            return Ok(None);
        };
        self.bound_waiting(Some(id));
        self.catch_up_left = CATCH_UP;
        self.taking = Until::taking(self.common.clock.again(), 0);
        self.take_submissions_of(id, left.min(BUDGET), Asked::First)
            .map(Some)
    }

    /// The slot of a session, if it is still there.
    pub(super) fn session_named(&self, key: SessionKey) -> Option<SessionId> {
        let session = self.sessions.get(key.id)?;
        (session.number == key.number && session.ended.is_none()).then_some(key.id)
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Ask {
                client,
                session,
                what,
            } => {
                let session = session.and_then(|key| self.session_named(key));
                // Or it comes later.
                if let Some(answer) = self.answer(client, session, what).transpose() {
                    self.slow.tell(Tale::Answer(client, answer));
                }
            }
            Order::End(key, reason) => {
                if let Some(id) = self.session_named(key) {
                    self.end_session(id, reason);
                }
            }
            Order::ChildClosed { token, what } => self.child_closed(token, what),
            Order::ChildEnded(token) => self.forget_fork(token),
            Order::TicketEnded(token) => self.end_ticket(token),
            Order::EndResponding => self.network.end_responding(),
            Order::FollowsProofs(follows) => self.proofs_followed = follows,
            Order::Unproven(cookie) => self.unproven(cookie),
            Order::Confined(cookies) => {
                self.confined = cookies;
                self.apply_access();
            }
            Order::OnlyOurs {
                port,
                question,
                cookies,
            } => self.only_ours(port, question, cookies),
            Order::Netfilter(policy) => {
                let outdated = core::mem::replace(&mut self.netfilter, policy);
                self.slow.tell(Tale::Outdated(outdated));
                self.apply_access();
            }
            Order::Place { local, shared } => self.place(local, shared),
            Order::Reclaimed(done) => self.reclaimed(&done),
            Order::Fetched(number, outcome) => self.fetched(number, outcome),
        }
    }

    fn answer(
        &mut self,
        client: ClientKey,
        session: Option<SessionId>,
        what: Ask,
    ) -> Result<Option<Told>, Refused> {
        let attached = session.ok_or(Errno::NOTCONN);
        let told = match what {
            Ask::Attach {
                session,
                fork_token,
                inherits,
            } => {
                debug_assert_eq!(session.client, client, "its own");
                let (key, fork) = self.attach(session, fork_token)?;
                let listens = self.inherit_listeners(key.id, &inherits);
                return self.inherit_all(client, key, fork, listens);
            }
            Ask::Listen {
                local,
                proof,
                backlog,
            } => Told::Listening(self.listen(attached?, local, proof, backlog)?),
            Ask::Chosen { listener, proof } => {
                self.listener_chosen(attached?, listener, &proof)?;
                Told::Done
            }
            Ask::Admit {
                listener,
                admission,
            } => Told::Admits(self.admit_by(attached?, listener, admission)?),
            Ask::Admitted(listener) => Told::Admitted(self.admitted(attached?, listener)?),
            Ask::Bound { local, socket, uid } => {
                self.lend_port(session, local, socket, uid)?;
                Told::Done
            }
            Ask::File(file) => Told::File(self.add_file(session, file)?),
            Ask::Local(remote) => {
                attached?;
                if !self.listens_here(remote) {
                    return Err(Errno::OPNOTSUPP.into());
                }
                Told::Done
            }
            Ask::Unlisten(listener) => {
                self.unlisten(attached?, listener)?;
                Told::Done
            }
            Ask::Waker(waker) => Told::Waker(self.add_waker(attached?, waker)?),
            Ask::Fork(token) => return self.fork(client, attached?, token),
            Ask::AdoptListener(listener) => {
                Told::Listening(self.adopt_listener(attached?, listener)?)
            }
            Ask::Ticket { conn, token } => {
                let grant = self.issue_ticket(attached?, conn, token)?;
                Told::Ticket { grant }
            }
            Ask::Claim(token) => Told::Claimed(self.claim_ticket(attached?, token)?),
            Ask::Disclaim(conn) => {
                self.disclaim(attached?, conn);
                Told::Done
            }
            Ask::Settle => {
                attached?;
                // What has arrived counts, too: on a kernel it would be there by now.
                (self.turn_clock, self.so_far) = (self.common.clock.again(), 0);
                self.receive();
                self.take_handed();
                self.hand_over_again();
                self.take_events();
                self.post_completions();
                Told::Done
            }
            Ask::Engine => {
                attached?;
                Told::Engine(Box::new(self.engine_facts()))
            }
            Ask::Way { remote, doubted } => {
                attached?;
                Told::Way(self.way(remote, doubted)?)
            }
            Ask::Info { conn, mut room } => {
                let id = attached?;
                let name = crate::fast::session::conn_ref(conn);
                let own = self.named(id, name).is_ok();
                let info = self.stack.info(self.now, conn).filter(|_| own);
                *room = Some((info.ok_or(Errno::NOTCONN)?, self.age(conn)));
                Told::Info(room)
            }
            Ask::Stats(mut snapshot) => {
                self.hear_of_all_accepts();
                self.fill(&mut snapshot);
                Told::Stats(snapshot)
            }
            Ask::Sockets { after, mut page } => {
                self.socket_rows(after, &mut page);
                Told::Sockets(page)
            }
            Ask::Explain { pid, mut listeners } => {
                let connections = self.explain(pid, &mut listeners);
                Told::Explained {
                    listeners,
                    connections,
                }
            }
            Ask::Capture(capture) => match self.captures.begin(capture, &self.common.clock) {
                Ok(()) => Told::Done,
                Err(capture) => {
                    self.slow.tell(Tale::Captured(capture));
                    return Err(Refused::TooManyCaptures);
                }
            },
            Ask::Trace(Some(course)) => {
                let begun = self.trace.begin(course, self.common.clock);
                begun.map_err(Refused::TracedAlready)?;
                Told::Done
            }
            Ask::Trace(None) => Told::Traced(self.trace.end()),
            Ask::Respond {
                interface,
                program,
                endpoints,
            } => {
                let program = program.as_ref().map(AsFd::as_fd);
                if let Err(error) = self.network.respond(interface, program, &endpoints) {
                    self.network.end_responding();
                    return Err(Refused::Steering(error));
                }
                Told::Done
            }
            Ask::Divert(program) => {
                let program = program.as_ref().map(|(nic, it)| (*nic, it.as_fd()));
                let diverted = self.network.divert(program);
                diverted.map_err(Refused::Steering)?;
                Told::Done
            }
            Ask::Reload(new) => {
                let changes = self.reload(&new);
                Told::Reloaded(Box::new((changes, self.config.limits.clone())))
            }
            Ask::Stop => {
                tracing::info!("asked to stop by the control socket");
                self.begin_stop();
                Told::Done
            }
        };
        Ok(Some(told))
    }
}
