//! What the fast half has answered, put into words, and sent with what was made for it.

use std::time::Instant;

use queue_pair::control::{EngineFacts, Explanation, Fds, Reply, SocketRow};
use rustix::io::Errno;

use super::Desk;
use super::attach::NoSession;
use super::requests::{Refusal, errno_of};
use crate::capture::CaptureError;
use crate::exchange::{
    Answer, Ask, ClientKey, FIRST_PAIR, Order, Page, ROWS, Refused, SessionKey, Told, WorkerId,
};
use crate::fast::session::{EndReason, conn_ref};
use crate::network::canonical;
use crate::slow::control::{Governed, Pending};
use crate::stats::conn_info;

impl Desk {
    /// What a control connection has asked is answered, by `from` at last.
    pub(super) fn answer(&mut self, from: WorkerId, key: ClientKey, answer: Answer) {
        let slot = key.slot;
        let pending = self
            .control
            .client_named(key)
            .and_then(|client| client.pending.take());
        let Some(pending) = pending else {
            // It is gone; what was made for it goes, too.
            if let Ok(Told::Attached(session, _)) = answer {
                self.crew.order(from, Order::End(session, EndReason::Gone));
            }
            return;
        };
        if let Pending::Attach {
            held_at: Some((worker, token)),
            ..
        } = &pending
        {
            // It has them itself by now, or will never.
            self.crew.order(*worker, Order::ChildEnded(*token));
        }
        let (pending, answer) = match (pending, answer) {
            (
                Pending::Sockets {
                    filter,
                    mut rows,
                    left,
                },
                Ok(Told::Sockets(mut page)),
            ) => {
                // Of those without a connection there can be very many.
                let pairs = ["SYN-RECEIVED", "TIME-WAIT"];
                if !pairs.iter().any(|state| filter.may_want(state)) {
                    page.next = page.next.filter(|next| *next < FIRST_PAIR);
                }
                page.next = self.place_among_all(from, page.next);
                for row in page.rows {
                    let row = super::facts::row(row, &self.facts.interface);
                    if filter.wants(&row) {
                        let placed = match row.peer {
                            Some(_) => None,
                            None => self.placed(row.local).map(Box::new),
                        };
                        rows.push(SocketRow { placed, ..row });
                    }
                }
                let room = ROWS - rows.len();
                if page.next.is_some() && room > 0 && left > 0 {
                    let what = Ask::Sockets {
                        after: page.next,
                        page: Page::with_room(room),
                    };
                    let left = left - 1;
                    let pending = Pending::Sockets { filter, rows, left };
                    self.ask(key, what, pending);
                    return;
                }
                let reply = Reply::Sockets {
                    rows,
                    next: page.next,
                };
                if let Err(error) = self.control.reply(slot, &reply, Fds::new()) {
                    self.failed(slot, &error);
                }
                return;
            }
            (Pending::Stats { all: true }, Ok(Told::Stats(snapshot))) => {
                if let Err(error) = self.first_metrics(key, &snapshot) {
                    self.failed(slot, &error);
                }
                return;
            }
            other => other,
        };
        let replied = match self.in_words(from, slot, pending, answer) {
            Ok((reply, fds)) => self.control.reply(slot, &reply, fds),
            Err((errno, message)) => {
                let errno = errno.raw_os_error();
                let reply = Reply::Error { errno, message };
                self.control.reply(slot, &reply, Fds::new())
            }
        };
        if let Err(error) = replied {
            self.failed(slot, &error);
        }
    }

    /// Somebody is gone who waited for an answer.
    pub(super) fn abandon(&mut self, home: WorkerId, pending: Pending) {
        match pending {
            Pending::Fork { token, .. } => self.crew.order(home, Order::ChildEnded(token)),
            Pending::Attach {
                held_at: Some((worker, token)),
                ..
            } => self.crew.order(worker, Order::ChildEnded(token)),
            Pending::Ticket { token, .. } => {
                self.crew.order(home, Order::TicketEnded(token));
            }
            _ => {}
        }
    }

