//! Which listeners' new connections go to the kernel: what was configured, and where that is `adaptive`, what
//! follows from what has come to each. It is looked once a second, here; the fast half is told what changes, and
//! steers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netdev::steering::{Load, Loads, MAX_SLOTS, SHARE_ALL};
use queue_pair::control::Placed;

use super::Desk;
use crate::config::{Placement, Placements};
use crate::exchange::{Order, Shared, WorkerId};
use crate::network::canonical;
use crate::placement::{Decider, Decision, LOOK_NS, Place, Why};

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

    fn age(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_nanos() as u64
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

    /// Looks at what has come; whether another place follows from it.
    fn look(&mut self, now: u64, loads: &mut dyn ReadLoads, from_rate: u32) -> bool {
        let Some(load) = self.slot.and_then(|slot| loads.of_slot(slot)) else {
            return false;
        };
        let from = f64::from(from_rate);
        let decision = self.decider.look(now, load, |rate| rate >= from);
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
        let decider = Decider::new(self.placing.age(now));
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
        self.configure(local, now);
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
        self.placing.configured = configured;
        let locals: Vec<SocketAddr> = self.placing.listeners.keys().copied().collect();
        for local in locals {
            self.configure(local, now);
        }
    }

    /// Places a listener as is configured now.
    fn configure(&mut self, local: SocketAddr, now: Instant) {
        let age = self.placing.age(now);
        let free = self.placing.free_slot();
        let Some(listener) = self.placing.listeners.get_mut(&local) else {
            return;
        };
        let configured = match self.placing.loads {
            Some(_) if !listener.pinned => self.placing.configured.of(local),
            _ => Placement::Engine,
        };
        if listener.configured == configured {
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
            listener.decider = Decider::new(age);
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
            listener.decider = Decider::new(age);
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
        let from = self.placing.configured.from_rate;
        let mut changed = Vec::new();
        let mut any = false;
        for (local, listener) in &mut self.placing.listeners {
            any |= listener.slot.is_some();
            if listener.look(age, &mut **loads, from) {
                changed.push((*local, listener.shared(), listener.decided));
            }
        }
        self.placing.next = any.then(|| now + PERIOD);
        for (local, shared, decided) in changed {
            if let Some(decision) = decided {
                let (place, why) = (decision.place.name(), in_words(decision.why));
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
        let nearest = |value: f64| value.round() as u64;
        Some(Placed {
            configured: listener.configured.name().to_owned(),
            place: listener.place.name().to_owned(),
            why: match (listener.configured, decided) {
                (Placement::Adaptive, Some(decision)) => in_words(decision.why),
                (Placement::Adaptive, None) => in_words(Why::Unknown),
                _ => "configured",
            }
            .to_owned(),
            rate: decided.map_or(0, |decision| nearest(decision.rate)),
            peak: decided.map_or(0, |decision| nearest(decision.peak)),
            pays_from: self.placing.configured.from_rate,
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

/// Why, in a word or two.
fn in_words(why: Why) -> &'static str {
    match why {
        Why::Unknown => "not known yet",
        Why::Long => "long connections",
        Why::Busy => "busy",
        Why::Quiet => "quiet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::exchange::{self, ToSlow};
    use crate::placement::{DWELL_NS, KNOWN};
    use crate::slow::control::Control;
    use crate::slow::desk::Facts;
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    /// What has come under each number.
    #[derive(Clone, Default)]
    struct Stated(Arc<Mutex<HashMap<u16, Load>>>);

    impl ReadLoads for Stated {
        fn of_slot(&mut self, slot: u16) -> Option<Load> {
            self.0.lock().expect("no panic").get(&slot).copied()
        }
    }

    impl Stated {
        fn open(&self, slot: u16, count: u64) {
            let mut loads = self.0.lock().expect("no panic");
            loads.entry(slot).or_default().opened_engine += count;
        }
    }

    fn desk(settings: &str) -> (Desk, ToSlow, Stated) {
        let config = Config::parse("x", settings).expect("valid");
        let control = Control::without_socket(&config.limits).expect("descriptors");
        let (to_fast, to_slow) = exchange::pair(&config.limits).expect("descriptors");
        let desk = Desk::new(Facts::new(&config, 1, 0), control, to_fast).expect("polled");
        let loads = Stated::default();
        let reader = Box::new(loads.clone());
        (
            desk.placing(config.placements(), Some(reader)),
            to_slow,
            loads,
        )
    }

    fn local(port: u16) -> SocketAddr {
        ([0, 0, 0, 0], port).into()
    }

    /// The orders to place a listener: its port, the engine's share and the number.
    fn told(fast: &mut ToSlow) -> Vec<(u16, Option<(u32, u16)>)> {
        let orders = std::iter::from_fn(|| fast.order());
        let placed = orders.map(|order| match order {
            Order::Place { local, shared } => (
                local.port(),
                shared.map(|shared| (shared.share, shared.slot)),
            ),
            other => panic!("{other:?}"),
        });
        placed.collect()
    }

    #[test]
    fn a_listener_that_is_the_engines_costs_nothing() {
        let (mut desk, mut fast, _) = desk("");
        let now = Instant::now();
        desk.listens(WorkerId::FIRST, local(80), false, now);
        assert_eq!(told(&mut fast), []);
        assert_eq!((desk.placing.due(), desk.placed(local(80))), (None, None));
        assert_eq!(desk.all_placed().count(), 0);
    }

    #[test]
    fn a_listener_is_placed_as_is_configured_and_again_when_that_changes() {
        let (mut desk, mut fast, _) = desk("[placements]\n\"0.0.0.0:80\" = \"kernel\"\n");
        let now = Instant::now();
        desk.listens(WorkerId::FIRST, local(80), false, now);
        desk.listens(WorkerId::FIRST, local(80), false, now);
        desk.listens(WorkerId::FIRST, local(81), false, now);
        assert_eq!(told(&mut fast), [(80, Some((0, 0)))], "once");
        let configured = |settings| Config::parse("x", settings).expect("valid").placements();
        desk.place_by(configured("placement = \"kernel\"\n"), now);
        assert_eq!(told(&mut fast), [(81, Some((0, 1)))]);
        desk.place_by(configured("placement = \"adaptive\"\n"), now);
        let both = [(80, Some((SHARE_ALL, 0))), (81, Some((SHARE_ALL, 1)))];
        assert_eq!(told(&mut fast), both);
        desk.place_by(configured(""), now);
        assert_eq!(told(&mut fast), [(80, None), (81, None)]);
        assert_eq!(desk.placed(local(80)), None);
        assert!(desk.placing.used.is_empty());
        // A mapped address is the IPv4 address.
        desk.place_by(configured("placement = \"kernel\"\n"), now);
        told(&mut fast);
        desk.listens(
            WorkerId::FIRST,
            "[::ffff:10.0.0.1]:82".parse().expect("an address"),
            false,
            now,
        );
        assert_eq!(told(&mut fast), [(82, Some((0, 2)))]);
        assert!(
            desk.placed("10.0.0.1:82".parse().expect("an address"))
                .is_some()
        );
    }

    #[test]
    fn a_listener_of_a_program_that_serves_nothing_of_the_kernels_is_the_engines() {
        let (mut desk, mut fast, _) = desk("placement = \"kernel\"\n");
        let now = Instant::now();
        desk.listens(WorkerId::FIRST, local(80), true, now);
        assert_eq!(told(&mut fast), []);
        let configured = |settings| Config::parse("x", settings).expect("valid").placements();
        desk.place_by(configured("placement = \"adaptive\"\n"), now);
        // Another program that has it, too, does not say so.
        desk.listens(WorkerId::FIRST, local(80), false, now);
        assert_eq!(told(&mut fast), []);
        assert_eq!(desk.placed(local(80)), None);
        desk.listens_no_longer(WorkerId::FIRST, local(80));
        desk.listens(WorkerId::FIRST, local(80), false, now);
        assert_eq!(told(&mut fast), [(80, Some((SHARE_ALL, 0)))]);
        desk.listens(WorkerId::FIRST, local(80), true, now);
        assert_eq!(told(&mut fast), [(80, None)], "and back");
    }

    #[test]
    fn a_number_is_free_again_when_its_listener_is_gone() {
        let (mut desk, mut fast, _) = desk("placement = \"kernel\"\n");
        let now = Instant::now();
        for port in 1..=MAX_SLOTS {
            desk.listens(WorkerId::FIRST, local(port), false, now);
        }
        told(&mut fast);
        desk.listens(WorkerId::FIRST, local(5000), false, now);
        assert_eq!(desk.placed(local(5000)), None, "there is no further one");
        assert_eq!(told(&mut fast), [(5000, None)]);
        desk.listens_no_longer(WorkerId::FIRST, local(7));
        desk.listens(WorkerId::FIRST, local(5001), false, now);
        assert_eq!(told(&mut fast), [(5001, Some((0, 6)))]);
    }

    #[test]
    fn an_adaptive_listener_goes_to_the_kernel_and_back_and_says_why() {
        let (mut desk, mut fast, loads) = desk("placement = \"adaptive\"\nplacement_rate = 100\n");
        let mut now = Instant::now();
        desk.listens(WorkerId::FIRST, local(80), false, now);
        assert_eq!(told(&mut fast), [(80, Some((SHARE_ALL, 0)))]);
        let placed = desk.placed(local(80)).expect("shared");
        assert_eq!((&*placed.place, &*placed.why), ("engine", "not known yet"));
        let mut seconds = |desk: &mut Desk, count, opened| {
            let mut orders = Vec::new();
            for _ in 0..count {
                loads.open(0, opened);
                now += PERIOD;
                assert_eq!(desk.placing.due().map(|due| due <= now), Some(true));
                desk.place_listeners(now);
                orders.extend(told(&mut fast));
            }
            orders
        };
        let dwell = DWELL_NS / LOOK_NS;
        let orders = seconds(&mut desk, 2 * dwell, KNOWN);
        assert_eq!(orders, [(80, Some((0, 0)))]);
        let placed = desk.placed(local(80)).expect("shared");
        let expected = Placed {
            configured: "adaptive".into(),
            place: "kernel".into(),
            why: "quiet".into(),
            rate: KNOWN,
            peak: KNOWN,
            pays_from: 100,
            life_us: None,
            carried: Some(0),
        };
        assert_eq!(placed, expected);
        let orders = seconds(&mut desk, 2 * dwell, 1000);
        assert_eq!(orders, [(80, Some((SHARE_ALL, 0)))]);
        let placed = desk.placed(local(80)).expect("shared");
        assert_eq!((&*placed.place, &*placed.why), ("engine", "busy"));
        assert_eq!(seconds(&mut desk, 2 * dwell, 1), [(80, Some((0, 0)))]);
        desk.listens_no_longer(WorkerId::FIRST, local(80));
        now += PERIOD;
        desk.place_listeners(now);
        assert_eq!(desk.placing.due(), None, "there is nobody to look at");
    }

    #[test]
    fn without_a_steering_that_divides_all_is_the_engines() {
        let (desk, mut fast, _) = desk("placement = \"kernel\"\n");
        let configured = desk.placing.configured.clone();
        let mut desk = desk.placing(configured, None);
        desk.listens(WorkerId::FIRST, local(80), false, Instant::now());
        assert_eq!(told(&mut fast), []);
    }
}
