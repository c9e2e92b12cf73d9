//! From which load on, and up to which, something is offloaded.

use super::study::{Point, Study};

/// The loads, of those that were looked at, at which something is offloaded.
#[derive(Debug, Clone, PartialEq)]
pub enum Ranges {
    /// At none.
    Never,
    /// At each that some placement carries.
    Always,
    /// In one range: from a load on (`None`: from the lightest), up to another (`None`: to the
    /// busiest), both in requests a second.
    Once(Option<f64>, Option<f64>),
    /// In several ranges.
    Often,
}

impl Ranges {
    /// Where the best placement offloads what `holds` looks at.
    pub fn of(study: &Study, holds: impl Fn(&[bool]) -> bool) -> Self {
        let carried: Vec<(f64, bool)> = study
            .points
            .iter()
            .filter_map(|point| Some((point.rate, holds(&point.best.as_ref()?.offloaded))))
            .collect();
        let Some(first) = carried.iter().position(|(_, holds)| *holds) else {
            return Self::Never;
        };
        let behind = carried[first..].iter().position(|(_, holds)| !holds);
        let from = (first > 0).then(|| carried[first].0);
        let Some(behind) = behind.map(|at| first + at) else {
            return from.map_or(Self::Always, |from| Self::Once(Some(from), None));
        };
        if carried[behind..].iter().any(|(_, holds)| *holds) {
            return Self::Often;
        }
        Self::Once(from, Some(carried[behind].0))
    }

    /// In words, to follow "Offload" or a name.
    pub fn words(&self) -> String {
        match self {
            Self::Never => "at no load".into(),
            Self::Always | Self::Once(None, None) => "from the lightest load on".into(),
            Self::Once(Some(from), None) => format!("from {from:.0} requests a second on"),
            Self::Once(from, Some(until)) => {
                let from = from.map_or("the lightest load".into(), |from| format!("{from:.0}"));
                format!("from {from} up to {until:.0} requests a second")
            }
            Self::Often => "at some loads, not at others: see the table".into(),
        }
    }
}

/// Whether every class goes the same way at each load that was looked at.
pub fn all_or_nothing(points: &[Point]) -> bool {
    let placements = points.iter().filter_map(|point| point.best.as_ref());
    let mut same = placements.map(|best| best.offloaded.windows(2).all(|two| two[0] == two[1]));
    same.all(|same| same)
}
