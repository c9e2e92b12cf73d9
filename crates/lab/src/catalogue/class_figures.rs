//! What the text of 003 says by class of file, under the names that what is measured here has.

use crate::experiment::declaration::{Citation, Finding};

pub const CLASS: &str = "class";
pub const CONNECTIONS: &str = "connections";
pub const GOODPUT: &str = "goodput";
pub const SETUP: &str = "setting a connection up";
pub const ENGINE: &str = "CPU of the engine";
/// What the core of an engine apart does, in the order in which shares of a core are told.
pub const ITS_SHARES: [&str; 8] = [
    USR,
    SYS,
    "engine's core: nice",
    IDLE,
    "engine's core: io",
    "engine's core: irq",
    SOFTIRQ,
    "engine's core: steal",
];
pub const USR: &str = "engine's core: usr";
pub const SYS: &str = "engine's core: sys";
pub const IDLE: &str = "engine's core: idle";
pub const SOFTIRQ: &str = "engine's core: softirq";

const WITHOUT: &str = "Apache without an engine";
const WITH: &str = "Apache with the emulated engine";
const ITS_MACHINE: &str = "the engine's machine there";

/// Table 4-1: saturation points by class, requests a second, without the engine and with it.
pub const SATURATION: [(u32, f64, f64); 3] =
    [(2, 300.0, 350.0), (3, 100.0, 300.0), (4, 12.0, 40.0)];

/// A row of table 4-2: delays as the source's model has them, and as it measured them, by Kolmogorov and Smirnov.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Whether the server had the engine.
    pub with_engine: bool,
    /// The class of its files.
    pub class: u32,
    /// The distance.
    pub distance: f64,
    /// The probability that is printed beside it.
    pub p: f64,
}

/// A row without the engine, or with it.
const fn agrees(with_engine: bool, class: u32, distance: f64, p: f64) -> Agreement {
    Agreement {
        with_engine,
        class,
        distance,
        p,
    }
}

/// Table 4-2.
pub const AGREEMENT: [Agreement; 10] = [
    agrees(false, 0, 0.1429, 0.9996),
    agrees(false, 1, 0.1616, 0.9996),
    agrees(false, 2, 0.1667, 0.9985),
    agrees(false, 3, 0.2143, 0.9205),
    agrees(false, 4, 0.2500, 0.8690),
    agrees(true, 0, 0.1818, 0.9934),
    agrees(true, 1, 0.1818, 0.9970),
    agrees(true, 2, 0.1667, 0.9985),
    agrees(true, 3, 0.2308, 0.8978),
    agrees(true, 4, 0.2727, 0.8326),
];

/// By class, what a full server with the engine does of that without one: figure 4-11, by its text, over what there was
/// without, which it does not say.
pub const CHANGES: [(&str, f64); 5] = [
    ("0", 0.94),
    ("1", 0.99),
    ("2", 1.21),
    ("3", 1.62),
    ("4", 1.66),
];

/// From the first class on.
fn found(name: &str, measure: &str, place: &str, first: u32, points: &[f64]) -> Finding {
    Finding {
        name: name.into(),
        axis: CLASS.into(),
        measure: measure.into(),
        points: (first..)
            .map(f64::from)
            .zip(points.iter().copied())
            .collect(),
        at: Vec::new(),
        citation: Citation {
            document: "003".into(),
            place: place.into(),
        },
    }
}

/// All of it.
pub fn findings() -> Vec<Finding> {
    let saturation = |name: &str, of: fn(&(u32, f64, f64)) -> f64| {
        let place = "table 4-1, its saturation points a second times 60";
        let points = SATURATION.map(|row| of(&row) * 60.0);
        found(name, CONNECTIONS, place, SATURATION[0].0, &points)
    };
    let goodput = |name: &str, points: [f64; 5]| {
        found(name, GOODPUT, "table 4-4, with K = 1,024", 0, &points)
    };
    let setup = |name: &str, points: [f64; 5]| found(name, SETUP, "table 4-3", 0, &points);
    let host = |name: &str, measure: &str, figure: &str, first: u32, shares: &[f64]| {
        let place = format!("figure {figure}, by its text");
        found(name, measure, &place, first, shares)
    };
    let its = |measure: &str, shares: [f64; 5]| {
        found(ITS_MACHINE, measure, "figure 4-10, by its text", 0, &shares)
    };
    vec![
        saturation(WITHOUT, |(_, without, _)| *without),
        saturation(WITH, |(.., with)| *with),
        goodput(
            WITHOUT,
            [2.600_141, 11.408_507, 65.431_142, 164.416_717, 208.037_478],
        ),
        goodput(
            WITH,
            [2.097_152, 11.324_621, 85.563_802, 390.070_272, 621.595_853],
        ),
        setup(WITHOUT, [0.27, 0.28, 0.28, 0.28, 0.29]),
        setup(WITH, [0.09, 0.08, 0.09, 0.12, 0.78]),
        found(
            ITS_MACHINE,
            ENGINE,
            "figure 4-10: what its text does not call idle",
            0,
            &[20.0, 23.0, 32.0, 98.0, 98.0],
        ),
        its(SOFTIRQ, [4.0, 5.0, 10.8, 49.4, 58.0]),
        its(SYS, [9.0, 9.7, 13.5, 40.0, 35.0]),
        its(IDLE, [80.0, 77.0, 68.0, 2.0, 2.0]),
        host(WITHOUT, "usr", "4-8", 0, &[33.0, 31.0, 24.0]),
        host(WITHOUT, "irq", "4-8", 3, &[27.0, 34.0]),
        host(WITH, "usr", "4-9", 0, &[44.0; 5]),
        host(WITH, "softirq", "4-9", 0, &[7.5; 5]),
        host(WITH, "irq", "4-9", 0, &[10.3, 10.3, 10.3, 10.3, 2.0]),
    ]
}

#[cfg(test)]
mod tests {
    use super::{IDLE, SOFTIRQ, SYS, findings};

    /// What the source's text says of its engine's machine in figure 4-10 is not more than all of it.
    #[test]
    fn shares_of_the_engines_machine_are_parts_of_one() {
        let all = findings();
        let of = |measure: &str| {
            let mut named = all.iter().filter(|it| it.measure == measure);
            named.next().unwrap().points.clone()
        };
        let [softirq, kernel, idle] = [SOFTIRQ, SYS, IDLE].map(of);
        for class in 0..5 {
            let shares = [&softirq, &kernel, &idle].map(|points| points[class].1);
            let sum: f64 = shares.iter().sum();
            assert!((88.0..=100.0).contains(&sum), "{class}: {shares:?}");
            assert_eq!(idle[class].0, class as f64);
        }
    }
}
