//! Running a script: each event at its time, each expectation held against what the stack does.
//!
//! Besides what the script says, three things are held against the stack all the time: nothing
//! leaves that no line expects; what leaves carries the bytes that were written, each in its place
//! in the stream; what is read is what arrived.
//!
//! | file | what |
//! | --- | --- |
//! | `clock` | the times of a script |
//! | `flow` | from the script's numbers to those on the wire and back |
//! | `packets` | what arrives, what is expected to leave |
//! | `calls` | system calls and assertions |

mod calls;
mod clock;
mod cookies;
mod flow;
mod packets;

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::ast::{Script, Version, What, When};
use super::backend::{Backend, Captured};
use calls::Calls;
use clock::Clock;
use cookies::Cookies;
use flow::Flow;

/// How many of the last things that happened a failure shows.
const REMEMBERED: usize = 24;

/// Why a script did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The line that did not hold, from 1.
    pub line: u32,
    /// What was wrong with it.
    pub message: String,
    /// What happened before.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)?;
        for line in &self.trace {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Failure {}

/// Runs a script on a stack, over a version of IP.
///
/// # Errors
/// The first line that did not hold, and what happened before.
pub fn run<B: Backend>(script: &Script, version: Version, backend: &mut B) -> Result<(), Failure> {
    let tolerance = script.options.tolerance + backend.slack();
    let mut run = Run {
        backend,
        version,
        tolerance,
        clock: Clock::default(),
        flows: BTreeMap::new(),
        usual_flow: super::place::CLIENT_PORT,
        listening_port: super::place::LISTENING_PORT,
        captured: VecDeque::new(),
        cookies: Cookies::default(),
        calls: Calls::default(),
        trace: VecDeque::new(),
    };
    let mut line = 1;
    run.script(script, &mut line).map_err(|message| Failure {
        line,
        message,
        trace: run.trace.into(),
    })
}

/// A script under way.
struct Run<'a, B> {
    backend: &'a mut B,
    version: Version,
    tolerance: Duration,
    clock: Clock,
    /// By the port of the script's end.
    flows: BTreeMap<u16, Flow>,
    /// The flow that packets belong to if they do not say.
    usual_flow: u16,
    /// Where packets go that belong to no flow yet.
    listening_port: u16,
    /// What has left and no line has expected yet.
    captured: VecDeque<Captured>,
    cookies: Cookies,
    calls: Calls,
    trace: VecDeque<String>,
}

impl<B: Backend> Run<'_, B> {
    /// `line` is where it is.
    fn script(&mut self, script: &Script, line: &mut u32) -> Result<(), String> {
        for setting in &script.settings {
            self.backend.set(setting)?;
        }
        for event in &script.events {
            *line = event.line;
            if event.only.is_some_and(|side| side != self.backend.side()) {
                continue;
            }
            match &event.what {
                What::Outbound(packet) => {
                    let window = self.clock.window(event.when);
                    if let Some((_, latest)) = window {
                        self.finish_call_before(latest)?;
                    }
                    self.expect_packet(packet, window, event.when)?;
                }
                what => {
                    let (at, until) = self.clock.times(event.when);
                    self.finish_call_before(at)?;
                    self.pass_until(at)?;
                    self.clock.set(at);
                    match what {
                        What::Inbound(packet) => self.inject(packet)?,
                        What::Call(call, expected) => {
                            let blocking = matches!(event.when, When::During(..));
                            let by = blocking.then_some(until);
                            self.call(call, expected, *line, by)?;
                        }
                        What::Set(settings) => {
                            for setting in settings {
                                self.backend.set(setting)?;
                            }
                        }
                        What::Assert(assertions) => self.assert(assertions)?,
                        What::Outbound(_) => {}
                    }
                }
            }
        }
        self.finish_call()?;
        self.expect_silence(Duration::MAX)
    }

    /// Lets time pass in which nothing is expected to leave.
    fn pass_until(&mut self, at: Duration) -> Result<(), String> {
        self.backend.wait_until(at)?;
        self.expect_silence(at)
    }

    fn note(&mut self, at: Duration, what: &str) {
        if self.trace.len() == REMEMBERED {
            self.trace.pop_front();
        }
        self.trace
            .push_back(format!("{:>12.6} {what}", at.as_secs_f64()));
    }
}
