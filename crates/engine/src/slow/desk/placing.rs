//! Which listeners' new connections go to the kernel: what was configured, and where that is `adaptive`, what
//! follows from what has come to each. It is looked once a second, here; the fast half is told what changes, and
//! steers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netdev::steering::{Load, Loads, MAX_SLOTS, SHARE_ALL};
use queue_pair::control::{ByPolicy, Placed};

use super::Desk;
use crate::config::{Placement, Placements};
use crate::exchange::{Order, Shared, WorkerId};
use crate::network::canonical;
use crate::placement::{Decider, Decision, Figure, LOOK_NS, Place, Why};

/// How often it is looked.
const PERIOD: Duration = Duration::from_nanos(LOOK_NS);

/// Who knows what comes to the shared endpoints of a number.
pub trait ReadLoads: Send {
    /// All that has come; `None` if it is not known.
    fn of_slot(&mut self, slot: u16) -> Option<Load>;
}

impl ReadLoads for Loads {
    fn of_slot(&mut self, slot: u16) -> Option<Load> {
        let read = Loads::of_slot(self, slot);
        read.inspect_err(|error| tracing::warn!(%error, "a listener's load cannot be read"))
            .ok()
    }
}

/// A listener.
struct Listening {
    /// The workers that have it, a bit for each.
    workers: u64,
    configured: Placement,
    /// A program that has it serves nothing that comes by the kernel.
    pinned: bool,
    /// Where its load is counted, if it is shared.
    slot: Option<u16>,
    place: Place,
    decider: Decider,
    decided: Option<Decision>,
}

/// All listeners, and what was configured for them.
pub(super) struct Placing {
    configured: Placements,
    /// None where nothing can be shared: then all are the engine's.
    loads: Option<Box<dyn ReadLoads>>,
    listeners: BTreeMap<SocketAddr, Listening>,
    used: BTreeSet<u16>,
    /// What comes to all of them together for which a policy decides, as of the last look, as far as it is known.
    load: Option<f64>,
    began: Instant,
    /// When it is looked next.
    next: Option<Instant>,
}

impl Default for Placing {
    fn default() -> Self {
        Self {
            configured: Placements::default(),
            loads: None,
            listeners: BTreeMap::new(),
            used: BTreeSet::new(),
            load: None,
            began: Instant::now(),
            next: None,
        }
    }
}

impl Placing {
    /// When there is something to look at next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// For what begins now.
    fn decider(&self, now: Instant) -> Decider {
        Decider::new(self.age(now), self.configured.figure())
    }

    fn age(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_nanos() as u64
    }

    /// Whether a policy leaves files of so many bytes to the programs that name them, at the load that there is;
    /// not given where nothing is known of that.
    pub(super) fn leaves(&self, bytes: u64) -> Option<(bool, f64)> {
        let (file, load) = (self.configured.policy.as_ref()?, self.load?);
        Some((!file.policy().offload(bytes, load), load))
    }

    /// What a policy says.
    fn by_policy(&self) -> Option<ByPolicy> {
        let policy = self.configured.policy.as_ref()?.policy();
        let band = policy.connections();
        let nearest = |rate: f64| rate.round() as u64;
        Some(ByPolicy {
            from: band.offload_from_rate.map(nearest),
            below: band.offload_below_rate.map(nearest),
            reads: self.load.map(|load| policy.sizes(load)),
        })
    }

    /// A number that nobody has.
    fn free_slot(&self) -> Option<u16> {
        (0..MAX_SLOTS).find(|slot| !self.used.contains(slot))
    }
}

impl Listening {
    fn shared(&self) -> Option<Shared> {
        let share = match self.place {
            Place::Engine => SHARE_ALL,
            Place::Kernel => 0,
        };
        self.slot.map(|slot| Shared { share, slot })
    }

    /// What comes to it, if that is known and decides.
    fn known_rate(&self) -> Option<f64> {
        let known = self.decided.filter(|decision| decision.why != Why::Unknown);
        let decides = self.configured == Placement::Adaptive;
        known.filter(|_| decides).map(|decision| decision.rate)
    }

