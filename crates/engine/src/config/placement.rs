//! Who serves new connections: the engine, the kernel, or whichever is the cheaper one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;

use policy::Band;
use serde::{Deserialize, Serialize};

use super::policy::PolicyFile;
use crate::placement::Figure;

/// Who serves the new connections of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// The engine, or while that does not pay, the kernel.
    Adaptive,
    /// The engine.
    #[default]
    Engine,
    /// The kernel.
    Kernel,
}

impl Placement {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Engine => "engine",
            Self::Kernel => "kernel",
        }
    }
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Adaptive, Self::Engine, Self::Kernel];
        let meant = all.into_iter().find(|placement| placement.name() == text);
        meant.ok_or_else(|| "write adaptive, engine or kernel".to_owned())
    }
}

/// What was said of all listeners, and of single ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placements {
    /// Of all of which nothing else is said.
    pub all: Placement,
    /// Of these, by the addresses that they are bound to.
    pub of: BTreeMap<SocketAddr, Placement>,
    /// The engine pays from so many new connections and segments with data a second on.
    pub from_rate: u32,
    /// It says instead when the engine pays.
    pub policy: Option<PolicyFile>,
}

impl Placements {
    /// What was said of a listener.
    pub fn of(&self, local: SocketAddr) -> Placement {
        self.of.get(&local).copied().unwrap_or(self.all)
    }

    /// The figure that decides.
    pub fn figure(&self) -> Figure {
        match self.policy {
            Some(_) => Figure::Requests,
            None => Figure::Arrivals,
        }
    }

    /// At which rates the engine pays.
    pub fn band(&self) -> Band {
        match &self.policy {
            Some(file) => file.policy().connections(),
            None => Band {
                offload_from_rate: Some(self.from_rate.into()),
                offload_below_rate: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Placement};

    #[test]
    fn a_placement_is_read_as_it_is_written() {
        for placement in [Placement::Adaptive, Placement::Engine, Placement::Kernel] {
            assert_eq!(placement.name().parse(), Ok(placement));
        }
        let error = "nobody".parse::<Placement>().expect_err("none");
        assert_eq!(error, "write adaptive, engine or kernel");
    }

    #[test]
    fn what_is_said_of_a_listener_goes_before_what_is_said_of_all() {
        let text = "placement = \"adaptive\"\n[placements]\n\"0.0.0.0:80\" = \"engine\"\n\
                    \"[::]:80\" = \"kernel\"\n";
        let placements = Config::parse("x", text).expect("valid").placements();
        let of = |local: &str| placements.of(local.parse().expect("an address"));
        assert_eq!(of("0.0.0.0:80"), Placement::Engine);
        assert_eq!(of("[::]:80"), Placement::Kernel);
        assert_eq!(of("0.0.0.0:81"), Placement::Adaptive);
        let refused = |text: &str| Config::parse("x", text).expect_err("refused").to_string();
        let error = refused("[placements]\n\"port 80\" = \"engine\"\n");
        assert!(error.starts_with("x:2: "), "{error}");
        let error = refused("\n[placements]\n\"0.0.0.0:80\" = \"nobody\"\n");
        assert!(
            error.starts_with("x:3: ") && error.contains("adaptive"),
            "{error}"
        );
        let error = refused("placement_rate = 0\n");
        assert!(error.contains("`placement_rate` is 0"), "{error}");
    }
}
