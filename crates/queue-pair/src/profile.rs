//! How engine and programs wait for each other and for the network: what a moment of latency may cost.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// The variable by which a program is told how to wait.
pub const PROFILE_VARIABLE: &str = "OUTBOARD_PROFILE";

/// How to wait. An engine has one, and a program may want another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Sleep at once, except where the other side is about to answer.
    Efficient,
    /// Look for work before sleeping where that has paid.
    #[default]
    Balanced,
    /// Look for work for up to a millisecond, on a core that nobody else wants.
    Latency,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Efficient, Self::Balanced, Self::Latency];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Efficient => "efficient",
            Self::Balanced => "balanced",
            Self::Latency => "latency",
        }
    }

    /// What this process was told by its environment (`OUTBOARD_PROFILE`), if anything that is one.
    pub fn of_environment() -> Option<Self> {
        std::env::var(PROFILE_VARIABLE).ok()?.parse().ok()
    }

    /// How an engine of this profile serves a program that wants another: as the program wants, but an
    /// efficient engine burns nobody's cores.
    pub const fn serving(self, wanted: Option<Self>) -> Self {
        match (self, wanted) {
            (Self::Efficient, _) => Self::Efficient,
            (_, Some(wanted)) => wanted,
            (own, None) => own,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not the name of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are efficient, balanced and latency")]
pub struct NoProfile;

impl FromStr for Profile {
    type Err = NoProfile;

    fn from_str(name: &str) -> Result<Self, NoProfile> {
        let known = Self::ALL.into_iter().find(|one| one.name() == name);
        known.ok_or(NoProfile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert_eq!("".parse::<Profile>(), Err(NoProfile));
        assert_eq!("Latency".parse::<Profile>(), Err(NoProfile));
    }

    #[test]
    fn a_program_has_its_way_but_with_an_efficient_engine() {
        use Profile::{Balanced, Efficient, Latency};
        for (own, wanted, serving) in [
            (Balanced, None, Balanced),
            (Balanced, Some(Latency), Latency),
            (Balanced, Some(Efficient), Efficient),
            (Latency, Some(Efficient), Efficient),
            (Latency, None, Latency),
            (Efficient, Some(Latency), Efficient),
        ] {
            assert_eq!(own.serving(wanted), serving, "{own} {wanted:?}");
        }
    }
}
