//! What the kernel says of its TCP sockets, as far as the fast half works by it: whether the sockets
//! still listen that were shown as proof, and on all interfaces, and whether the kernel has connections of its own on
//! a port.
//!
//! Both mean a walk through the kernel's tables, which takes as long as they are large. So it is done
//! here, and the fast half is told what follows: a proof is good until it hears otherwise, and a port
//! is mixed until it hears that the kernel has nothing there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Desk;
use super::cookies::Cookies;
use super::ports::Ports;
use crate::exchange::{Order, WorkerId};
use crate::slow::control::listens_on_all_of;
use crate::slow::kernel::sock_diag;

/// How often it is looked, while there is something to look for.
const PERIOD: Duration = Duration::from_secs(1);
/// When a port is looked at that has just become mixed: what a program waits for, which the worker says next, goes
/// first.
const AFTER_ANSWERS: Duration = Duration::from_millis(1);
/// When it is first looked again after a program has ended or closed a listener: the kernel's socket
/// closes a moment before or after. Each time that follows is twice as long, up to the period.
const FIRST_LOOK: Duration = Duration::from_millis(4);

/// Ports that are looked at before somebody who waits is answered.
const PORTS_AT_ONCE: usize = 8;

/// Who knows which TCP sockets the kernel has.
pub trait KernelSockets: Send {
    /// The cookies (SO_COOKIE) of those that listen, with the interface that each is bound to, or 0; `None` if it is
    /// not known.
    fn listening(&mut self) -> Option<HashMap<u64, u32>>;

    /// How many connections with other machines the kernel has on a local port; more than none if it is
    /// not known.
    fn connections(&mut self, port: u16) -> usize;

    /// How many SYN cookies the kernel has sent since it began; `None` if it is not known.
    fn cookies_sent(&mut self) -> Option<u64>;
}

/// The kernel itself, by sock_diag(7).
#[derive(Debug, Default)]
struct Diag {
    /// It has been said that it does not answer.
    told: bool,
}

impl Diag {
    fn silent(&mut self, error: Errno) {
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                %error,
                "the kernel does not say which TCP sockets it has (modprobe tcp_diag): each segment \
                 to a listener is looked up in its tables, and a listener is believed for as long \
                 as its program is attached"
            );
        }
    }
}

impl KernelSockets for Diag {
    fn listening(&mut self) -> Option<HashMap<u64, u32>> {
        sock_diag::listening_sockets()
            .map_err(|error| self.silent(error))
            .ok()
    }

    fn connections(&mut self, port: u16) -> usize {
        sock_diag::kernel_connections(port).unwrap_or_else(|error| {
            self.silent(error);
            1
        })
    }

    fn cookies_sent(&mut self) -> Option<u64> {
        sock_diag::cookies_sent()
    }
}

/// What is looked for.
pub(super) struct Followed {
    kernel: Box<dyn KernelSockets>,
    /// The cookies that were shown as proof, each with its port.
    proofs: HashMap<u64, u16>,
    /// Those of them that were bound to an interface since, for which alone they listen.
    confined: BTreeSet<u64>,
    /// The fast half was told that it hears when one of them listens no longer.
    promised: bool,
    /// The kernel did not say which sockets listen when it was last asked.
    silent: bool,
    /// Mixed ports, and the last question of each worker about each.
    mixed: BTreeMap<(u16, WorkerId), u64>,
    /// Ports of them that are looked at next, and when they are.
    new: Ports,
    new_at: Option<Instant>,
    /// The last of those that are looked at again, while that goes on.
    last: Option<u16>,
    /// What the kernel has sent to clients of which it knows nothing.
    cookies: Cookies,
    /// When ports were looked at that had just become mixed, if that is not long ago.
    looked: BTreeMap<(u16, WorkerId), Instant>,
    /// When proofs are looked at next, and how long after the last time that is.
    proofs_at: Option<(Instant, Duration)>,
    /// When mixed ports are looked at next.
    mixed_at: Option<Instant>,
}

