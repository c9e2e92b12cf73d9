//! The two systems of the source: a host that processes its own protocols, and a host with an
//! engine that does it.
//!
//! ```text
//! without:   λ ──▶ [ host: Xa + Xp ] ──▶
//! with:      λ ──▶ [ host: Xa + Xo ] ──▶ [ engine: Xc + Xq ] ──▶
//! ```
//!
//! | symbol | is | here |
//! | --- | --- | --- |
//! | λ | arrivals of requests | [`Class::arrival_rate`] |
//! | Xa | application work of a request on the host | [`Class::application`] |
//! | Xp | protocol processing on the host | [`Class::protocol`] |
//! | Xo | the host's overhead of talking to the engine | [`Class::overhead`] |
//! | Xc | control work on the engine | [`Class::control`] |
//! | Xq | protocol processing on the engine | [`Class::engine`] |
//!
//! Size classes share both stages and are therefore solved together, each reported by itself.
//!
//! | module | answers |
//! | --- | --- |
//! | [`predict()`] | utilisation, delay, number waiting, saturation, with and without engine |
//! | [`placement`] | which classes to offload, at which load |
//! | [`bounds`] | up to which Xo offloading pays: in CPU, in saturation and in delay |
//! | [`sensitivity`] | which input the answer hangs on |
//! | [`source`] | what the source's own formulas say, named as such |
//! | [`laws`] and [`emo`] | two earlier models, for orientation |

pub mod bounds;
pub mod emo;
pub mod laws;
pub mod placement;
pub mod predict;
pub mod sensitivity;
pub mod source;

use crate::error::{at_least_one, non_negative, positive};
use crate::{Distribution, ModelError, Moments};
use serde::Serialize;

#[cfg(test)]
mod tests;

pub use predict::{Prediction, predict, predict_placed, saturation, saturation_placed};

/// One size class: its arrivals, and the five service times of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// What it is called in answers.
    pub name: String,
    /// Arrivals of this class, a second.
    pub arrival_rate: f64,
    /// Xa, seconds.
    pub application: Distribution,
    /// Xp, seconds.
    pub protocol: Distribution,
    /// Xo, seconds.
    pub overhead: Distribution,
    /// Xc, seconds.
    pub control: Distribution,
    /// Xq, seconds.
    pub engine: Distribution,
}

/// In which order a stage serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// First come, first served: an event-driven server, the engine.
    #[default]
    Fcfs,
    /// Processor sharing: a prefork or threaded server.
    ProcessorSharing,
}

/// How several cores of a stage are fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Feeding {
    /// Each core has its own queue and a random share of the requests (receive-side scaling).
    #[default]
    Separate,
    /// One queue feeds all cores.
    Pooled,
}

/// One stage's machine: cores, order and room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Cores.
    pub cores: usize,
    /// The order of service.
    pub discipline: Discipline,
    /// How the cores are fed.
    pub feeding: Feeding,
    /// Room for requests a queue, the one in service included; `None`: no bound. Only a
    /// first-come-first-served stage of one core, or of separate cores, can have one here.
    pub room: Option<usize>,
}

impl Default for Stage {
    /// One core, first come first served, no bound.
    fn default() -> Self {
        Stage {
            cores: 1,
            discipline: Discipline::Fcfs,
            feeding: Feeding::Separate,
            room: None,
        }
    }
}

impl Stage {
    /// Refuses a stage that can serve nobody.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        at_least_one("number of cores", self.cores)?;
        if let Some(room) = self.room {
            at_least_one("room for requests", room)?;
        }
        Ok(())
    }
}

/// The machines: the host, and the engine beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct System {
    /// The host's stage.
    pub host: Stage,
    /// The engine's stage.
    pub engine: Stage,
    /// The engine has no cores of its own: it runs on those of the host, as where it follows the
    /// program that it serves. All work of a request is then one service at the host's stage, and
    /// the engine's stage does not count. (In truth the two take turns; for a mean delay the order
    /// of parts of one service does not matter, unless another request is served in between.)
    pub shared: bool,
}

/// The moments of one class's stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClassMoments {
    pub(crate) arrival_rate: f64,
    /// Xa + Xp.
    pub(crate) alone: Moments,
    /// Whether Xa + Xp is exponential: one of them is, and the other is nothing.
    pub(crate) alone_exponential: bool,
    /// Xa + Xo.
    pub(crate) host: Moments,
    /// Whether Xa + Xo is exponential: one of them is, and the other is nothing.
    pub(crate) host_exponential: bool,
    /// Xc + Xq.
    pub(crate) engine: Moments,
}

impl Class {
    /// A class by its arrivals a second and its five service times in seconds, in the order of the
    /// fields: application, protocol, overhead, control, engine.
    pub fn new(name: &str, arrival_rate: f64, times: [Distribution; 5]) -> Self {
        let [application, protocol, overhead, control, engine] = times;
        Self {
            name: name.to_owned(),
            arrival_rate,
            application,
            protocol,
            overhead,
            control,
            engine,
        }
    }

    /// The sums of each stage, the parts being independent.
    pub(crate) fn moments(&self) -> Result<ClassMoments, ModelError> {
        let application = self.application.moments()?;
        let sum = |a: &Moments, b: &Distribution| Ok(a.plus(&b.moments()?));
        Ok(ClassMoments {
            arrival_rate: non_negative("arrival rate", self.arrival_rate)?,
            alone: sum(&application, &self.protocol)?,
            alone_exponential: exponential(&self.application, &self.protocol),
            host: sum(&application, &self.overhead)?,
            host_exponential: exponential(&self.application, &self.overhead),
            engine: sum(&self.control.moments()?, &self.engine)?,
        })
    }
}

/// Whether a sum is known to be exponential: one part is, and the other is nothing.
fn exponential(a: &Distribution, b: &Distribution) -> bool {
    (a.is_exponential() && b.is_zero()) || (b.is_exponential() && a.is_zero())
}

/// Refuses placements that are not one a class.
pub(crate) fn one_each(classes: &[Class], offloaded: &[bool]) -> Result<(), ModelError> {
    if offloaded.len() == classes.len() {
        return Ok(());
    }
    Err(ModelError::OutOfRange {
        what: "number of placements",
        value: offloaded.len() as f64,
        low: classes.len() as f64,
        high: classes.len() as f64,
    })
}

/// Checks the classes and takes their moments; on shared cores the engine's work is the host's.
pub(crate) fn all_moments(
    classes: &[Class],
    system: &System,
) -> Result<Vec<ClassMoments>, ModelError> {
    let mut all: Vec<ClassMoments> = classes
        .iter()
        .map(Class::moments)
        .collect::<Result<_, _>>()?;
    all_arrivals(classes)?;
    for class in all.iter_mut().filter(|_| system.shared) {
        class.host_exponential &= class.engine.mean == 0.0;
        class.host = class.host.plus(&class.engine);
        class.engine = Moments::ZERO;
    }
    Ok(all)
}

/// The total arrival rate of the classes, checked.
pub(crate) fn all_arrivals(classes: &[Class]) -> Result<f64, ModelError> {
    at_least_one("number of classes", classes.len())?;
    let mut total = 0.0;
    for class in classes {
        total += non_negative("arrival rate", class.arrival_rate)?;
    }
    positive("total arrival rate", total)
}
