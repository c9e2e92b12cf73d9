//! Lifelines: what is heard of the children of forks that have not attached, and of tickets.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use netdev::syscalls::{Received, receive_with_sender};
use queue_pair::control::{Farewell, KNOCK};
use rustix::io::Errno;

use super::{Control, Heard, Issued, Lifeline, errno, user_of};
use crate::exchange::{Inherited, WorkerId};
use crate::poller::Source;

impl Control {
    /// Watches the lifeline of a fork, or our end of a ticket, of which this worker knows; made for the connection
    /// in this slot.
    pub fn watch_lifeline(
        &mut self,
        slot: u32,
        (token, home): (u64, WorkerId),
        fd: OwnedFd,
        ticket: Option<Issued>,
    ) -> Result<(), Errno> {
        let uid = self.client(slot).map_or(0, |client| client.uid);
        let slot = self.lifelines.iter().position(Option::is_none);
        let slot = slot.unwrap_or_else(|| {
            self.lifelines.push(None);
            self.lifelines.len() - 1
        });
        self.poller.add(fd.as_fd(), Source::Lifeline(slot as u32))?;
        self.lifelines[slot] = Some(Lifeline {
            token,
            home,
            uid,
            fd,
            ticket,
            inherits: None,
            listens: Vec::new(),
        });
        Ok(())
    }

    /// The child of a fork inherits these listeners, and nothing else, if any are given.
    pub fn note_inherited(
        &mut self,
        token: u64,
        inherits: Option<Vec<Inherited>>,
        listens: Vec<(u32, SocketAddr)>,
    ) {
        let mut all = self.lifelines.iter_mut().flatten();
        if let Some(lifeline) = all.find(|lifeline| lifeline.token == token) {
            lifeline.inherits = inherits;
            lifeline.listens = listens;
        }
    }

    /// What the child of a fork inherits, if that is listeners alone.
    pub fn inherited(&self, lifeline: u32) -> Option<&[Inherited]> {
        let lifeline = self.lifelines.get(lifeline as usize)?.as_ref()?;
        lifeline.inherits.as_deref()
    }

    /// Where the child of a fork listens, by its parent's names for that.
    pub fn listens_inherited(&self, lifeline: u32) -> Vec<(u32, SocketAddr)> {
        let lifeline = self.lifelines.get(lifeline as usize);
        let lifeline = lifeline.and_then(Option::as_ref);
        lifeline.map_or_else(Vec::new, |lifeline| lifeline.listens.clone())
    }

    /// The child of a fork has closed a listener that it had inherited.
    pub fn inherits_no_longer(&mut self, lifeline: u32, name: u32) {
        let lifeline = self.lifelines.get_mut(lifeline as usize);
        let Some(lifeline) = lifeline.and_then(Option::as_mut) else {
            return;
        };
        lifeline.listens.retain(|(listener, _)| *listener != name);
        if let Some(inherits) = &mut lifeline.inherits {
            inherits.retain(|listener| listener.name != name);
        }
    }

    /// The child of a fork has attached: its lifeline is no longer of interest.
    pub fn forget_lifeline(&mut self, token: u64) {
        for lifeline in &mut self.lifelines {
            if let Some(forgotten) = lifeline.take_if(|l| l.token == token) {
                self.poller.remove(forgotten.fd.as_fd());
                // With all that was said on it and not heard.
                self.turned_away.push((forgotten.uid, forgotten.fd));
            }
        }
    }

    /// Where the lifeline of a fork is.
    pub fn lifeline_of(&self, token: u64) -> Option<u32> {
        let of_fork = |l: &Option<Lifeline>| l.as_ref().is_some_and(|l| l.token == token);
        let slot = self.lifelines.iter().position(of_fork)?;
        u32::try_from(slot).ok()
    }

    /// The fork of a lifeline.
    pub fn token_of_lifeline(&self, slot: u32) -> Option<u64> {
        let lifeline = self.lifelines.get(slot as usize)?.as_ref()?;
        Some(lifeline.token)
    }

    /// The worker that knows of a lifeline.
    pub fn home_of_lifeline(&self, slot: u32) -> WorkerId {
        let lifeline = self.lifelines.get(slot as usize).and_then(Option::as_ref);
        lifeline.map_or(WorkerId::FIRST, |lifeline| lifeline.home)
    }

    /// What is heard on a lifeline.
    pub fn hear_lifeline(&mut self, slot: u32) -> Heard {
        let Some(lifeline) = self.lifelines.get_mut(slot as usize) else {
            return Heard::Quiet;
        };
        let Some(Lifeline { fd, uid, .. }) = lifeline else {
            return Heard::Quiet;
        };
        let uid = *uid;
        let mut message = [0u8; Farewell::LEN];
        match receive_with_sender(fd, &mut message).map_err(errno) {
            Ok(received @ Received { bytes: 1.., .. }) => {
                let message = &message[..received.bytes];
                if *message == KNOCK {
                    let uid = user_of(received.sender);
                    return Heard::Knocked(uid, self.let_in(received));
                }
                let uid = received.sender.map_or(uid, |sender| sender.uid);
                self.turn_away(uid, received.fds);
                match Farewell::decode(message) {
                    Some(said) => Heard::Said(said),
                    // Nobody who plays by the rules says anything else.
                    None => Heard::Quiet,
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => Heard::Quiet,
            ended => {
                let Some(lifeline) = lifeline.take() else {
                    return Heard::Quiet;
                };
                // A message of no bytes, which can bring descriptors, is the end as well. There may be more of them.
                self.poller.remove(lifeline.fd.as_fd());
                let mut fds = ended.map_or_else(|_| Vec::new(), |received| received.fds);
                fds.push(lifeline.fd);
                self.turn_away(uid, fds);
                match lifeline.ticket {
                    Some(_) => Heard::TicketEnded(lifeline.token),
                    None => Heard::Ended(lifeline.token),
                }
            }
        }
    }
}
