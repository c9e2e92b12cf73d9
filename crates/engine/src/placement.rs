//! Who serves a listener's next connections, decided from what has come to it lately.
//!
//! Below some rate the kernel is cheaper: an engine wakes two programs where the kernel wakes one. Above it
//! the engine is. The figures are the same whoever serves ([`netdev::steering::Load`]), so that a decision
//! does not change what the next one sees. Nothing here asks for the time or for a counter.
//!
//! A connection stays where it began. So a listener stays with the engine while its load is not known (a load
//! generator opens its connections before it sends), and where its connections live long or carry much: what
//! they will ask for cannot be seen when they open.

use netdev::steering::Load;
use policy::Band;

/// How long a decision holds at least, in nanoseconds: ten seconds.
pub const DWELL_NS: u64 = 10_000_000_000;
/// Between a rate at which the engine gets new connections and that at which it loses them.
pub const HYSTERESIS: f64 = 2.0;
/// Connections that must have come before anything is known of a listener.
pub const KNOWN: u64 = 16;
/// A mean life from which on connections live long: as long as a decision holds.
pub const LONG_NS: u64 = DWELL_NS;
/// Segments with data of a connection from which on it carries much.
pub const MUCH: f64 = 32.0;

/// Time between two looks, in nanoseconds: what comes sooner is no look.
pub const LOOK_NS: u64 = 1_000_000_000;
/// Looks over which the busiest counts.
const LOOKS: usize = 10;
/// What is left of a look's weight at the next one: half of it after 22.
const DECAY: f64 = 31.0 / 32.0;

/// Who gets new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The engine.
    Engine,
    /// The kernel.
    Kernel,
}

impl Place {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Kernel => "kernel",
        }
    }
}

/// What of a listener's load is the figure that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// New connections and segments with data: what wakes somebody.
    Arrivals,
    /// Segments with data alone: as many as requests, where each request fits into one.
    Requests,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Not enough has come yet.
    Unknown,
    /// The connections live long, or carry much.
    Long,
    /// The rate is one at which the engine pays.
    Busy,
    /// It is not.
    Quiet,
}

/// What was decided, and from which figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Who gets new connections.
    pub place: Place,
    /// Why.
    pub why: Why,
    /// What came in a second, to this listener, by the [`Figure`]: since the last look.
    pub rate: f64,
    /// The same at the busiest of the last ten looks.
    pub peak: f64,
    /// How long a connection lived in the mean, in nanoseconds, lately; none has ended if not given.
    pub life_ns: Option<u64>,
    /// How many segments with data a connection carried in the mean, lately; none was opened if not given.
    pub carried: Option<f64>,
}

/// What came in a second, by the [`Figure`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lately {
    /// Between the last two looks.
    pub rate: f64,
    /// The most of the last ten.
    pub peak: f64,
}

/// Rates at the last looks, in a ring.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    rates: [f64; LOOKS],
    count: usize,
}

impl Looks {
    /// One more.
    pub fn add(&mut self, rate: f64) {
        self.rates[self.count % LOOKS] = rate;
        self.count += 1;
    }

    /// Whether there were as many as count.
    pub fn are_enough(&self) -> bool {
        self.count >= LOOKS
    }

    /// What they say; nothing while there was none.
    pub fn lately(&self) -> Option<Lately> {
        let last = self.count.checked_sub(1)?;
        Some(Lately {
            rate: self.rates[last % LOOKS],
            peak: self.rates.into_iter().fold(0.0, f64::max),
        })
    }
}

/// Decides for one listener.
#[derive(Debug, Clone)]
pub struct Decider {
    figure: Figure,
    place: Place,
    /// When that was decided.
    since: u64,
    /// The last look.
    seen: Option<(u64, Load)>,
    looks: Looks,
    /// Connections since the first look.
    came: u64,
    /// Of the looks so far, the later the heavier.
    opened: f64,
    data: f64,
    ended: f64,
    lived: f64,
}