impl Default for Followed {
    fn default() -> Self {
        Self::by(Box::<Diag>::default())
    }
}

impl Followed {
    fn by(kernel: Box<dyn KernelSockets>) -> Self {
        Self {
            kernel,
            proofs: HashMap::new(),
            confined: BTreeSet::new(),
            promised: false,
            silent: false,
            mixed: BTreeMap::new(),
            new: Ports::default(),
            new_at: None,
            last: None,
            cookies: Cookies::default(),
            looked: BTreeMap::new(),
            proofs_at: None,
            mixed_at: None,
        }
    }

    /// All mixed ports are looked at again a period after that was last done: not before it is done, however long it
    /// takes.
    fn come_back(&mut self, now: Instant) {
        if self.last.is_none() {
            self.mixed_at.get_or_insert(now + PERIOD);
        }
    }

    /// When there is something to look at next.
    pub(super) fn due(&self) -> Option<Instant> {
        let proofs = self.proofs_at.map(|(at, _)| at);
        let ports = self.new_at.into_iter().chain(self.mixed_at);
        proofs.into_iter().chain(ports).min()
    }
}

/// The questions of all workers about a port.
fn all_who_ask(port: u16) -> RangeInclusive<(u16, WorkerId)> {
    (port, WorkerId(0))..=(port, WorkerId(u16::MAX))
}

impl Desk {
    /// With somebody else's word for the kernel's.
    #[must_use]
    pub fn asking(mut self, kernel: Box<dyn KernelSockets>) -> Self {
        self.followed = Followed::by(kernel);
        self
    }

    /// A socket is shown as proof: the fast half hears when it listens no longer. What is known of others
    /// on its port is made new first, since it may take over from them.
    pub(super) fn follow_proof(&mut self, cookie: u64, port: u16) {
        let known = &self.followed.proofs;
        let others = known.iter().any(|(c, p)| *p == port && *c != cookie);
        self.followed.proofs.insert(cookie, port);
        // One that was bound to an interface, and is shown now, is so no longer.
        if others || !self.followed.promised || self.followed.confined.contains(&cookie) {
            self.look_at_proofs();
        }
        let next = Instant::now() + PERIOD;
        self.followed.proofs_at.get_or_insert((next, PERIOD));
    }

    /// A listener may have lost its socket just now, or is about to.
    pub(super) fn proofs_may_end(&mut self) {
        if !self.followed.proofs.is_empty() {
            self.followed.proofs_at = Some((Instant::now() + FIRST_LOOK, FIRST_LOOK));
        }
    }

    /// The fast half asks, for the time of this number, whether the kernel has connections on a port. To look takes
    /// about a millisecond, in which nobody is answered: so that is done a moment later, and no more than once a
    /// period, however often a program listens anew.
    pub(super) fn mixed(&mut self, from: WorkerId, port: u16, question: u64) {
        let now = Instant::now();
        self.followed.mixed.insert((port, from), question);
        let looked = &mut self.followed.looked;
        looked.retain(|_, at| now.saturating_duration_since(*at) < PERIOD);
        if looked.contains_key(&(port, from)) {
            self.followed.come_back(now);
            return;
        }
        self.followed.new.push(port);
        self.followed.new_at.get_or_insert(now + AFTER_ANSWERS);
    }

