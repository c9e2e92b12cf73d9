//! Inputs fitted from measurements, and the measurement file (docs/plan.md describes it).

use super::input::Server;
use super::uncertain::Ends;
use super::written::{Seconds, Written, duration};
use anyhow::{Context, Result, bail};
use queueing::fit::agreement::{Pair, relative_error};
use queueing::fit::regression::{Interval, Load, ServiceTime, service_time};
use queueing::offload::{Class, System};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;

/// The share of the variance below which a line does not describe what was measured.
const STRAIGHT: f64 = 0.99;

/// The seed of the bootstrap: the same file gives the same answer.
const SEED: u64 = 1;

/// The file: what was measured at each load, on the kernel's TCP and on the engine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// Application time of a request: what the server's own code needs. It splits the server's time
    /// into Xa and Xp (kernel), Xa and Xo (engine).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<Seconds>,
    /// Stated, not measured: the overhead of talking to an engine that is not there yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Seconds>,
    /// Stated, not measured: the time of a request on an engine that is not there yet.
    #[serde(
        default,
        rename = "engine_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub engine_time: Option<Seconds>,
    /// With the server on the kernel's TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<Row>,
    /// With the server on the engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine: Vec<Row>,
}

/// One load.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Requests served, a second.
    pub rate: f64,
    /// Busy seconds a second of the server: its processes, and on the kernel's TCP the softirqs.
    pub server_busy: f64,
    /// Busy seconds a second of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_busy: Option<f64>,
}

/// A service time fitted to loads.
#[derive(Debug, Clone, Serialize)]
pub struct Fit {
    /// Whose.
    pub what: &'static str,
    /// The line through the loads.
    pub line: ServiceTime,
    /// The load at which one core of it saturates, a second; no upper end where the interval of
    /// the service time reaches down to nothing.
    pub saturation: (f64, f64, Option<f64>),
    /// How far the line is from what was measured, as a share of it, on average.
    pub error: Interval,
}

/// Reads a measurement file.
pub fn read(path: &Path) -> Result<Measurements> {
    let text = std::fs::read_to_string(path).with_context(|| {
        format!(
            "cannot read --fit {} (--measure --save FILE writes one; docs/plan.md describes it)",
            path.display()
        )
    })?;
    toml::from_str(&text).with_context(|| format!("in {}", path.display()))
}

impl Fit {
    fn of(rows: &[Row], busy: impl Fn(&Row) -> f64, what: &'static str) -> Result<Fit> {
        let loads: Vec<Load> = rows
            .iter()
            .map(|row| Load {
                rate: row.rate,
                busy: busy(row),
            })
            .collect();
        let line = service_time(&loads, CONFIDENCE).context(what)?;
        let service = line.service;
        if service.value <= 0.0 {
            bail!(
                "{what}: its busy time does not grow with the load (slope {}), so no service time \
                 follows. Either the loads are too close together or the windows too short, or a \
                 request costs less the more there are (fewer wake-ups): then measure near the \
                 load that you plan for, with as many connections at every load",
                duration(service.value)
            );
        }
        let background = line.background.value;
        let pairs: Vec<Pair> = loads
            .iter()
            .filter(|load| load.busy > 0.0)
            .map(|load| Pair {
                model: (background + service.value * load.rate).max(0.0),
                measured: load.busy,
            })
            .collect();
        let free = (1.0 - background).max(0.0);
        Ok(Fit {
            what,
            line,
            saturation: (
                free / service.value,
                free / service.high,
                (service.low > 0.0).then(|| free / service.low),
            ),
            error: relative_error(&pairs, CONFIDENCE, SEED).context(what)?,
        })
    }
}