    fn in_words(
        &mut self,
        from: WorkerId,
        slot: u32,
        pending: Pending,
        answer: Answer,
    ) -> Result<(Reply, Fds), Refusal> {
        let told = match answer {
            Ok(told) => told,
            Err(refused) => {
                if matches!(pending, Pending::Respond)
                    && let Some(client) = self.control.client(slot)
                {
                    client.responds = false;
                }
                self.explain_refusal(slot, &pending, &refused);
                return Err(why(&pending, refused));
            }
        };
        let mut fds = Fds::new();
        let reply = match (told, pending) {
            (Told::Attached(session, listeners), pending @ Pending::Attach { .. }) => {
                for local in listeners {
                    self.listens(from, local, false, Instant::now());
                }
                return Ok(self.attached(slot, session, pending));
            }
            (Told::Listening(listener), pending) => {
                let client = self.control.client(slot);
                match pending {
                    Pending::Listen { local, pinned } => {
                        if let Some(client) = client {
                            client.begins_to_listen(listener, canonical(local));
                        }
                        self.listens(from, local, pinned, Instant::now());
                    }
                    Pending::Adopt(parents) => {
                        if let Some(client) = client {
                            client.adopts(parents, listener);
                        }
                    }
                    _ => {}
                }
                Reply::Listening { listener }
            }
            (Told::Done, Pending::Unlisten(listener)) => {
                if let Some(client) = self.control.client(slot) {
                    client.listens.retain(|(name, _)| *name != listener);
                }
                Reply::Done
            }
            (Told::File(file), Pending::File(_, governed)) => {
                self.is_read_by_engine(governed);
                Reply::File {
                    file,
                    by_policy: governed != Governed::No,
                }
            }
            (Told::Admitted(counts), _) => Reply::Admitted(counts),
            (Told::Done, Pending::Divert(now)) => {
                match &now {
                    Some((name, id)) => {
                        tracing::info!(name, id, "frames of nobody's go to a program")
                    }
                    None => tracing::info!("no program diverts frames any more"),
                }
                self.diverter = now;
                Reply::Done
            }
            (Told::Waker(waker), Pending::Waker(hears)) => {
                fds.push(hears);
                Reply::Waker { waker }
            }
            (Told::Forked(inherits), Pending::Fork { token, ends }) => {
                let failed = |errno| (errno, "the fork cannot be followed".to_owned());
                let (theirs, ours) = ends.ok_or_else(|| failed(Errno::MFILE))?;
                if let Err(errno) = self.control.watch_lifeline(slot, (token, from), ours, None) {
                    self.crew.order(from, Order::ChildEnded(token));
                    return Err(failed(errno));
                }
                let listens = self.control.client(slot);
                let listens = listens.map(|client| client.listens.clone());
                let listens = listens.unwrap_or_default();
                self.control.note_inherited(token, inherits, listens);
                fds.push(theirs);
                Reply::Forked { token }
            }
            (
                Told::Ticket { grant },
                Pending::Ticket {
                    token,
                    ends: (ticket, ours),
                    issued,
                },
            ) => {
                if let Err(errno) =
                    self.control
                        .watch_lifeline(slot, (token, from), ours, Some(issued))
                {
                    self.crew.order(from, Order::TicketEnded(token));
                    return Err((errno, "the ticket cannot be followed".to_owned()));
                }
                fds.push(ticket);
                Reply::Ticket { grant }
            }
            (Told::Claimed(claimed), Pending::Claim(carried)) => {
                if let Some(client) = self.control.client(slot) {
                    client.claimed = claimed.is_new.then_some(claimed.conn);
                }
                Reply::Claimed {
                    conn: conn_ref(claimed.conn),
                    local: claimed.local,
                    peer: claimed.peer,
                    carried,
                }
            }
            (Told::Info(room), _) => match *room {
                Some((info, age)) => Reply::Info(Box::new(conn_info(&info, age))),
                None => return Err((Errno::NOTCONN, "no such connection of yours".to_owned())),
            },
            (Told::Engine(facts), _) => Reply::Engine(EngineFacts {
                name: self.facts.name.clone(),
                ..*facts
            }),
            (Told::Way(way), _) => Reply::Way(way),
            (Told::Stats(snapshot), _) => self.some_metrics(&snapshot),
            (Told::Traced(course), Pending::Traced) => self.first_traced(slot, course),
            (Told::Reloaded(changed), _) => {
                let (changes, limits) = *changed;
                self.reloaded(&changes, limits);
                Reply::Reloaded {
                    changed: changes.live,
                    at_start: changes.at_start,
                }
            }
            (
                Told::Explained {
                    listeners,
                    connections,
                },
                Pending::Explain(pid),
            ) => Reply::Explained(self.explanations(pid, &listeners, connections)),
            _ => Reply::Done,
        };
        Ok((reply, fds))
    }

