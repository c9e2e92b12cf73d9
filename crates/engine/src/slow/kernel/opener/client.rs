//! The engine's side: whoever needs a privilege asks here, and may wait.

use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netdev::cgroup::Hook;
use rustix::io::{Errno, Result};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::time::Timespec;
use wire::ethernet::MacAddr;

use super::channel::{ANSWER, Begun, receive, send};
use super::doer::{Doer, Done};
use super::words::{Dump, Request};
use crate::slow::kernel::netlink::Netlink;
use crate::slow::kernel::privileges::Rights;

/// How long it may take to answer. The kernel may stand still for a while under its lock, and a machine as well; an
/// opener that was stopped is not waited for again.
const PATIENCE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// Who does what takes privileges.
#[derive(Debug, Clone, Default)]
pub struct Opener(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    way: Mutex<Way>,
    /// What it may do, if it is another than who asks.
    rights: Option<Rights>,
    process: Option<OwnedFd>,
}

#[derive(Debug)]
enum Way {
    /// Whoever asks does it.
    Here(Doer),
    /// Another does.
    There(OwnedFd),
    /// Nobody does, and whether that has been said.
    Gone { is_said: bool },
}

impl Default for Way {
    fn default() -> Self {
        Self::Here(Doer::default())
    }
}

impl Opener {
    /// None: whoever asks does it with its own privileges, on the interfaces with these indices.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn here(interfaces: &[u32]) -> Result<Self> {
        Ok(Self(Arc::new(Shared {
            way: Mutex::new(Way::Here(Doer::of(interfaces)?)),
            ..Shared::default()
        })))
    }

    /// One that has been started, when it has said what it may do.
    ///
    /// # Errors
    /// It does not say so.
    pub fn of(begun: Begun) -> Result<Self> {
        let Begun { socket, process } = begun;
        let hello = answer(&socket)?;
        let rights = Rights::decode(&hello.told).ok_or(Errno::PROTO)?;
        Ok(Self(Arc::new(Shared {
            way: Mutex::new(Way::There(socket)),
            rights: Some(rights),
            process,
        })))
    }

    /// What it may do, if it is another than who asks.
    pub fn rights(&self) -> Option<&Rights> {
        self.0.rights.as_ref()
    }

    /// Whether it can be asked.
    pub fn is_there(&self) -> bool {
        !matches!(*self.way(), Way::Gone { .. })
    }

    /// Readable when its process has ended, if it is one.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.0.process.as_ref().map(AsFd::as_fd)
    }

    /// Its process has ended.
    pub fn ended(&self) {
        // So that it is not left as one that nobody has asked about.
        let status = self.process().and_then(|process| {
            let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            waitid(WaitId::PidFd(process), how).ok().flatten()
        });
        let signal = status.and_then(|status| status.terminating_signal());
        let why = signal.map_or_else(|| "ended".to_owned(), |it| format!("ended by signal {it}"));
        is_gone(&mut self.way(), &why);
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        // Whoever panics ends the engine.
        self.0.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The kernel's; `PIPE`: there is nobody to ask.
    fn ask(&self, request: &Request, fd: Option<BorrowedFd<'_>>) -> Result<Done> {
        let mut way = self.way();
        let socket = match &mut *way {
            Way::Here(doer) => return doer.perform(request, fd),
            Way::There(socket) => socket,
            Way::Gone { .. } => return Err(Errno::PIPE),
        };
        let bytes = request.encode()?;
        let answered = send(socket, &[IoSlice::new(&bytes)], fd).and_then(|()| receive_one(socket));
        match answered {
            Ok(answered) => answered,
            // Who is told that the process has ended says how.
            Err(Errno::PIPE) if self.0.process.is_some() => {
                *way = Way::Gone { is_said: false };
                Err(Errno::PIPE)
            }
            Err(error) => {
                // What it says later would be taken for the answer to another question.
                is_gone(&mut way, &error.to_string());
                Err(Errno::PIPE)
            }
        }
    }

    /// Has the kernel resolve a neighbour on an interface, or probe it.
    pub fn probe(&self, interface: u32, address: IpAddr) -> Result<()> {
        self.ask(&Request::Probe { interface, address }, None)
            .map(drop)
    }

    /// Tells the kernel that a neighbour answers.
    pub fn confirm(&self, interface: u32, address: IpAddr, mac: MacAddr) -> Result<()> {
        let request = Request::Confirm {
            interface,
            address,
            mac,
        };
        self.ask(&request, None).map(drop)
    }

    /// An AF_XDP socket.
    pub fn socket(&self) -> Result<OwnedFd> {
        self.ask_for(&Request::Socket)
    }

    /// A dump of nf_tables that has begun.
    pub fn rules(&self, what: Dump) -> Result<Netlink> {
        self.ask_for(&Request::Rules(what)).map(Netlink::begun)
    }

    /// The same of a set's elements.
    pub fn elements(&self, family: u8, table: &str, set: &str) -> Result<Netlink> {
        let (table, set) = (table.to_owned(), set.to_owned());
        self.ask_for(&Request::Elements { family, table, set })
            .map(Netlink::begun)
    }

    /// What hears when rules change.
    pub fn rule_changes(&self) -> Result<Netlink> {
        self.ask_for(&Request::RuleChanges).map(Netlink::begun)
    }

    /// The hooks at which a cgroup has programs.
    pub fn hooks(&self, cgroup: BorrowedFd<'_>) -> Result<Vec<Hook>> {
        let done = self.ask(&Request::Hooks, Some(cgroup))?;
        Ok(Hook::decode(&done.told))
    }

    fn ask_for(&self, request: &Request) -> Result<OwnedFd> {
        self.ask(request, None)?.fd.ok_or(Errno::PROTO)
    }
}

