//! Who may connect to a listener: limits that its program sets and the engine keeps, at the SYN.

use serde::{Deserialize, Serialize};

/// How many connections there may be, and how often a new one. 0 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionLimit {
    /// New connections a second, in the long run.
    pub per_second: u32,
    /// New connections at once, after a pause; 0 is as many as in a second.
    pub burst: u32,
    /// Connections at one time.
    pub in_flight: u32,
}

/// Who may connect to a listener. By default everybody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionPolicy {
    /// For all together.
    pub all: AdmissionLimit,
    /// For each prefix of addresses.
    pub each: AdmissionLimit,
    /// Bits of an IPv4 address that make a prefix; more than 32 are 32.
    pub bits_v4: u8,
    /// Bits of an IPv6 address that make a prefix; more than 128 are 128.
    pub bits_v6: u8,
    /// Who is refused is told by RST; otherwise he hears nothing, and tries again.
    pub reset: bool,
}

impl AdmissionPolicy {
    /// Whether it limits nothing.
    pub fn is_open(&self) -> bool {
        self.all == AdmissionLimit::default() && self.each == AdmissionLimit::default()
    }
}

/// What is counted of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdmissionCounts {
    /// Connections made, since it began.
    pub accepts: u64,
    /// Connections that count now for what may be in flight.
    pub in_flight: u64,
    /// Segments refused because new connections came too fast.
    pub refused_by_rate: u64,
    /// Segments refused because there were as many connections as there may be.
    pub refused_by_count: u64,
    /// Segments refused for either reason of their prefix.
    pub refused_by_prefix: u64,
}
