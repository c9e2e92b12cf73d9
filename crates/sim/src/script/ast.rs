//! A script as it was read: settings, then what happens and what is expected, each at its time.

use core::time::Duration;

use super::assertion::Assertion;
use super::call::{Call, Expected};
use super::packet::Packet;
use super::setting::Setting;

/// A whole script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The options at the top.
    pub options: Options,
    /// What to set before anything happens.
    pub settings: Vec<Setting>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// The `--name=value` lines at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `--ip_version`: the family that is asked for; `None` if the script does not say.
    pub version: Option<Version>,
    /// `--tolerance_usecs`: how far from its time an event may be.
    pub tolerance: Duration,
    /// `--mtu`: the largest packet of the interface in bytes, of IPv4; IPv6 has 20 more, so that
    /// segments are of the same size.
    pub mtu: u16,
}

impl Options {
    /// The versions of IP that the script is to be run over: both, unless it asks for one.
    pub fn versions(&self) -> Vec<Version> {
        let both = || vec![Version::V4, Version::V6];
        self.version.map_or_else(both, |asked| vec![asked])
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: None,
            tolerance: Duration::from_millis(4),
            mtu: 1500,
        }
    }
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which of the two stacks a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Ours.
    Outboard,
    /// Linux's.
    Linux,
}

/// One line: when, and what.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where it stands, from 1.
    pub line: u32,
    /// The only stack that it is about, if it is not about both.
    pub only: Option<Side>,
    /// When.
    pub when: When,
    /// What.
    pub what: What,
}

/// A point in time, as scripts name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So long after the script began.
    At(Duration),
    /// So long after the event before.
    After(Duration),
}

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a moment.
    Moment(Moment),
    /// Not before one moment and not after another.
    Between(Moment, Moment),
    /// A call that begins at one moment and returns at another.
    During(Moment, Moment),
    /// Whenever it comes.
    Any,
}

/// What happens, or is expected to.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// `<`: a packet arrives at the stack.
    Inbound(Packet),
    /// `>`: the stack is to send a packet.
    Outbound(Packet),
    /// The program makes a system call.
    Call(Call, Expected),
    /// Something is set.
    Set(Vec<Setting>),
    /// Something is to hold of the connection.
    Assert(Vec<Assertion>),
}
