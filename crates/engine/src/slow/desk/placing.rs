//! Which listeners' new connections go to the kernel: what was configured, and where that is `adaptive`, what
//! follows from what has come to each. It is looked once a second, here; the fast half is told what changes, and
//! steers.

mod listening;
mod loads;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netdev::steering::MAX_SLOTS;
use queue_pair::control::{ByPolicy, Placed};

use self::listening::{Listening, Reading};
pub use self::loads::ReadLoads;
use self::together::Together;
use super::Desk;
use crate::config::{Placement, Placements};
use crate::exchange::{Order, Shared, WorkerId};
use crate::network::canonical;
use crate::placement::{Decider, Figure, LOOK_NS, Why};

/// How often it is looked.
const PERIOD: Duration = Duration::from_nanos(LOOK_NS);

/// All listeners, and what was configured for them.
pub(super) struct Placing {
    configured: Placements,
    /// None where nothing can be shared: then all are the engine's.
    loads: Option<Box<dyn ReadLoads>>,
    listeners: BTreeMap<SocketAddr, Listening>,
    used: BTreeSet<u16>,
    /// What comes to all of them together for which a policy decides.
    together: Together,
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
            together: Together::default(),
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

    /// For what begins now, and is placed so. A policy counts in a way of its own, and for those that follow it.
    fn decider(&self, placement: Placement, now: Instant) -> Decider {
        let figure = match placement {
            Placement::Adaptive => self.configured.figure(),
            Placement::Engine | Placement::Kernel => Figure::Arrivals,
        };
        Decider::new(self.age(now), figure)
    }

    fn age(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_nanos() as u64
    }

    /// Whether a policy decides about a program that listens there, by its names for that.
    pub(super) fn governs(&self, listens: &[(u32, SocketAddr)]) -> bool {
        let is_adaptive = |local: &SocketAddr| {
            let listener = self.listeners.get(&canonical(*local));
            listener.is_some_and(Listening::is_adaptive)
        };
        self.configured.policy.is_some() && listens.iter().any(|(_, local)| is_adaptive(local))
    }

    /// The sizes around so many bytes of which a policy leaves files to the programs that name them, if it does, at
    /// the load that there is; nothing where that is not known.
    pub(super) fn leaves(&self, bytes: u64) -> Option<(Option<(u64, u64)>, f64)> {
        let (file, load) = (self.configured.policy.as_ref()?, self.load_of_files()?);
        let policy = file.policy();
        let left = !policy.offload(bytes, load);
        Some((left.then(|| policy.sizes_like(bytes, load)), load))
    }

    /// The load that decides about files: that of the busiest of the last ten seconds, so that nothing changes from
    /// one second to the next where a load is near to the end of a band.
    fn load_of_files(&self) -> Option<f64> {
        self.together.lately().map(|lately| lately.peak)
    }

    /// What a policy says.
    fn by_policy(&self) -> Option<ByPolicy> {
        let policy = self.configured.policy.as_ref()?.policy();
        let band = policy.connections();
        let nearest = |rate: f64| rate.round() as u64;
        let lately = self.together.lately();
        Some(ByPolicy {
            from: band.offload_from_rate.map(nearest),
            below: band.offload_below_rate.map(nearest),
            rate: lately.map(|lately| nearest(lately.rate)),
            peak: lately.map(|lately| nearest(lately.peak)),
            reads: self.load_of_files().map(|load| policy.sizes(load)),
        })
    }

    /// A number that nobody has.
    fn free_slot(&self) -> Option<u16> {
        (0..MAX_SLOTS).find(|slot| !self.used.contains(slot))
    }

    /// A listener is placed so from now on. What was known of it was by another figure, or under another number.
    fn place(&mut self, local: SocketAddr, placement: Placement, now: Instant) {
        let (decider, free) = (self.decider(placement, now), self.free_slot());
        let Some(listener) = self.listeners.get_mut(&local) else {
            return;
        };
        if placement == Placement::Engine {
            if let Some(slot) = listener.slot.take() {
                self.used.remove(&slot);
            }
        } else if listener.slot.is_none() {
            listener.slot = free;
            self.used.extend(free);
            match free {
                Some(_) => self.next = self.next.or(Some(now + PERIOD)),
                None => tracing::warn!(%local, "too many listeners are shared: it is the engine's"),
            }
        }
        listener.begin(placement, decider);
    }

    /// Those that had no number, as many as there are numbers for now, and how they are to be placed.
    fn waiting(&self) -> Vec<(SocketAddr, Placement)> {
        let free = usize::from(MAX_SLOTS).saturating_sub(self.used.len());
        let all = self.listeners.iter();
        let waiting = all.filter(|(_, listener)| listener.waits()).take(free);
        let waiting = waiting.map(|(local, listener)| (*local, listener.configured));
        waiting.collect()
    }

