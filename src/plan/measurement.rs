//! Inputs fitted from measurements, and the measurement file (docs/plan.md describes it).

use super::input::Server;
use super::written::{Written, duration};
use anyhow::{Context, Result, bail};
use queueing::fit::regression::{Load, ServiceTime, service_time};
use queueing::offload::{Class, System};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;

/// The file: what was measured at each load, on the kernel's TCP and on the engine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// With the server on the kernel's TCP.
    #[serde(default)]
    pub kernel: Vec<Row>,
    /// With the server on the engine.
    #[serde(default)]
    pub engine: Vec<Row>,
    /// Application time of a request, seconds: what the server's own code needs. It splits the
    /// server's time into Xa and Xp (kernel), Xa and Xo (engine).
    pub application_seconds: Option<f64>,
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
    pub engine_busy: Option<f64>,
}

/// Reads a measurement file.
pub fn read(path: &Path) -> Result<Measurements> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("in {}", path.display()))
}

fn fit(rows: &[Row], busy: impl Fn(&Row) -> f64, what: &str) -> Result<ServiceTime> {
    let loads: Vec<Load> = rows
        .iter()
        .map(|row| Load {
            rate: row.rate,
            busy: busy(row),
        })
        .collect();
    service_time(&loads, CONFIDENCE).with_context(|| what.to_string())
}

impl Measurements {
    fn engine_fit(&self) -> Result<ServiceTime> {
        if let Some(row) = self.engine.iter().find(|row| row.engine_busy.is_none()) {
            bail!(
                "the load of {} a second on the engine has no engine_busy",
                row.rate
            );
        }
        fit(
            &self.engine,
            |row| row.engine_busy.unwrap_or(0.0),
            "the engine's time",
        )
    }

    /// The fitted service times, in words.
    pub fn report(&self) -> Result<String> {
        let mut text = String::new();
        let mut line = |name: &str, fitted: &ServiceTime| {
            let _ = writeln!(
                text,
                "{name:<24} {} a request (95 %: {} to {}), {:.1} % of a core without load, line explains {:.1} %",
                duration(fitted.service.value),
                duration(fitted.service.low),
                duration(fitted.service.high),
                fitted.background.value * 100.0,
                fitted.explained * 100.0,
            );
        };
        if !self.kernel.is_empty() {
            line(
                "server on the kernel:",
                &fit(&self.kernel, |row| row.server_busy, "the server's time")?,
            );
        }
        if !self.engine.is_empty() {
            line(
                "server on the engine:",
                &fit(&self.engine, |row| row.server_busy, "the server's time")?,
            );
            line("engine:", &self.engine_fit()?);
        }
        if text.is_empty() {
            bail!(
                "there is no measurement in it: at least three [[kernel]] or [[engine]] loads are needed"
            );
        }
        Ok(text)
    }

    /// The server that was measured, for a study: both halves are needed.
    pub fn server(&self) -> Result<Server> {
        if self.kernel.is_empty() || self.engine.is_empty() {
            bail!(
                "a plan needs loads measured on both: [[kernel]] and [[engine]], three or more each"
            );
        }
        let alone = fit(
            &self.kernel,
            |row| row.server_busy,
            "the server on the kernel's TCP",
        )?
        .service
        .value;
        let host = fit(
            &self.engine,
            |row| row.server_busy,
            "the server on the engine",
        )?
        .service
        .value;
        let engine = self.engine_fit()?.service.value;
        // Without the application's own time, all of what both have in common is taken for it: the
        // stages' sums, which are all that the model uses, do not depend on the split.
        let application = self.application_seconds.unwrap_or(host.min(alone));
        if application > alone.min(host) {
            bail!(
                "application_seconds = {application} is more than the whole request takes ({})",
                duration(alone.min(host))
            );
        }
        let time = |seconds: f64| {
            Written::Mean(super::written::Seconds(seconds.max(0.0))).distribution(Path::new(""))
        };
        Ok(Server {
            classes: vec![Class {
                name: "requests".into(),
                arrival_rate: 1.0,
                application: time(application)?,
                protocol: time(alone - application)?,
                overhead: time(host - application)?,
                control: time(0.0)?,
                engine: time(engine)?,
            }],
            sizes: None,
            system: System::default(),
            rates: None,
            origin: format!(
                "fitted from {} loads on the kernel and {} on the engine; every time exponential",
                self.kernel.len(),
                self.engine.len()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_times_come_back_from_loads_made_of_them() {
        let row = |rate: f64, server: f64, engine: Option<f64>| Row {
            rate,
            server_busy: rate * server + 0.01,
            engine_busy: engine.map(|engine| rate * engine),
        };
        let rates = [1000.0, 2000.0, 4000.0];
        let measured = Measurements {
            kernel: rates.iter().map(|r| row(*r, 5e-5, None)).collect(),
            engine: rates.iter().map(|r| row(*r, 2e-5, Some(2.5e-5))).collect(),
            application_seconds: Some(1.5e-5),
        };
        let server = measured.server().unwrap();
        let mean = |d: &queueing::Distribution| d.moment(1).unwrap();
        let class = &server.classes[0];
        assert!((mean(&class.protocol) - 3.5e-5).abs() < 1e-12);
        assert!((mean(&class.overhead) - 0.5e-5).abs() < 1e-12);
        assert!((mean(&class.engine) - 2.5e-5).abs() < 1e-12);
        assert!(measured.report().unwrap().contains("50.0 µs a request"));
    }
}
