//! What a stack must offer for scripts to be run on it.

use core::time::Duration;
use std::collections::BTreeMap;

use super::ast::Side;
use super::call::{Call, Outcome};
use super::setting::Setting;

/// Values of `TCP_INFO` by the names of their fields.
pub type Info = BTreeMap<&'static str, i64>;

/// A datagram that the stack sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When, since the script began.
    pub at: Duration,
    /// The IP datagram.
    pub bytes: Vec<u8>,
}

/// A stack under test. Times are since the script began. Every error is a failure of the script,
/// in words.
pub trait Backend {
    /// Which of the stacks it is.
    fn side(&self) -> Side;

    /// How much less exact than the script asks for times may be.
    fn slack(&self) -> Duration;

    /// Sets something.
    fn set(&mut self, setting: &Setting) -> Result<(), String>;

    /// The time.
    fn now(&mut self) -> Duration;

    /// Lets time pass.
    fn wait_until(&mut self, at: Duration) -> Result<(), String>;

    /// A datagram arrives at the stack.
    fn inject(&mut self, datagram: &[u8]) -> Result<(), String>;

    /// The next datagram with a TCP segment that the stack sent, if there is one by `until`.
    fn next_packet(&mut self, until: Duration) -> Result<Option<Captured>, String>;

    /// Begins a system call; `data` is what it writes. There is one at a time.
    fn begin(&mut self, call: &Call, data: &[u8]) -> Result<(), String>;

    /// What the call came to and when, if it has by `until`.
    fn finish(&mut self, until: Duration) -> Result<Option<(Duration, Outcome)>, String>;

    /// What `TCP_INFO` says of a connection.
    fn info(&mut self, fd: i32) -> Result<Info, String>;
}