/// Fitted service times in words.
pub fn words(fits: &[Fit]) -> String {
    let mut text = String::new();
    for Fit {
        what,
        line,
        saturation: (rate, lowest, highest),
        error,
    } in fits
    {
        let service = line.service;
        let _ = writeln!(
            text,
            "{what}: {} a request (95 %: {} to {}), {:.1} % of a core without load; one core \
             saturates at {rate:.0} a second (95 %: {lowest:.0} to {}); the line is off by {:.1} % \
             on average (at most {:.1} %, 95 %).",
            duration(service.value),
            duration(service.low),
            duration(service.high),
            line.background.value * 100.0,
            highest.map_or("∞".into(), |highest| format!("{highest:.0}")),
            error.value * 100.0,
            error.high * 100.0,
        );
        if line.explained < STRAIGHT {
            let _ = writeln!(
                text,
                "  Beware: a line explains only {:.1} % of it. The service time changes with the \
                 load, and what follows from it will be wrong there.",
                line.explained * 100.0,
            );
        }
    }
    text
}

impl Measurements {
    fn alone(&self) -> Result<Fit> {
        Fit::of(&self.kernel, |row| row.server_busy, "Server on the kernel")
    }

    fn host(&self) -> Result<Fit> {
        Fit::of(&self.engine, |row| row.server_busy, "Server on the engine")
    }

    fn helper(&self) -> Result<Fit> {
        if let Some(row) = self.engine.iter().find(|row| row.engine_busy.is_none()) {
            bail!(
                "the load of {} a second on the engine has no engine_busy",
                row.rate
            );
        }
        Fit::of(&self.engine, |row| row.engine_busy.unwrap_or(0.0), "Engine")
    }

    /// All that can be fitted.
    pub fn fits(&self) -> Result<Vec<Fit>> {
        let mut fits = Vec::new();
        if !self.kernel.is_empty() {
            fits.push(self.alone()?);
        }
        if !self.engine.is_empty() {
            fits.push(self.host()?);
            fits.push(self.helper()?);
        }
        if fits.is_empty() {
            bail!(
                "there is no measurement in it: three [[kernel]] or [[engine]] loads or more are \
                 needed"
            );
        }
        Ok(fits)
    }

    /// The server that was measured, for a study: `[[kernel]]` and either `[[engine]]` or what is
    /// expected of an engine. With it the servers at both ends of the intervals.
    pub fn server(&self) -> Result<(Server, Ends)> {
        if self.kernel.is_empty() {
            bail!("a plan needs three [[kernel]] loads or more: the server without engine");
        }
        let alone = self.alone()?.line.service;
        let (host, engine, origin) = if self.engine.is_empty() {
            let (host, engine, origin) = self.expected()?;
            (certain(host), certain(engine), origin)
        } else {
            if self.overhead.is_some() || self.engine_time.is_some() {
                bail!(
                    "overhead and engine_time are for an engine that is not there yet; here \
                     [[engine]] measures both: leave one of them out"
                );
            }
            let (host, engine) = (self.host()?, self.helper()?);
            let origin = format!("fitted from {} on the engine", self.engine.len());
            (host.line.service, engine.line.service, origin)
        };
        let least = host.value.min(alone.value);
        if let Some(application) = self.application.filter(|time| time.0 > least) {
            bail!(
                "application = {} is more than the whole request takes the server ({})",
                duration(application.0),
                duration(least)
            );
        }
        let origin = format!(
            "fitted from {} loads on the kernel, {origin}; every time exponential",
            self.kernel.len(),
        );
        let end =
            |alone: f64, host: f64, engine: f64| self.with_times([alone, host, engine], &origin);
        Ok((
            end(alone.value, host.value, engine.value)?,
            Ends {
                favourable: end(alone.high, host.low, engine.low)?,
                unfavourable: end(alone.low, host.high, engine.high)?,
            },
        ))
    }

    /// A server whose requests take it as long without and with an engine, and the engine as long, in
    /// seconds. The end of an interval may lie below nothing, or below the application's own time.
    fn with_times(&self, [alone, host, engine]: [f64; 3], origin: &str) -> Result<Server> {
        let time =
            |seconds: f64| Written::Mean(Seconds(seconds.max(0.0))).distribution(Path::new(""));
        let own = self.application.map_or(0.0, |time| time.0);
        Ok(Server {
            classes: vec![Class {
                name: "requests".into(),
                arrival_rate: 1.0,
                application: time(own)?,
                protocol: time(alone - own)?,
                overhead: time(host - own)?,
                control: time(0.0)?,
                engine: time(engine)?,
            }],
            sizes: Some(Vec::new()),
            system: System::default(),
            rates: None,
            origin: origin.to_owned(),
            // Without it the whole of each stage is one time.
            split: self.application.is_some(),
        })
    }