    /// Looks at what has come to each listener, and decides. Those that are placed elsewhere than before.
    fn look(&mut self, now: Instant) -> Vec<(SocketAddr, Option<Shared>)> {
        let age = self.age(now);
        let Some(loads) = &mut self.loads else {
            return Vec::new();
        };
        let mut any = false;
        for (local, listener) in &mut self.listeners {
            any |= listener.slot.is_some();
            listener.read(*local, age, &mut **loads);
        }
        self.next = any.then(|| now + PERIOD);
        let all = self.listeners.iter();
        let adaptive = all.filter(|(_, listener)| listener.is_adaptive());
        let came = adaptive.map(|(local, listener)| (*local, listener.came()));
        self.together.look(came);

        let (policy, together) = (self.configured.policy.is_some(), self.together.settled());
        let (band, figure) = (self.configured.band(), self.configured.figure());
        let mut moved = Vec::new();
        for (local, listener) in &mut self.listeners {
            let by = match policy {
                true => together,
                false => listener.decider.lately(),
            };
            if !listener.decide(age, &band, by) {
                continue;
            }
            if let (Some(decision), Some(by)) = (listener.decided, listener.by) {
                let (place, why) = (decision.place.name(), in_words(decision.why, figure));
                let (rate, peak) = (by.rate as u64, by.peak as u64);
                let of = match policy {
                    true => "all adaptive listeners",
                    false => "this listener",
                };
                tracing::info!(%local, place, why, rate, peak, of, "new connections go elsewhere");
            }
            moved.push((*local, listener.shared()));
        }
        moved
    }

    /// Why a listener is where it is, in a few words.
    fn why(&self, listener: &Listening) -> String {
        let unread = |whose: &str| format!("what comes to {whose} cannot be read");
        let placed = (listener.configured, listener.slot, listener.reading);
        let why = match placed {
            (_, None, _) => return "too many listeners are shared".to_owned(),
            (Placement::Engine | Placement::Kernel, ..) => return "configured".to_owned(),
            (Placement::Adaptive, _, Reading::Failed) => return unread("it"),
            (Placement::Adaptive, ..) => listener.decided.map_or(Why::Unknown, |by| by.why),
        };
        // Without what comes to all of them nothing follows from what comes to one.
        let other = self.together.unread();
        match other.filter(|_| why == Why::Unknown && self.configured.policy.is_some()) {
            Some(other) => unread(&other.to_string()),
            None => in_words(why, self.configured.figure()).to_owned(),
        }
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
        let decider = self.placing.decider(Placement::Engine, now);
        let listener = self.placing.listeners.entry(local);
        let listener = listener.or_insert_with(|| Listening::new(decider));
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
        self.control.end_listening(worker, local);
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
            self.placing.together = Together::default();
        }
        let locals: Vec<SocketAddr> = self.placing.listeners.keys().copied().collect();
        for local in locals {
            self.configure(local, other_figure, now);
        }
    }

    /// Places a listener as is configured now. Where another figure decides than before, what is known of it
    /// says nothing.
    fn configure(&mut self, local: SocketAddr, other_figure: bool, now: Instant) {
        let Some(listener) = self.placing.listeners.get(&local) else {
            return;
        };
        let configured = match self.placing.loads {
            Some(_) if !listener.pinned => self.placing.configured.of(local),
            _ => Placement::Engine,
        };
        let anew = other_figure && configured == Placement::Adaptive;
        if listener.configured != configured || anew {
            self.place(local, configured, now);
        }
    }

    fn place(&mut self, local: SocketAddr, placement: Placement, now: Instant) {
        self.placing.place(local, placement, now);
        let Some(listener) = self.placing.listeners.get(&local) else {
            return;
        };
        let (shared, place) = (listener.shared(), listener.place.name());
        let placement = placement.name();
        tracing::info!(%local, placement, place, "new connections are placed");
        self.order_all(|| Order::Place { local, shared });
    }

    /// Looks at what has come to each listener, if it is time.
    pub(super) fn place_listeners(&mut self, now: Instant) {
        if self.placing.next.is_none_or(|next| next > now) {
            return;
        }
        for (local, placement) in self.placing.waiting() {
            self.place(local, placement, now);
        }
        for (local, shared) in self.placing.look(now) {
            self.order_all(|| Order::Place { local, shared });
        }
    }

    /// Where a listener is placed, and from which figures that follows; `None` where nothing was to be decided.
    pub(super) fn placed(&self, local: SocketAddr) -> Option<Placed> {
        let listener = self.placing.listeners.get(&local)?;
        if listener.configured == Placement::Engine {
            return None;
        }
        let decided = listener.decided;
        let nearest = |value: f64| value.round() as u64;
        let policy = match listener.configured {
            Placement::Adaptive => self.placing.by_policy(),
            Placement::Engine | Placement::Kernel => None,
        };
        Some(Placed {
            configured: listener.configured.name().to_owned(),
            place: listener.place.name().to_owned(),
            why: self.placing.why(listener),
            rate: decided.map_or(0, |decision| nearest(decision.rate)),
            peak: decided.map_or(0, |decision| nearest(decision.peak)),
            pays_from: match &policy {
                // For who knows of no policies: it never pays at the greatest.
                Some(policy) => policy
                    .from
                    .and_then(|from| u32::try_from(from).ok())
                    .unwrap_or(u32::MAX),
                None => self.placing.configured.from_rate,
            },
            policy,
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