/// It cannot be asked any more: says so once, and what follows.
fn is_gone(way: &mut Way, why: &str) {
    if !matches!(way, Way::Gone { is_said: true }) {
        *way = Way::Gone { is_said: true };
        tracing::error!(
            why,
            "the opener is gone: until the engine is started again, no neighbour is probed or confirmed, no \
             changed rules of netfilter are read, and only so many receive queues can be added as there are sockets"
        );
    }
}

/// Its next message, which is no refusal.
fn answer(socket: &OwnedFd) -> Result<Done> {
    receive_one(socket)?
}

/// Its next message, if one comes; and what that is.
fn receive_one(socket: &OwnedFd) -> Result<Result<Done>> {
    let mut bytes = [0; ANSWER];
    let mut came = receive(socket, &mut bytes, Some(PATIENCE))?;
    let message = bytes.get(..came.bytes).unwrap_or_default();
    let (code, told) = message.split_first_chunk().ok_or(Errno::PROTO)?;
    Ok(match i32::from_ne_bytes(*code) {
        0 => Ok(Done {
            fd: came.fds.pop(),
            told: told.to_vec(),
        }),
        code => Err(Errno::from_raw_os_error(code)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::channel::pair;
    use super::super::serve::on_a_thread;
    use super::*;

    /// Whoever may not open netlink sockets at all cannot run this.
    fn opener() -> Opener {
        let loopback = netdev::Interface::find("lo").expect("every namespace has a loopback");
        let begun = on_a_thread(&[loopback.index]).expect("a thread");
        Opener::of(begun).expect("it says what it may do")
    }

    #[test]
    fn an_opener_keeps_two_capabilities_and_does_what_it_is_asked() {
        let opener = opener();
        let rights = opener.rights().expect("another's");
        let names = rights.names();
        assert!(rights.confined);
        let left: Vec<&str> = names.iter().map(String::as_str).collect();
        match rustix::process::geteuid().is_root() {
            true => assert_eq!(left, ["CAP_NET_ADMIN", "CAP_NET_RAW"]),
            false => return,
        }
        opener.socket().expect("an AF_XDP socket");
        let elsewhere = opener.probe(u32::MAX, "192.0.2.1".parse().expect("an address"));
        assert_eq!(elsewhere, Err(Errno::ACCESS));
        let file = std::fs::File::open("/proc").expect("a directory that is no cgroup");
        assert!(opener.hooks(file.as_fd()).is_err());
        opener
            .socket()
            .expect("what was refused does no harm to it");
    }

    #[test]
    fn one_that_has_ended_is_not_waited_for() {
        let (ours, its) = pair().expect("descriptors");
        let hello = [0u8; 4 + 9];
        send(&its, &[IoSlice::new(&hello)], None).expect("sent");
        let process = None;
        let opener = Opener::of(Begun {
            socket: ours,
            process,
        });
        let opener = opener.expect("it has said so");
        assert!(opener.is_there());
        drop(its);
        for _ in 0..2 {
            assert_eq!(opener.socket().expect_err("nobody"), Errno::PIPE);
            assert!(!opener.is_there());
        }
    }

    #[test]
    fn one_that_says_nothing_sensible_is_none() {
        let (ours, its) = pair().expect("descriptors");
        send(&its, &[IoSlice::new(&[0; 5])], None).expect("sent");
        let process = None;
        let begun = Begun {
            socket: ours,
            process,
        };
        assert_eq!(Opener::of(begun).expect_err("no rights"), Errno::PROTO);
    }
}