    /// What a request is expected to take the host and an engine that is not there yet, and whose
    /// word that is.
    fn expected(&self) -> Result<(f64, f64, String)> {
        let stated = [
            ("application", self.application),
            ("overhead", self.overhead),
            ("engine_time", self.engine_time),
        ];
        let missing: Vec<&str> = stated
            .iter()
            .filter_map(|(name, time)| time.is_none().then_some(*name))
            .collect();
        let [Some(application), Some(overhead), Some(engine)] = stated.map(|(_, time)| time) else {
            bail!(
                "nothing was measured on an engine: add three [[engine]] loads or more, or state \
                 what you expect of one: {} missing",
                missing.join(", ")
            );
        };
        let origin = "with stated, not measured, times of an engine".to_string();
        Ok((application.0 + overhead.0, engine.0, origin))
    }
}

/// What was stated is taken at its word.
fn certain(value: f64) -> Interval {
    Interval {
        value,
        low: value,
        high: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 3] = [1000.0, 2000.0, 4000.0];

    fn row(rate: f64, server: f64, engine: Option<f64>) -> Row {
        Row {
            rate,
            server_busy: rate * server + 0.01,
            engine_busy: engine.map(|engine| rate * engine),
        }
    }

    fn measured(application: Option<f64>) -> Measurements {
        Measurements {
            kernel: RATES.iter().map(|r| row(*r, 5e-5, None)).collect(),
            engine: RATES.iter().map(|r| row(*r, 2e-5, Some(2.5e-5))).collect(),
            application: application.map(Seconds),
            ..Measurements::default()
        }
    }

    fn mean(distribution: &queueing::Distribution) -> f64 {
        distribution.moment(1).unwrap()
    }

    #[test]
    fn service_times_come_back_from_loads_made_of_them() {
        let server = measured(Some(1.5e-5)).server().unwrap().0;
        let class = &server.classes[0];
        assert!((mean(&class.protocol) - 3.5e-5).abs() < 1e-12);
        assert!((mean(&class.overhead) - 0.5e-5).abs() < 1e-12);
        assert!((mean(&class.engine) - 2.5e-5).abs() < 1e-12);
        let fits = measured(None).fits().unwrap();
        assert!(words(&fits).contains("50.0 µs a request"));
        // A hundredth of the core is busy anyway: 0.99/50 µs.
        assert!((fits[0].saturation.0 - 19_800.0).abs() < 1e-6);
    }

    #[test]
    fn without_the_applications_time_each_stage_is_one_exponential() {
        let server = measured(None).server().unwrap().0;
        let class = &server.classes[0];
        assert!(class.application.is_zero() && !server.split);
        assert!((mean(&class.protocol) - 5e-5).abs() < 1e-12);
        assert!((mean(&class.overhead) - 2e-5).abs() < 1e-12);
    }

    #[test]
    fn an_engine_that_is_not_there_is_stated_in_full_or_refused() {
        let mut half = Measurements {
            engine: Vec::new(),
            overhead: Some(Seconds(1e-5)),
            ..measured(Some(1.5e-5))
        };
        let error = half.server().unwrap_err().to_string();
        assert!(error.contains("engine_time missing"), "{error}");
        half.engine_time = Some(Seconds(3e-5));
        let server = half.server().unwrap().0;
        assert!((mean(&server.classes[0].engine) - 3e-5).abs() < 1e-15);
        assert!(server.origin.contains("not measured"));
    }

    #[test]
    fn busy_time_that_falls_with_the_load_is_no_service_time() {
        let mut falling = measured(None);
        falling.kernel.iter_mut().for_each(|row| {
            row.server_busy = 0.5 - row.rate * 1e-5;
        });
        let error = falling.server().unwrap_err().to_string();
        assert!(error.contains("does not grow"), "{error}");
    }
}
