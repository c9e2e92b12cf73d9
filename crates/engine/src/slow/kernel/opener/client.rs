//! The engine's side: whoever needs a privilege asks here, and may wait.

use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use netdev::cgroup::Hook;
use rustix::io::{Errno, Result};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use wire::ethernet::MacAddr;

use super::channel::{ANSWER, Begun, pair, receive, send};
use super::doer::{Doer, Done};
use super::words::{Dump, Operation};
use crate::slow::kernel::netlink::Netlink;
use crate::slow::kernel::privileges::Rights;

/// How long it may take to answer what does not wait for the kernel's lock on networks. The slow half waits as well,
/// which has its own watchdog to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long it may take to say what it may do, when it has just been started.
const TO_BEGIN: Duration = Duration::from_secs(10);

/// So many answers in a row do not come in time from one that is stopped, or hangs. Machines stand still for a while:
/// who was late once is asked again.
const TOO_LATE: u8 = 3;

/// How long an answer may take: [`PATIENCE`], but in tests.
#[derive(Debug, Clone, Copy)]
struct Patience(Duration);

impl Default for Patience {
    fn default() -> Self {
        Self(PATIENCE)
    }
}

/// Who does what takes privileges.
#[derive(Debug, Clone, Default)]
pub struct Opener(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// For neighbours. Who asks may have to wait for whoever holds the kernel's lock on all that changes in networks.
    neighbours: Mutex<Way>,
    /// For everything else.
    others: Mutex<Way>,
    /// What it may do, if it is another than who asks.
    rights: Option<Rights>,
    process: Option<OwnedFd>,
    /// Our ends of both ways.
    sockets: Vec<Arc<OwnedFd>>,
    /// How long an answer may take.
    patience: Patience,
    is_gone: AtomicBool,
    /// And that has been said.
    is_said: AtomicBool,
}

impl Shared {
    /// With one that has said by both ways what it may do.
    fn greeted(socket: OwnedFd, patience: Patience) -> Result<Self> {
        let (neighbours, its) = pair()?;
        send(&socket, &[IoSlice::new(&[0])], Some(its.as_fd()))?;
        // Who has it alone is heard to end.
        drop(its);
        let (neighbours, socket) = (Arc::new(neighbours), Arc::new(socket));
        let mut rights = None;
        for way in [&neighbours, &socket] {
            let (_, hello) = receive_one(way, Instant::now() + TO_BEGIN)?;
            let can = Rights::decode(&hello?.told).ok_or(Errno::PROTO)?;
            // What it cannot do nobody could any more.
            if !can.can_open_as(&Rights::kept()?) {
                return Err(Errno::PERM);
            }
            rights = Some(can);
        }
        Ok(Self {
            sockets: vec![Arc::clone(&neighbours), Arc::clone(&socket)],
            neighbours: Mutex::new(Way::There(There::new(neighbours))),
            others: Mutex::new(Way::There(There::new(socket))),
            rights,
            patience,
            ..Self::default()
        })
    }
}

#[derive(Debug)]
enum Way {
    /// Whoever asks does it.
    Here(Doer),
    /// Another does.
    There(There),
    Gone,
}

/// One end of a way to another.
#[derive(Debug)]
struct There {
    socket: Arc<OwnedFd>,
    /// Of the last request: what is answered to another comes too late, and is nobody's.
    number: u16,
    /// So many requests in a row had no answer in time.
    late: u8,
}

impl There {
    fn new(socket: Arc<OwnedFd>) -> Self {
        Self {
            socket,
            number: 0,
            late: 0,
        }
    }

