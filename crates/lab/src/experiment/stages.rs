//! What a model of an experiment is: one queue, or two in a row.
//!
//! Where server and engine share a core, as they do where outboard is installed, one queue serves
//! both: a request needs S of the core in all, on the kernel as on the engine. Its busy share is
//! U = U₀ + λE\[S\], and by Pollaczek and Khinchin a request takes T = d + λE\[S²\]/(2(1 − U)), where d
//! is what it takes when nobody else is there: service, the way, and the waking of those who sleep.
//! U₀ and E\[S\] are fitted to the busy share, d and E\[S²\] to the delays, both at the same loads.
//!
//! Where the engine has a core of its own, it is a second stage behind the server's, as in 003:
//! [`TwoStages`] has each one's busy share, and the time through both.

use queueing::fit::regression::{Load, service_time};
use queueing::fit::two_stages::{self, TwoStages};
use serde::Serialize;

/// What a stage does that has all of a request, as far as measurements tell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// U₀: the busy share without a request.
    pub background: f64,
    /// E\[S\], seconds.
    pub service: f64,
    /// d: the time of a request when nobody else is there, seconds.
    pub alone: f64,
    /// E\[S²\], seconds squared.
    pub second: f64,
}

/// One measurement: requests a second, busy shares, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Requests a second.
    pub rate: f64,
    /// The busy share of the server's core, from 0 to 1.
    pub busy: f64,
    /// That of the engine, where it has a core of its own.
    pub engine: Option<f64>,
    /// The mean time of a request, seconds.
    pub delay: f64,
}

impl Fit {
    /// Fits; `None` if there are fewer than three measurements, or all of them at one load, or a
    /// request costs nothing.
    pub fn of(seen: &[Seen]) -> Option<Fit> {
        let loads: Vec<Load> = seen
            .iter()
            .map(|one| Load {
                rate: one.rate,
                busy: one.busy,
            })
            .collect();
        let line = service_time(&loads, 0.95).ok()?;
        let (background, service) = (line.background.value, line.service.value);
        if service <= 0.0 {
            return None;
        }
        let mut fit = Fit {
            background,
            service,
            alone: 0.0,
            second: 0.0,
        };
        // Relative errors are to be small, so each has the weight of its delay.
        let rows: Vec<(f64, f64, f64)> = seen
            .iter()
            .filter_map(|one| Some((one.delay.powi(-2), fit.queue(one.rate)?, one.delay)))
            .collect();
        let sum = |of: fn(&(f64, f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
        let all = sum(|(w, ..)| *w);
        if all <= 0.0 || !all.is_finite() {
            return None;
        }
        let (queue, delay) = (sum(|(w, q, _)| w * q) / all, sum(|(w, _, d)| w * d) / all);
        let spread = sum(|(w, q, _)| w * q * q) / all - queue * queue;
        let together = sum(|(w, q, d)| w * q * d) / all - queue * delay;
        // Neither waits nor times below nothing.
        let second = if spread > 0.0 { together / spread } else { 0.0 };
        fit.second = second.max(0.0);
        fit.alone = (delay - fit.second * queue).max(0.0);
        Some(fit)
    }

    /// The busy share at a load.
    pub fn busy(&self, rate: f64) -> f64 {
        self.background + self.service * rate
    }

    /// λ/(2(1 − U)); `None` from saturation on.
    fn queue(&self, rate: f64) -> Option<f64> {
        let idle = 1.0 - self.busy(rate);
        (idle > 0.0).then(|| rate / (2.0 * idle))
    }

    /// The mean time of a request, seconds; `None` from saturation on.
    pub fn delay(&self, rate: f64) -> Option<f64> {
        Some(self.alone + self.second * self.queue(rate)?)
    }

    /// The load at which the core saturates, requests a second.
    pub fn saturation(&self) -> f64 {
        (1.0 - self.background).max(0.0) / self.service
    }
}

/// A model that was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Stages {
    /// Server and engine are one stage, or there is no engine.
    One(Fit),
    /// The engine is a stage of its own.
    Two(TwoStages),
}

impl Stages {
    /// Fits one stage or, where it is known how busy the engine was, two; `None` as [`Fit::of`], or if the
    /// engine has nothing to do.
    pub fn of(seen: &[Seen]) -> Option<Self> {
        let both = |one: &Seen| {
            Some(two_stages::Seen {
                rate: one.rate,
                first: one.busy,
                second: one.engine?,
                time: one.delay,
            })
        };
        match seen.iter().map(both).collect::<Option<Vec<_>>>() {
            Some(both) => TwoStages::of(&both).ok().map(Self::Two),
            None => Fit::of(seen).map(Self::One),
        }
    }

    /// The busy share of the server's core at a load.
    pub fn busy(&self, rate: f64) -> f64 {
        match self {
            Self::One(fit) => fit.busy(rate),
            Self::Two(fit) => fit.first.busy(rate),
        }
    }

    /// That of the engine, if it is a stage of its own.
    pub fn engine(&self, rate: f64) -> Option<f64> {
        match self {
            Self::One(_) => None,
            Self::Two(fit) => Some(fit.second.busy(rate)),
        }
    }

    /// The mean time of a request, seconds; `None` from saturation on.
    pub fn delay(&self, rate: f64) -> Option<f64> {
        match self {
            Self::One(fit) => fit.delay(rate),
            Self::Two(fit) => fit.time(rate),
        }
    }

    /// The load at which a core saturates, requests a second.
    pub fn saturation(&self) -> f64 {
        match self {
            Self::One(fit) => fit.saturation(),
            Self::Two(fit) => fit.saturation(),
        }
    }
}