    /// Looks at ports that were asked about since, and comes back a moment later if there are many.
    pub(super) fn look_at_new_ports(&mut self) {
        let now = Instant::now();
        let followed = &mut self.followed;
        let mut unused = Vec::new();
        for _ in 0..PORTS_AT_ONCE {
            let Some(port) = followed.new.pop() else {
                break;
            };
            if followed.last == Some(port) {
                followed.last = None;
            }
            // One look answers all.
            let of_port = followed.mixed.range(all_who_ask(port));
            let asked: Vec<_> = of_port.map(|(of, _)| *of).collect();
            // They may have been answered meanwhile, or nobody listens there any more.
            if asked.is_empty() {
                continue;
            }
            if followed.kernel.connections(port) == 0 {
                unused.push(port);
            }
            followed
                .looked
                .extend(asked.into_iter().map(|of| (of, now)));
        }
        let more = !followed.new.is_empty();
        followed.new_at = more.then(|| Instant::now() + AFTER_ANSWERS);
        self.tell_of_unused(&unused);
        if !self.followed.mixed.is_empty() {
            self.followed.come_back(Instant::now());
        }
    }

    /// The kernel has no connections on these ports: all who asked hear of that.
    fn tell_of_unused(&mut self, ports: &[u16]) {
        if ports.is_empty() {
            return;
        }
        // Later than it was looked at connections: what was a cookie then is one of those, or counted here.
        let sent = self.followed.kernel.cookies_sent();
        let cookies = self.followed.cookies.may_be_answered(sent, Instant::now());
        for &port in ports {
            let of_port = self.followed.mixed.range(all_who_ask(port));
            let asked: Vec<_> = of_port.map(|(of, question)| (*of, *question)).collect();
            for (of, question) in asked {
                self.followed.mixed.remove(&of);
                let answer = Order::OnlyOurs {
                    port,
                    question,
                    cookies,
                };
                self.crew.order(of.1, answer);
            }
        }
    }

    /// Whether the kernel does not say which TCP sockets it has: a listener is believed, and its port mixed, for as
    /// long as its program is attached.
    pub(super) fn are_sockets_unknown(&self) -> bool {
        self.followed.silent
    }

    /// Whether a socket was shown as proof for this port, and listens, as far as is known.
    pub(super) fn proves_port(&self, port: u16) -> bool {
        self.followed.proofs.values().any(|proven| *proven == port)
    }

    /// Looks at what is due.
    pub(super) fn look_at_sockets(&mut self, now: Instant) {
        if self.followed.mixed_at.is_some_and(|at| at <= now) {
            self.look_at_mixed(now);
        }
        if self.followed.new_at.is_some_and(|at| at <= now) {
            self.look_at_new_ports();
        }
        if let Some((at, pause)) = self.followed.proofs_at
            && at <= now
        {
            self.look_at_proofs();
            let pause = (2 * pause).min(PERIOD);
            let any = !self.followed.proofs.is_empty();
            self.followed.proofs_at = any.then(|| (now + pause, pause));
        }
    }

    /// Looks at everything, whether it is due or not.
    pub(super) fn look_at_all_sockets(&mut self) {
        if !self.followed.proofs.is_empty() {
            self.look_at_proofs();
        }
        self.look_at_mixed(Instant::now());
        while self.followed.new_at.is_some() {
            self.look_at_new_ports();
        }
    }

    fn look_at_proofs(&mut self) {
        let open = self.followed.kernel.listening();
        self.followed.silent = open.is_none();
        if self.followed.promised != open.is_some() {
            self.followed.promised = open.is_some();
            let promised = self.followed.promised;
            self.order_all(|| Order::FollowsProofs(promised));
        }
        let Some(open) = open else {
            return;
        };
        let ended = self
            .followed
            .proofs
            .extract_if(|c, _| !open.contains_key(c));
        let ended: Vec<u64> = ended.map(|(cookie, _)| cookie).collect();
        for cookie in ended {
            self.order_all(|| Order::Unproven(cookie));
        }
        let proofs = self.followed.proofs.keys().copied();
        let is_confined = |cookie: &u64| {
            let bound = open.get(cookie).copied().unwrap_or(0);
            !listens_on_all_of(&self.facts.indices, bound)
        };
        let confined: BTreeSet<u64> = proofs.filter(is_confined).collect();
        if confined != self.followed.confined {
            self.tell_of_confined(&confined);
            self.followed.confined.clone_from(&confined);
            self.order_all(|| Order::Confined(confined.clone()));
        }
    }

