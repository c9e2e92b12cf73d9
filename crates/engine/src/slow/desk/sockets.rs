//! What the kernel says of its TCP sockets, as far as the fast half works by it: whether the sockets
//! still listen that were shown as proof, and whether the kernel has connections of its own on a port.
//!
//! Both mean a walk through the kernel's tables, which takes as long as they are large. So it is done
//! here, and the fast half is told what follows: a proof is good until it hears otherwise, and a port
//! is mixed until it hears that the kernel has nothing there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Desk;
use crate::exchange::Order;
use crate::slow::kernel::sock_diag;

/// How often it is looked, while there is something to look for.
const PERIOD: Duration = Duration::from_secs(1);
/// When it is first looked again after a program has ended or closed a listener: the kernel's socket
/// closes a moment before or after. Each time that follows is twice as long, up to the period.
const FIRST_LOOK: Duration = Duration::from_millis(4);

/// Who knows which TCP sockets the kernel has.
pub trait KernelSockets: Send {
    /// The cookies (SO_COOKIE) of those that listen; `None` if it is not known.
    fn listening(&mut self) -> Option<HashSet<u64>>;

    /// How many connections with other machines the kernel has on a local port; more than none if it is
    /// not known.
    fn connections(&mut self, port: u16) -> usize;
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
    fn listening(&mut self) -> Option<HashSet<u64>> {
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
}

/// What is looked for.
pub(super) struct Followed {
    kernel: Box<dyn KernelSockets>,
    /// The cookies that were shown as proof, each with its port.
    proofs: HashMap<u64, u16>,
    /// The fast half was told that it hears when one of them listens no longer.
    promised: bool,
    /// Mixed ports, and the last question about each.
    mixed: BTreeMap<u16, u64>,
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
            promised: false,
            mixed: BTreeMap::new(),
            proofs_at: None,
            mixed_at: None,
        }
    }

    /// When there is something to look at next.
    pub(super) fn due(&self) -> Option<Instant> {
        let proofs = self.proofs_at.map(|(at, _)| at);
        proofs.into_iter().chain(self.mixed_at).min()
    }
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
        if others || !self.followed.promised {
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

    /// The fast half asks, for the time of this number, whether the kernel has connections on a port.
    pub(super) fn mixed(&mut self, port: u16, question: u64) {
        self.followed.mixed.insert(port, question);
        self.look_at_port(port, question);
        if !self.followed.mixed.is_empty() {
            let next = Instant::now() + PERIOD;
            self.followed.mixed_at.get_or_insert(next);
        }
    }

    /// Looks at what is due.
    pub(super) fn look_at_sockets(&mut self, now: Instant) {
        if let Some((at, pause)) = self.followed.proofs_at
            && at <= now
        {
            self.look_at_proofs();
            let pause = (2 * pause).min(PERIOD);
            let any = !self.followed.proofs.is_empty();
            self.followed.proofs_at = any.then(|| (now + pause, pause));
        }
        if self.followed.mixed_at.is_some_and(|at| at <= now) {
            self.look_at_mixed();
            let any = !self.followed.mixed.is_empty();
            self.followed.mixed_at = any.then(|| now + PERIOD);
        }
    }

    /// Looks at everything, whether it is due or not.
    pub(super) fn look_at_all_sockets(&mut self) {
        if !self.followed.proofs.is_empty() {
            self.look_at_proofs();
        }
        self.look_at_mixed();
    }

    fn look_at_proofs(&mut self) {
        let open = self.followed.kernel.listening();
        if self.followed.promised != open.is_some() {
            self.followed.promised = open.is_some();
            self.order(Order::FollowsProofs(self.followed.promised));
        }
        let Some(open) = open else {
            return;
        };
        let ended = self.followed.proofs.extract_if(|c, _| !open.contains(c));
        let ended: Vec<u64> = ended.map(|(cookie, _)| cookie).collect();
        for cookie in ended {
            self.order(Order::Unproven(cookie));
        }
    }

    fn look_at_mixed(&mut self) {
        // Where no listener is left nobody needs to know.
        let Followed { mixed, proofs, .. } = &mut self.followed;
        mixed.retain(|port, _| proofs.values().any(|proven| proven == port));
        let questions: Vec<_> = self.followed.mixed.iter().map(|(p, q)| (*p, *q)).collect();
        for (port, question) in questions {
            self.look_at_port(port, question);
        }
    }

    fn look_at_port(&mut self, port: u16, question: u64) {
        if self.followed.kernel.connections(port) == 0 {
            self.followed.mixed.remove(&port);
            self.order(Order::OnlyOurs { port, question });
        }
    }
}