    /// Looks at what has come; whether another place follows from it.
    fn look(&mut self, now: u64, loads: &mut dyn ReadLoads, by: &Placements) -> bool {
        let Some(load) = self.slot.and_then(|slot| loads.of_slot(slot)) else {
            return false;
        };
        let decision = self.decider.look(now, load, |rate| by.pays(rate));
        self.decided = Some(decision);
        let place = match self.configured {
            Placement::Adaptive => decision.place,
            Placement::Engine => Place::Engine,
            Placement::Kernel => Place::Kernel,
        };
        std::mem::replace(&mut self.place, place) != place
    }
}

impl Desk {
    /// Places listeners so, as far as `loads` are known.
    #[must_use]
    pub fn placing(mut self, configured: Placements, loads: Option<Box<dyn ReadLoads>>) -> Self {
        self.placing.configured = configured;
        self.placing.loads = loads;
        self
    }

    /// A worker has a listener there. Once it is `pinned` it stays so until nobody listens there.
    pub(super) fn listens(
        &mut self,
        worker: WorkerId,
        local: SocketAddr,
        pinned: bool,
        now: Instant,
    ) {
        let local = canonical(local);
        let decider = self.placing.decider(now);
        let listener = self.placing.listeners.entry(local).or_insert(Listening {
            workers: 0,
            configured: Placement::Engine,
            pinned: false,
            slot: None,
            place: Place::Engine,
            decider,
            decided: None,
        });
        listener.pinned |= pinned;
        let here = listener.workers & worker.bit() != 0;
        listener.workers |= worker.bit();
        if let shared @ Some(_) = listener.shared()
            && !here
        {
            // What was decided before holds here, too.
            self.crew.order(worker, Order::Place { local, shared });
        }
        self.configure(local, false, now);
    }

    /// It has no listener there any more.
    pub(super) fn listens_no_longer(&mut self, worker: WorkerId, local: SocketAddr) {
        if let Some(listener) = self.placing.listeners.get_mut(&local) {
            listener.workers &= !worker.bit();
            if listener.workers != 0 {
                return;
            }
        }
        if let Some(gone) = self.placing.listeners.remove(&local)
            && let Some(slot) = gone.slot
        {
            self.placing.used.remove(&slot);
        }
    }

    /// What is configured has changed.
    pub(super) fn place_by(&mut self, configured: Placements, now: Instant) {
        let before = std::mem::replace(&mut self.placing.configured, configured);
        let other_figure = before.figure() != self.placing.configured.figure();
        if other_figure {
            self.placing.load = None;
        }
        let locals: Vec<SocketAddr> = self.placing.listeners.keys().copied().collect();
        for local in locals {
            self.configure(local, other_figure, now);
        }
    }

    /// Places a listener as is configured now. Where another figure decides than before, what is known of it
    /// says nothing.
    fn configure(&mut self, local: SocketAddr, other_figure: bool, now: Instant) {
        let decider = self.placing.decider(now);
        let free = self.placing.free_slot();
        let Some(listener) = self.placing.listeners.get_mut(&local) else {
            return;
        };
        let configured = match self.placing.loads {
            Some(_) if !listener.pinned => self.placing.configured.of(local),
            _ => Placement::Engine,
        };
        let anew = other_figure && configured == Placement::Adaptive;
        if listener.configured == configured && !anew {
            return;
        }
        listener.configured = configured;
        if configured == Placement::Engine {
            if let Some(slot) = listener.slot.take() {
                self.placing.used.remove(&slot);
            }
            listener.decided = None;
        } else if listener.slot.is_none() {
            listener.slot = free;
            self.placing.used.extend(free);
            // What was counted under the number before is another's.
            listener.decider = decider.clone();
            match free {
                Some(_) => self.placing.next = self.placing.next.or(Some(now + PERIOD)),
                None => tracing::warn!(%local, "too many listeners are shared: it is the engine's"),
            }
        }
        listener.place = match configured {
            Placement::Kernel => Place::Kernel,
            // What was decided before is not known to hold.
            Placement::Adaptive | Placement::Engine => Place::Engine,
        };
        if configured == Placement::Adaptive {
            listener.decider = decider;
            listener.decided = None;
        }
        let shared = listener.shared();
        let (placement, place) = (configured.name(), listener.place.name());
        tracing::info!(%local, placement, place, "new connections are placed");
        self.order_all(|| Order::Place { local, shared });
    }