    /// Says whose new connections are the kernel's since, or not any more.
    fn tell_of_confined(&self, now: &BTreeSet<u64>) {
        let Followed {
            proofs, confined, ..
        } = &self.followed;
        for port in now.difference(confined).filter_map(|it| proofs.get(it)) {
            tracing::warn!(
                port,
                "a listening socket was bound to an interface: new connections to it are the kernel's"
            );
        }
        for port in confined.difference(now).filter_map(|it| proofs.get(it)) {
            tracing::info!(port, "a listening socket is bound to no interface any more");
        }
    }

    /// All mixed ports are looked at next, behind those that wait for it already.
    fn look_at_mixed(&mut self, now: Instant) {
        // Where no listener is left nobody needs to know.
        let Followed {
            mixed, proofs, new, ..
        } = &mut self.followed;
        let listened: BTreeSet<u16> = proofs.values().copied().collect();
        mixed.retain(|(port, _), _| listened.contains(port));
        mixed.keys().for_each(|(port, _)| new.push(*port));
        self.followed.last = self.followed.new.last();
        self.followed.new_at = self.followed.last.map(|_| now);
        self.followed.mixed_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::exchange::{self, ToSlow};
    use crate::slow::control::Control;
    use crate::slow::desk::Facts;
    use std::collections::HashSet;
    use std::sync::{Arc, Mutex};

    /// The cookie of each socket that listens, the ports that have connections, and those that were asked about.
    type State = (HashSet<u64>, HashSet<u16>, Vec<u16>);

    #[derive(Clone, Default)]
    struct Stated(Arc<Mutex<State>>);

    impl Stated {
        fn looked(&self) -> Vec<u16> {
            self.0.lock().expect("no panic").2.clone()
        }
    }

    impl KernelSockets for Stated {
        fn listening(&mut self) -> Option<HashMap<u64, u32>> {
            let listen = &self.0.lock().expect("no panic").0;
            Some(listen.iter().map(|cookie| (*cookie, 0)).collect())
        }

        fn connections(&mut self, port: u16) -> usize {
            let mut stated = self.0.lock().expect("no panic");
            stated.2.push(port);
            usize::from(stated.1.contains(&port))
        }

        fn cookies_sent(&mut self) -> Option<u64> {
            Some(0)
        }
    }

    fn desk() -> (Desk, ToSlow, Stated) {
        let config = Config::default();
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let (to_fast, to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let desk = Desk::new(Facts::new(&config, [1], 0), control, to_fast).expect("polled");
        let stated = Stated::default();
        (desk.asking(Box::new(stated.clone())), to_slow, stated)
    }

    fn told(fast: &mut ToSlow) -> Vec<String> {
        std::iter::from_fn(|| fast.order())
            .map(|order| format!("{order:?}"))
            .collect()
    }

    #[test]
    fn it_is_looked_soon_after_somebody_ended_and_ever_more_rarely() {
        let (mut desk, mut fast, stated) = desk();
        desk.proofs_may_end();
        assert_eq!(desk.followed.due(), None, "there are none");
        stated.0.lock().expect("no panic").0.extend([1, 2]);
        desk.follow_proof(1, 80);
        desk.follow_proof(2, 443);
        assert_eq!(told(&mut fast), ["FollowsProofs(true)"], "once");
        let due = |desk: &Desk, from: Instant| {
            let due = desk.followed.due().expect("something");
            due.saturating_duration_since(from)
        };
        let now = Instant::now();
        assert!(due(&desk, now) <= PERIOD && due(&desk, now) > PERIOD / 2);
        desk.proofs_may_end();
        assert!(due(&desk, now) < PERIOD / 2);
        let mut at = desk.followed.due().expect("soon");
        let mut pauses = Vec::new();
        for _ in 0..10 {
            desk.look_at_sockets(at - Duration::from_nanos(1));
            assert_eq!(desk.followed.due(), Some(at), "not yet");
            desk.look_at_sockets(at);
            pauses.push(due(&desk, at));
            at += due(&desk, at);
        }
        assert_eq!(pauses[..3], [2, 4, 8].map(|times| FIRST_LOOK * times));
        assert_eq!(pauses[8..], [PERIOD; 2]);
        assert!(told(&mut fast).is_empty());
        stated.0.lock().expect("no panic").0.remove(&2);
        desk.look_at_sockets(at);
        assert_eq!(told(&mut fast), ["Unproven(2)"]);
        stated.0.lock().expect("no panic").0.clear();
        desk.look_at_sockets(at + PERIOD);
        assert_eq!(told(&mut fast), ["Unproven(1)"]);
        assert_eq!(desk.followed.due(), None, "nothing is left to look for");
    }

    #[test]
    fn who_shows_another_socket_of_a_port_hears_of_the_first_at_once() {
        let (mut desk, mut fast, stated) = desk();
        stated.0.lock().expect("no panic").0.insert(1);
        desk.follow_proof(1, 80);
        told(&mut fast);
        stated.0.lock().expect("no panic").0.extend([2, 3]);
        stated.0.lock().expect("no panic").0.remove(&1);
        desk.follow_proof(2, 443);
        assert!(told(&mut fast).is_empty(), "another port");
        desk.follow_proof(3, 80);
        assert_eq!(told(&mut fast), ["Unproven(1)"]);
    }

    #[test]
    fn a_port_is_asked_about_until_the_kernel_has_nothing_there_or_nobody_listens() {
        let (mut desk, mut fast, stated) = desk();
        let state = |desk: &Desk| {
            let ports = desk.followed.mixed.keys().map(|(port, _)| *port);
            ports.collect::<Vec<_>>()
        };
        stated.0.lock().expect("no panic").0.insert(1);
        desk.follow_proof(1, 80);
        told(&mut fast);
        desk.mixed(WorkerId::FIRST, 80, 6);
        desk.mixed(WorkerId::FIRST, 80, 7);
        desk.look_at_sockets(Instant::now() - AFTER_ANSWERS);
        assert!(told(&mut fast).is_empty(), "who waits comes first");
        let at = desk.followed.due().expect("in a moment");
        desk.look_at_sockets(at);
        let answer = ["OnlyOurs { port: 80, question: 7, cookies: false }"];
        assert_eq!(told(&mut fast), answer, "the last question");
        stated.0.lock().expect("no panic").1.insert(80);
        desk.mixed(WorkerId::FIRST, 80, 7);
        desk.mixed(WorkerId::FIRST, 443, 8);
        desk.look_at_new_ports();
        assert_eq!(state(&desk), [80]);
        stated.0.lock().expect("no panic").1.insert(443);
        desk.mixed(WorkerId::FIRST, 443, 9);
        desk.look_at_new_ports();
        assert_eq!(state(&desk), [80, 443]);
        let at = desk.followed.mixed_at.expect("in a while");
        desk.look_at_sockets(at);
        assert_eq!(state(&desk), [80], "nobody listens at the other");
        stated.0.lock().expect("no panic").1.clear();
        told(&mut fast);
        desk.look_at_sockets(at + PERIOD);
        assert_eq!(told(&mut fast), answer);
        assert_eq!(desk.followed.mixed_at, None);
    }

    #[test]
    fn who_listens_anew_again_and_again_has_his_port_looked_at_once_a_period() {
        let (mut desk, mut fast, stated) = desk();
        stated.0.lock().expect("no panic").0.insert(1);
        desk.follow_proof(1, 80);
        told(&mut fast);
        desk.mixed(WorkerId::FIRST, 80, 1);
        desk.look_at_new_ports();
        assert_eq!(
            told(&mut fast),
            ["OnlyOurs { port: 80, question: 1, cookies: false }"]
        );
        for question in 2..9 {
            desk.mixed(WorkerId::FIRST, 80, question);
            desk.look_at_new_ports();
        }
        assert!(told(&mut fast).is_empty(), "it was looked at a moment ago");
        let at = desk.followed.due().expect("in a while");
        desk.look_at_sockets(at);
        let at = desk.followed.mixed_at.unwrap_or(at);
        desk.look_at_sockets(at);
        assert_eq!(
            told(&mut fast),
            ["OnlyOurs { port: 80, question: 8, cookies: false }"]
        );
    }

    /// Every worker has mixed its listeners, say: one was away.
    #[test]
    fn many_ports_are_looked_at_once_each_and_who_waits_comes_between() {
        const PORTS: u16 = 3 * PORTS_AT_ONCE as u16 - 1;
        let (mut desk, _fast, stated) = desk();
        for port in 1..=PORTS {
            stated.0.lock().expect("no panic").0.insert(port.into());
            desk.follow_proof(port.into(), port);
            for worker in 0..4 {
                desk.mixed(WorkerId(worker), port, 1);
            }
        }
        let left = |desk: &Desk| desk.followed.mixed.len();
        for ports in [PORTS, PORTS - 8, PORTS - 16] {
            assert_eq!(left(&desk), 4 * usize::from(ports));
            desk.look_at_sockets(desk.followed.due().expect("in a moment"));
        }
        assert_eq!(left(&desk), 0);
        // As when it comes back to those that have some.
        stated.0.lock().expect("no panic").1.insert(7);
        desk.mixed(WorkerId::FIRST, 7, 2);
        desk.look_at_sockets(desk.followed.mixed_at.expect("in a while"));
        assert_eq!(left(&desk), 1);
    }

    /// Somebody listens on a port, and a worker asks about it.
    fn listen(desk: &mut Desk, stated: &Stated, port: u16) {
        stated.0.lock().expect("no panic").0.insert(port.into());
        desk.follow_proof(port.into(), port);
        desk.mixed(WorkerId::FIRST, port, 1);
    }

    #[test]
    fn each_port_has_its_turn_however_long_it_takes_to_look_at_all() {
        const PORTS: u16 = 3 * PORTS_AT_ONCE as u16;
        let (mut desk, _fast, stated) = desk();
        for port in 1..=PORTS {
            stated.0.lock().expect("no panic").1.insert(port);
            listen(&mut desk, &stated, port);
        }
        // As if a few took longer than a period.
        let mut now = Instant::now();
        for _ in 0..3 {
            now += 2 * PERIOD;
            desk.look_at_sockets(now);
        }
        assert!(stated.looked().into_iter().eq(1..=PORTS));
        for _ in 0..4 {
            now += 2 * PERIOD;
            desk.look_at_sockets(now);
        }
        let looked = stated.looked();
        let times = |port| looked.iter().filter(|its| **its == port).count();
        assert!((1..=PORTS).all(|port| times(port) >= 2), "{looked:?}");
    }

    #[test]
    fn who_listens_on_ever_other_ports_takes_nobodys_turn() {
        const PORT: u16 = 8080;
        let (mut desk, _fast, stated) = desk();
        stated.0.lock().expect("no panic").1.insert(PORT);
        listen(&mut desk, &stated, PORT);
        let mut now = Instant::now();
        let mut others = 1024..;
        for _ in 0..10 {
            for port in others.by_ref().take(PORTS_AT_ONCE) {
                listen(&mut desk, &stated, port);
            }
            now += 2 * PERIOD;
            desk.look_at_sockets(now);
        }
        let looked = stated.looked();
        let times = looked.iter().filter(|port| **port == PORT).count();
        assert!(times >= 3, "{looked:?}");
    }
}