impl Decider {
    /// Of a listener that begins at this time.
    pub fn new(now: u64, figure: Figure) -> Self {
        Self {
            figure,
            place: Place::Engine,
            since: now,
            seen: None,
            looks: Looks::default(),
            came: 0,
            opened: 0.0,
            data: 0.0,
            ended: 0.0,
            lived: 0.0,
        }
    }

    /// Decides at this time, at which so much has come in all, by that. `band` says at which rates the engine is
    /// the cheaper one.
    pub fn look(&mut self, now: u64, load: Load, band: &Band) -> Decision {
        self.read(now, load);
        self.decide(now, band, self.lately())
    }

    /// At this time so much has come in all.
    pub fn read(&mut self, now: u64, load: Load) {
        match self.seen {
            Some((at, _)) if now.saturating_sub(at) < LOOK_NS => {}
            Some((at, before)) => {
                self.take_in(now - at, since(&before, &load));
                self.seen = Some((now, load));
            }
            None => self.seen = Some((now, load)),
        }
    }

    /// What came to this listener in a second; nothing before the second reading.
    pub fn lately(&self) -> Option<Lately> {
        self.looks.lately()
    }

    /// Decides by these rates, which may be of more than this listener. While they are not known it stays where it
    /// is.
    pub fn decide(&mut self, now: u64, band: &Band, by: Option<Lately>) -> Decision {
        let why = by.map_or(Why::Unknown, |by| self.why(band, by));
        let next = match why {
            Why::Unknown if by.is_none() => self.place,
            Why::Quiet => Place::Kernel,
            Why::Unknown | Why::Long | Why::Busy => Place::Engine,
        };
        let mut why = why;
        if next != self.place && now.saturating_sub(self.since) >= DWELL_NS {
            self.place = next;
            self.since = now;
            // From the other place the same figures may look otherwise.
            why = by.map_or(why, |by| self.why(band, by));
        }
        let own = self.lately();
        Decision {
            place: self.place,
            why,
            rate: own.map_or(0.0, |own| own.rate),
            peak: own.map_or(0.0, |own| own.peak),
            life_ns: (self.ended > 0.0).then(|| (self.lived / self.ended) as u64),
            carried: (self.opened > 0.0).then(|| self.data / self.opened),
        }
    }

    fn take_in(&mut self, elapsed: u64, came: Load) {
        let opened = came.opened_engine.saturating_add(came.opened_kernel);
        let data = came.data_engine.saturating_add(came.data_kernel);
        let figure = match self.figure {
            Figure::Arrivals => opened as f64 + data as f64,
            Figure::Requests => data as f64,
        };
        let rate = figure * 1e9 / elapsed as f64;
        self.looks.add(rate);
        self.came = self.came.saturating_add(opened);
        let add = |mean: &mut f64, value: u64| *mean = *mean * DECAY + value as f64;
        add(&mut self.opened, opened);
        add(&mut self.data, data);
        add(&mut self.ended, came.ended);
        add(&mut self.lived, came.lived_ns);
    }

    fn why(&self, band: &Band, by: Lately) -> Why {
        if self.came < KNOWN || !self.looks.are_enough() {
            return Why::Unknown;
        }
        if self.data > MUCH * self.opened || self.lived > LONG_NS as f64 * self.ended {
            return Why::Long;
        }
        let busy = match self.place {
            // What is near to where it pays stays.
            Place::Engine => band.meets(by.peak / HYSTERESIS, by.peak * HYSTERESIS),
            // Whether it stays is then said by the peak: one that is beyond the band would send it back.
            Place::Kernel => band.holds(by.rate) && band.holds(by.peak),
        };
        if busy { Why::Busy } else { Why::Quiet }
    }
}

/// What has come between two readings; nothing if a counter has begun anew.
fn since(before: &Load, now: &Load) -> Load {
    let came = |of: fn(&Load) -> u64| of(now).saturating_sub(of(before));
    Load {
        opened_engine: came(|load| load.opened_engine),
        opened_kernel: came(|load| load.opened_kernel),
        data_engine: came(|load| load.data_engine),
        data_kernel: came(|load| load.data_kernel),
        ended: came(|load| load.ended),
        lived_ns: came(|load| load.lived_ns),
    }
}