    /// A limit was met that costs a program something that it cannot see: `outboard explain` tells.
    fn explain_refusal(&mut self, slot: u32, pending: &Pending, refused: &Refused) {
        if let (Pending::Attach { process, .. }, Refused::Errno(Errno::AGAIN)) = (pending, refused)
        {
            let why = NoSession::Full.to_string();
            self.strangers.remember(process.pid, why);
            return;
        }
        let (kind, reason) = match (pending, refused) {
            (Pending::Fork { .. }, Refused::Errno(Errno::AGAIN)) => ("fork", FORKS_FULL),
            (Pending::Ticket { .. }, Refused::Errno(Errno::TOOMANYREFS)) => {
                ("connection", TICKETS_FULL)
            }
            _ => return,
        };
        let pid = self.control.client(slot).map(|client| client.pid);
        if let Some(pid) = pid {
            let explanation = Explanation {
                fd: Explanation::NO_DESCRIPTOR,
                kind: kind.to_owned(),
                reason: reason.to_owned(),
                detail: String::new(),
            };
            self.control.report(pid, explanation);
        }
    }

    fn attached(&mut self, slot: u32, session: SessionKey, pending: Pending) -> (Reply, Fds) {
        let Pending::Attach {
            process,
            version,
            region,
            doorbell,
            waker,
            held_at: _,
        } = pending
        else {
            return (Reply::Done, Fds::new());
        };
        let number = session.number;
        tracing::info!(
            session = number,
            pid = process.pid,
            program = &*process.program,
            "attached"
        );
        self.tell_of_confinement(process.pid, &process.program);
        if let Some(client) = self.control.client(slot) {
            client.session = Some(session);
        }
        let pidfd = self.process_descriptor(slot, process.pid);
        self.watch(slot, pidfd);
        let speaks = self.control.client(slot).map_or(0, |client| client.version);
        let (interface, others) = self.facts.told_of(speaks);
        let reply = Reply::Attached {
            session: number,
            engine: self.facts.name.clone(),
            interface,
            others,
            local: self.facts.local,
            version,
        };
        (reply, [region, doorbell, waker].into_iter().collect())
    }
}

/// Why a child has none of its parent's sockets.
const FORKS_FULL: &str = "a child has none of this program's connections: too many children have not \
                          attached (limits.forks)";
/// Why a connection was not passed.
const TICKETS_FULL: &str = "not passed: too many connections are on their way to other programs \
                            (limits.tickets)";

/// Why sends are not followed.
const TRACED_ALREADY: &str = "sends are followed already, perhaps for somebody else, and what was kept of them was not \
                              asked for: `outboard trace end` prints it, and ends that";

/// Why something was not done.
fn why(pending: &Pending, refused: Refused) -> Refusal {
    let errno = match refused {
        Refused::Errno(errno) => errno,
        Refused::Stopping => return (Errno::AGAIN, "the engine is stopping".to_owned()),
        Refused::Breach(reason) => return (Errno::CONNRESET, reason.to_string()),
        Refused::Steering(error) => return (Errno::INVAL, error.to_string()),
        Refused::TracedAlready(_) => return (Errno::BUSY, TRACED_ALREADY.to_owned()),
        Refused::TooManyCaptures => return (Errno::BUSY, CaptureError::TooMany.to_string()),
    };
    let message = match pending {
        Pending::Listen { local, .. } => format!("{local} is not offloaded: {errno}"),
        Pending::Bound(local) => format!("{local} is not used: {errno}"),
        Pending::Unlisten(listener) | Pending::Listener(listener) => {
            format!("listener {listener} is not yours")
        }
        Pending::File(..) => "no further file".to_owned(),
        Pending::Waker(_) => "no further waker".to_owned(),
        Pending::Fork { .. } => "the fork cannot be followed".to_owned(),
        Pending::Local => "nothing on the engine listens there".to_owned(),
        Pending::Adopt(_) => "the listener did not come through a fork".to_owned(),
        Pending::Info | Pending::Ticket { .. } => "no such connection of yours".to_owned(),
        Pending::Claim(_) => "the ticket is of no use any more".to_owned(),
        _ => errno_of(&errno.into()).to_string(),
    };
    (errno, message)
}