    /// Looks at what has come to each listener, if it is time.
    pub(super) fn place_listeners(&mut self, now: Instant) {
        let Some(loads) = &mut self.placing.loads else {
            return;
        };
        if self.placing.next.is_none_or(|next| next > now) {
            return;
        }
        let age = now.saturating_duration_since(self.placing.began).as_nanos() as u64;
        let by = &self.placing.configured;
        let mut changed = Vec::new();
        let mut any = false;
        for (local, listener) in &mut self.placing.listeners {
            any |= listener.slot.is_some();
            if listener.look(age, &mut **loads, by) {
                changed.push((*local, listener.shared(), listener.decided));
            }
        }
        let figure = by.figure();
        self.placing.next = any.then(|| now + PERIOD);
        let known = self.placing.listeners.values();
        let known = known.filter_map(Listening::known_rate);
        self.placing.load = known.reduce(|all, rate| all + rate);
        for (local, shared, decided) in changed {
            if let Some(decision) = decided {
                let (place, why) = (decision.place.name(), in_words(decision.why, figure));
                let (rate, peak) = (decision.rate as u64, decision.peak as u64);
                tracing::info!(%local, place, why, rate, peak, "new connections go elsewhere");
            }
            self.order_all(|| Order::Place { local, shared });
        }
    }

    /// Where a listener is placed, and from which figures that follows; `None` where nothing was to be decided.
    pub(super) fn placed(&self, local: SocketAddr) -> Option<Placed> {
        let listener = self.placing.listeners.get(&local)?;
        listener.slot?;
        let decided = listener.decided;
        let figure = self.placing.configured.figure();
        let nearest = |value: f64| value.round() as u64;
        Some(Placed {
            configured: listener.configured.name().to_owned(),
            place: listener.place.name().to_owned(),
            why: match (listener.configured, decided) {
                (Placement::Adaptive, Some(decision)) => in_words(decision.why, figure),
                (Placement::Adaptive, None) => in_words(Why::Unknown, figure),
                _ => "configured",
            }
            .to_owned(),
            rate: decided.map_or(0, |decision| nearest(decision.rate)),
            peak: decided.map_or(0, |decision| nearest(decision.peak)),
            pays_from: self.placing.configured.from_rate,
            policy: match listener.configured {
                Placement::Adaptive => self.placing.by_policy(),
                Placement::Engine | Placement::Kernel => None,
            },
            life_us: decided.and_then(|d| d.life_ns).map(|ns| ns / 1000),
            carried: decided.and_then(|d| d.carried).map(nearest),
        })
    }

    /// The listeners of which something was to be decided.
    pub(super) fn all_placed(&self) -> impl Iterator<Item = (SocketAddr, Placed)> {
        let locals = self.placing.listeners.keys();
        locals.filter_map(|local| Some((*local, self.placed(*local)?)))
    }
}

/// Why, in a word or two. To a policy more can be too much.
fn in_words(why: Why, figure: Figure) -> &'static str {
    match (why, figure) {
        (Why::Unknown, _) => "not known yet",
        (Why::Long, _) => "long connections",
        (Why::Busy, Figure::Arrivals) => "busy",
        (Why::Quiet, Figure::Arrivals) => "quiet",
        (Why::Busy, Figure::Requests) => "pays",
        (Why::Quiet, Figure::Requests) => "does not pay",
    }
}

#[cfg(test)]
mod tests;