    /// The answer to the last request, if it comes in time.
    fn answer(&self, patience: Patience) -> Result<Result<Done>> {
        let until = Instant::now() + patience.0;
        loop {
            let (number, answer) = receive_one(&self.socket, until)?;
            if number == self.number {
                return Ok(answer);
            }
        }
    }
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
            neighbours: Mutex::new(Way::Here(Doer::of(interfaces)?)),
            ..Shared::default()
        })))
    }

    /// One that has been started, when it has said what it may do.
    ///
    /// # Errors
    /// It does not say so.
    pub fn of(begun: Begun) -> Result<Self> {
        Self::with_patience(begun, Patience::default())
    }

    fn with_patience(begun: Begun, patience: Patience) -> Result<Self> {
        let Begun { socket, process } = begun;
        match Shared::greeted(socket, patience) {
            Ok(shared) => Ok(Self(Arc::new(Shared { process, ..shared }))),
            Err(error) => {
                // Nobody would ask it, nor ever hear of its end.
                if let Some(process) = process {
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                    let _ = waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED);
                }
                Err(error)
            }
        }
    }

    /// What it may do, if it is another than who asks.
    pub fn rights(&self) -> Option<&Rights> {
        self.0.rights.as_ref()
    }

    /// Whether it can be asked.
    pub fn is_there(&self) -> bool {
        !self.0.is_gone.load(Ordering::Relaxed)
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
        self.is_gone();
        self.say_so(&why);
    }

    /// It is asked nothing any more. Who waits for it hears that, and so does it, if it was only stopped.
    fn is_gone(&self) {
        self.0.is_gone.store(true, Ordering::Relaxed);
        for socket in &self.0.sockets {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Says so once, and what follows.
    fn say_so(&self, why: &str) {
        if !self.0.is_said.swap(true, Ordering::Relaxed) {
            tracing::error!(
                why,
                "the opener is gone: until the engine is started again, no neighbour is probed or confirmed, no changed \
                 rules of netfilter or policies of IPsec are read, nobody is told of BPF programs of cgroups, and only \
                 so many receive queues can be added as there are sockets"
            );
        }
    }

    /// Asks about a neighbour, and waits for as long as that takes: the kernel answers when it has its lock.
    fn ask_of_neighbour(&self, operation: &Operation) -> Result<()> {
        // That the opener is there all the same it says where no lock is waited for.
        let is_there = || self.ask(&Operation::Alive, None).is_ok();
        let done = self.ask_by(&self.0.neighbours, is_there, operation, None);
        done.map(drop)
    }

    /// Asks anything else, and waits for the answer.
    fn ask(&self, operation: &Operation, fd: Option<BorrowedFd<'_>>) -> Result<Done> {
        self.ask_by(&self.0.others, || false, operation, fd)
    }

    /// Asks by one of its ways. Where the answer is late, it is waited for while it `may_come`.
    ///
    /// # Errors
    /// The kernel's; `TIMEDOUT`: it did not answer in time; `PIPE`: there is nobody to ask.
    fn ask_by(
        &self,
        way: &Mutex<Way>,
        may_come: impl Fn() -> bool,
        operation: &Operation,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<Done> {
        // Whoever panics ends the engine.
        let mut way = way.lock().unwrap_or_else(PoisonError::into_inner);
        let there = match &mut *way {
            Way::Here(doer) => return doer.perform(operation, fd),
            Way::There(there) => there,
            Way::Gone => return Err(Errno::PIPE),
        };
        there.number = there.number.wrapping_add(1);
        let bytes = operation.encode(there.number)?;
        let patience = self.0.patience;
        let mut answered =
            send(&there.socket, &[IoSlice::new(&bytes)], fd).and_then(|()| there.answer(patience));
        while matches!(answered, Err(Errno::TIMEDOUT)) && may_come() {
            answered = there.answer(patience);
        }
        match answered {
            Ok(answered) => {
                there.late = 0;
                answered
            }
            Err(Errno::TIMEDOUT) if there.late + 1 < TOO_LATE => {
                there.late += 1;
                Err(Errno::TIMEDOUT)
            }
            Err(error) => {
                *way = Way::Gone;
                self.is_gone();
                // Who is told that the process has ended says how.
                if error != Errno::PIPE || self.0.process.is_none() {
                    self.say_so(&error.to_string());
                }
                Err(Errno::PIPE)
            }
        }
    }

    /// Has the kernel resolve a neighbour on an interface, or probe it.
    pub fn probe(&self, interface: u32, address: IpAddr) -> Result<()> {
        self.ask_of_neighbour(&Operation::Probe { interface, address })
    }

    /// Tells the kernel that a neighbour answers.
    pub fn confirm(&self, interface: u32, address: IpAddr, mac: MacAddr) -> Result<()> {
        let confirm = Operation::Confirm {
            interface,
            address,
            mac,
        };
        self.ask_of_neighbour(&confirm)
    }

    /// Has the device of an interface take the tags of VLANs off, or leave them on.
    pub fn strip_vlan_tags(&self, interface: u32, strip: bool) -> Result<()> {
        // This waits for the kernel's lock as well.
        self.ask_of_neighbour(&Operation::VlanTags { interface, strip })
    }

    /// An AF_XDP socket.
    pub fn socket(&self) -> Result<OwnedFd> {
        self.ask_for(&Operation::Socket)
    }

    /// A dump of nf_tables that has begun.
    pub fn rules(&self, what: Dump) -> Result<Netlink> {
        self.ask_for(&Operation::Rules(what)).map(Netlink::begun)
    }

    /// The same of a set's elements.
    pub fn elements(&self, family: u8, table: &str, set: &str) -> Result<Netlink> {
        let (table, set) = (table.to_owned(), set.to_owned());
        self.ask_for(&Operation::Elements { family, table, set })
            .map(Netlink::begun)
    }

    /// What hears when rules change.
    pub fn rule_changes(&self) -> Result<Netlink> {
        self.ask_for(&Operation::RuleChanges).map(Netlink::begun)
    }

    /// Whether IPsec has policies.
    pub fn has_policies(&self) -> Result<bool> {
        let done = self.ask(&Operation::Policies, None)?;
        Ok(done.told.first().is_some_and(|any| *any != 0))
    }

    /// What hears when those change; none where there can be none.
    pub fn policy_changes(&self) -> Result<Option<Netlink>> {
        let done = self.ask(&Operation::PolicyChanges, None)?;
        Ok(done.fd.map(Netlink::begun))
    }

    /// The hooks at which a cgroup has programs.
    pub fn hooks(&self, cgroup: BorrowedFd<'_>) -> Result<Vec<Hook>> {
        let done = self.ask(&Operation::Hooks, Some(cgroup))?;
        Ok(Hook::decode(&done.told))
    }

    fn ask_for(&self, operation: &Operation) -> Result<OwnedFd> {
        self.ask(operation, None)?.fd.ok_or(Errno::PROTO)
    }
}

/// Its next message, if one comes until then: which request it answers, and how.
fn receive_one(socket: &OwnedFd, until: Instant) -> Result<(u16, Result<Done>)> {
    let mut bytes = [0; ANSWER];
    let mut came = receive(socket, &mut bytes, Some(until))?;
    let message = bytes.get(..came.bytes).unwrap_or_default();
    let (number, answer) = message.split_first_chunk().ok_or(Errno::PROTO)?;
    let (code, told) = answer.split_first_chunk().ok_or(Errno::PROTO)?;
    let answer = match i32::from_ne_bytes(*code) {
        0 => Ok(Done {
            fd: came.fds.pop(),
            told: told.to_vec(),
        }),
        code => Err(Errno::from_raw_os_error(code)),
    };
    Ok((u16::from_ne_bytes(*number), answer))
}

#[cfg(test)]
mod tests {
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
        // The loopback leaves them on and can do nothing else.
        let loopback = netdev::Interface::find("lo").expect("every namespace has a loopback");
        opener
            .strip_vlan_tags(loopback.index, false)
            .expect("nothing is changed");
        let strips = opener.strip_vlan_tags(loopback.index, true);
        assert_eq!(strips, Err(Errno::OPNOTSUPP));
        assert_eq!(opener.strip_vlan_tags(u32::MAX, false), Err(Errno::ACCESS));
        let file = std::fs::File::open("/proc").expect("a directory that is no cgroup");
        assert!(opener.hooks(file.as_fd()).is_err());
        opener
            .socket()
            .expect("what was refused does no harm to it");
    }

    /// All capabilities, and no filter.
    const HELLO: &[u8] = &[0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0];

    /// Says this by both ways, as one that begins; the other way.
    fn greet(its: &OwnedFd, hello: &[u8]) -> OwnedFd {
        let mut came = receive(its, &mut [0], None).expect("the other way");
        let other = came.fds.pop().expect("it comes along");
        for way in [&other, its] {
            send(way, &[IoSlice::new(hello)], None).expect("sent");
        }
        other
    }

    /// One that says this by both ways, and then waits until it may go on.
    fn says(hello: &'static [u8]) -> (Begun, std::sync::mpsc::Sender<()>) {
        let (socket, its) = pair().expect("descriptors");
        let (go, may_go) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _other = greet(&its, hello);
            let _ = may_go.recv();
        });
        let process = None;
        (Begun { socket, process }, go)
    }

    #[test]
    fn one_that_has_ended_is_not_waited_for() {
        let (begun, go) = says(HELLO);
        let opener = Opener::of(begun).expect("it has said so");
        assert!(opener.is_there());
        drop(go);
        for _ in 0..2 {
            assert_eq!(opener.socket().expect_err("nobody"), Errno::PIPE);
            assert!(!opener.is_there());
        }
        let neighbour = opener.probe(1, "192.0.2.1".parse().expect("an address"));
        assert_eq!(neighbour, Err(Errno::PIPE));
    }

    #[test]
    fn one_that_says_nothing_sensible_is_none() {
        let (begun, _go) = says(&[0; 2 + 5]);
        assert_eq!(Opener::of(begun).expect_err("no rights"), Errno::PROTO);
        // It has no capability that this process has.
        let (begun, _go) = says(&[0; 2 + 4 + 9]);
        let has = Rights::kept().expect("the kernel says so");
        match has.names().iter().any(|name| name == "CAP_NET_ADMIN") {
            true => assert_eq!(Opener::of(begun).expect_err("it cannot"), Errno::PERM),
            false => drop(Opener::of(begun).expect("it can do as much")),
        }
    }

    fn soon() -> Patience {
        Patience(Duration::from_millis(20))
    }

    /// As one that is stopped.
    #[test]
    fn one_that_answers_nothing_is_gone_and_nobody_waits_for_ever() {
        let (begun, go) = says(HELLO);
        let opener = Opener::with_patience(begun, soon()).expect("it has said so");
        let waits: Vec<_> = (0..3)
            .map(|_| {
                let asks = opener.clone();
                let address = "192.0.2.1".parse().expect("an address");
                std::thread::spawn(move || {
                    let asked = (0..TOO_LATE + 1).map(|_| asks.probe(1, address));
                    asked.collect::<Vec<_>>()
                })
            })
            .collect();
        for waits in waits {
            let all = waits.join().expect("no panic");
            assert_eq!(all.last(), Some(&Err(Errno::PIPE)), "{all:?}");
        }
        assert!(!opener.is_there());
        assert_eq!(opener.socket().expect_err("nobody"), Errno::PIPE);
        drop(go);
    }

    /// As one that was stopped for a while.
    #[test]
    fn one_that_is_late_is_asked_again_and_what_it_said_too_late_is_nobodys() {
        let (socket, its) = pair().expect("descriptors");
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let other_side = std::thread::spawn(move || {
            let _other = greet(&its, HELLO);
            may_go.recv().expect("the first has been given up");
            for error in [Errno::PERM, Errno::NFILE] {
                let mut bytes = [0; super::super::words::LEN];
                receive(&its, &mut bytes, None).expect("a request");
                let number = super::super::words::number(&bytes).to_ne_bytes();
                let code = error.raw_os_error().to_ne_bytes();
                send(&its, &[&number[..], &code].map(IoSlice::new), None).expect("sent");
            }
        });
        let process = None;
        let begun = Begun { socket, process };
        // No time is counted here but that of the one that is to be late.
        let mut opener = Opener::with_patience(begun, soon()).expect("it has said so");
        assert_eq!(opener.socket().expect_err("late"), Errno::TIMEDOUT);
        assert!(opener.is_there());
        let shared = Arc::get_mut(&mut opener.0).expect("nobody else has it");
        shared.patience = Patience::default();
        go.send(()).expect("it waits");
        assert_eq!(opener.socket().expect_err("refused"), Errno::NFILE);
        assert!(opener.is_there());
        other_side.join().expect("no panic");
    }

    #[test]
    fn who_waits_for_a_neighbour_holds_up_nobody_else() {
        let (socket, its) = pair().expect("descriptors");
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        // Its answer about a neighbour does not come before it is told to go on; another answer does at once.
        let other_side = std::thread::spawn(move || {
            let other = greet(&its, HELLO);
            let mut bytes = [0; super::super::words::LEN];
            receive(&other, &mut bytes, None).expect("about a neighbour");
            receive(&its, &mut bytes, None).expect("about something else");
            // Of each way it is the first request.
            let (first, refused) = (
                1_u16.to_ne_bytes(),
                Errno::PERM.raw_os_error().to_ne_bytes(),
            );
            send(&its, &[&first[..], &refused].map(IoSlice::new), None).expect("sent");
            let _ = may_go.recv();
            send(&other, &[&first[..], &[0; 4]].map(IoSlice::new), None).expect("sent");
        });
        let process = None;
        let opener = Opener::of(Begun { socket, process }).expect("it has said so");
        let asks = opener.clone();
        let waits =
            std::thread::spawn(move || asks.probe(1, "192.0.2.1".parse().expect("an address")));
        assert_eq!(opener.socket().expect_err("refused"), Errno::PERM);
        assert!(opener.is_there());
        drop(go);
        assert_eq!(waits.join().expect("no panic"), Ok(()));
        other_side.join().expect("no panic");
    }
}
