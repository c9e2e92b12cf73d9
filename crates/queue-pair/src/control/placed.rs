//! Where a listener's new connections go, and why.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Where a listener's new connections go, and from which figures that follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placed {
    /// What was configured: `adaptive`, `engine` or `kernel`.
    pub configured: String,
    /// Whose they are: `engine` or `kernel`.
    pub place: String,
    /// Why, in a word or two.
    pub why: String,
    /// What has come in the last second: new connections and segments with data; with a policy, requests:
    /// segments with data alone.
    pub rate: u64,
    /// The same in the busiest of the last ten.
    pub peak: u64,
    /// The rate from which on the engine pays; with a policy, where its band begins.
    pub pays_from: u32,
    /// What a policy says, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ByPolicy>,
    /// How long a connection lives, in the mean of late, in microseconds.
    pub life_us: Option<u64>,
    /// How many segments with data come by a connection, in the mean of late.
    pub carried: Option<u64>,
}

/// Ranges of sizes of which people are told: a policy can have many.
const RANGES: usize = 4;

/// What a policy says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByPolicy {
    /// The requests a second from which on the engine pays; it never does if not given.
    pub from: Option<u64>,
    /// Those below which it does; there is no such end if not given.
    pub below: Option<u64>,
    /// What has come in the last second to all listeners together for which the policy decides, which is what
    /// decides; not given while that of one of them is not known.
    pub rate: Option<u64>,
    /// The same in the busiest of the last ten.
    pub peak: Option<u64>,
    /// The sizes, first and last in bytes, of files that the engine takes at the load that there is, to read them
    /// itself; not given while that is not known. What it has taken before it reads for ten seconds more at
    /// most. The program reads the others.
    pub reads: Option<Vec<(u64, u64)>>,
}

impl Placed {
    /// Whether they are the kernel's.
    pub fn is_kernel(&self) -> bool {
        self.place == "kernel"
    }
}

impl fmt::Display for Placed {
    /// The figures for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}), {} ", self.why, self.configured, self.rate)?;
        if self.policy.is_some() {
            f.write_str("requests ")?;
        }
        write!(f, "a second, {} at most in ten seconds, ", self.peak)?;
        match &self.policy {
            Some(policy) => write!(f, "{policy}")?,
            None => write!(f, "the engine pays from {}", self.pays_from)?,
        }
        if let Some(life) = self.life_us {
            write!(f, ", a connection lives {:.3} s", life as f64 / 1e6)?;
        }
        if let Some(carried) = self.carried {
            write!(f, ", carries {carried} segments with data")?;
        }
        Ok(())
    }
}

impl fmt::Display for ByPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(rate), Some(peak)) = (self.rate, self.peak) {
            write!(f, "all adaptive ones together {rate}, {peak} at most, ")?;
        }
        f.write_str("by the policy the engine ")?;
        match (self.from, self.below) {
            (None, _) => f.write_str("never pays")?,
            (Some(from), None) => write!(f, "pays from {from}")?,
            (Some(from), Some(below)) => write!(f, "pays from {from} and below {below}")?,
        }
        let Some(reads) = &self.reads else {
            return Ok(());
        };
        if reads.is_empty() {
            return f.write_str(" and takes no files");
        }
        f.write_str(" and takes files of ")?;
        for (at, (first, last)) in reads.iter().take(RANGES).enumerate() {
            if at > 0 {
                f.write_str(" and ")?;
            }
            match (*first, *last) {
                (0, u64::MAX) => f.write_str("any size")?,
                (first, u64::MAX) => write!(f, "{first} bytes or more")?,
                (first, last) => write!(f, "{first} to {last} bytes")?,
            }
        }
        match reads.len() > RANGES {
            true => f.write_str(" and others"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_that_decided() {
        let mut placed = Placed {
            configured: "adaptive".into(),
            place: "kernel".into(),
            why: "quiet".into(),
            rate: 8,
            peak: 9,
            pays_from: 40,
            ..Placed::default()
        };
        let by_rate =
            "quiet (adaptive), 8 a second, 9 at most in ten seconds, the engine pays from 40";
        assert_eq!(placed.to_string(), by_rate);
        let mut said = |from, below, reads: Option<&[(u64, u64)]>| {
            let reads = reads.map(<[_]>::to_vec);
            placed.policy = Some(ByPolicy {
                from,
                below,
                reads,
                ..ByPolicy::default()
            });
            placed.to_string()
        };
        let known = "quiet (adaptive), 8 requests a second, 9 at most in ten seconds, by the policy the engine ";
        assert_eq!(said(Some(40), None, None), format!("{known}pays from 40"));
        assert_eq!(
            said(Some(40), Some(90), Some(&[])),
            format!("{known}pays from 40 and below 90 and takes no files")
        );
        assert_eq!(
            said(None, None, Some(&[(0, 1024), (9000, u64::MAX)])),
            format!("{known}never pays and takes files of 0 to 1024 bytes and 9000 bytes or more")
        );
        let many: Vec<_> = (0..9).map(|at| (20 * at, 20 * at + 9)).collect();
        let all = said(Some(0), None, Some(&many));
        assert!(
            all.ends_with("files of 0 to 9 bytes and 20 to 29 bytes and 40 to 49 bytes and 60 to 69 bytes and others"),
            "{all}"
        );
        let all = said(Some(0), None, Some(&[(0, u64::MAX)]));
        assert!(
            all.ends_with("pays from 0 and takes files of any size"),
            "{all}"
        );
        placed.policy = Some(ByPolicy {
            rate: Some(30),
            peak: Some(33),
            ..ByPolicy::default()
        });
        let all = placed.to_string();
        assert!(
            all.ends_with("ten seconds, all adaptive ones together 30, 33 at most, by the policy the engine never pays"),
            "{all}"
        );
    }

    #[test]
    fn what_an_engine_without_policies_says_is_understood() {
        let said = r#"{"configured":"adaptive","place":"engine","why":"busy","rate":9,"peak":9,"pays_from":4}"#;
        let placed: Placed = serde_json::from_str(said).expect("understood");
        assert_eq!((placed.policy, placed.pays_from), (None, 4));
    }
}
