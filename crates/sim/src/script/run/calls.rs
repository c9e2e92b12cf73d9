//! System calls and assertions.

use core::time::Duration;
use std::collections::BTreeMap;

use super::Run;
use super::flow::{Flow, INCOMING, OUTGOING};
use crate::pattern;
use crate::script::assertion::Assertion;
use crate::script::backend::Backend;
use crate::script::call::{Also, Call, Expected, OptionValue, Outcome, constant};
use crate::script::place;

/// What the runner keeps of calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Descriptors by the numbers that the script knows them by.
    fds: BTreeMap<i64, Descriptor>,
    /// The call under way.
    pending: Option<Pending>,
    /// The connection that assertions are about: the one opened or accepted last.
    connection: Option<i32>,
}

/// A descriptor, and how far its streams have been written and read.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    real: i32,
    written: u64,
    read: u64,
}

/// A call that has not returned.
#[derive(Debug)]
struct Pending {
    line: u32,
    /// As the script made it.
    call: Call,
    expected: Expected,
    /// When it is to return, if it may block.
    returns: Option<Duration>,
}

impl<B: Backend> Run<'_, B> {
    /// Makes a call; `returns` says when it is to return if it blocks.
    pub(super) fn call(
        &mut self,
        call: &Call,
        expected: &Expected,
        line: u32,
        returns: Option<Duration>,
    ) -> Result<(), String> {
        self.finish_call()?;
        let mut real = call.clone();
        let mut first = None;
        for fd in real.fds_mut() {
            let known = self.calls.fds.get(&i64::from(*fd));
            first = first.or(known.copied());
            // What the script never opened is no descriptor at all.
            *fd = known.map_or(-1, |known| known.real);
        }
        let mut data = Vec::new();
        if let Call::Send { count, .. } = call {
            data.resize(*count, 0);
            pattern::fill(OUTGOING + first.map_or(0, |fd| fd.written), &mut data);
        }
        self.prepare(&real);
        let now = self.backend.now();
        self.note(now, &format!("{call:?}"));
        self.backend.begin(&real, &data)?;
        self.calls.pending = Some(Pending {
            line,
            call: call.clone(),
            expected: expected.clone(),
            returns,
        });
        if returns.is_none() {
            self.finish_call()?;
        }
        Ok(())
    }

    /// What follows for packets from a call that is about to be made.
    fn prepare(&mut self, call: &Call) {
        match call {
            Call::Bind { address, .. } => {
                self.listening_port = address.map_or(place::LISTENING_PORT, |a| a.port);
            }
            Call::Connect { address, .. } => {
                let port = address.map_or(place::SERVICE_PORT, |a| a.port);
                self.usual_flow = port;
                // The stack chooses its own port.
                self.flows.entry(port).or_insert_with(|| Flow::new(0));
            }
            _ => {}
        }
    }

    /// Waits for the call under way if it is to return before `at`.
    pub(super) fn finish_call_before(&mut self, at: Duration) -> Result<(), String> {
        let tolerance = self.tolerance;
        let due = |pending: &Pending| {
            let returns = pending.returns;
            returns.is_some_and(|returns| returns + tolerance < at)
        };
        if self.calls.pending.as_ref().is_some_and(due) {
            self.finish_call()?;
        }
        Ok(())
    }

    /// Waits for the call under way, if there is one, and looks at what it came to.
    pub(super) fn finish_call(&mut self) -> Result<(), String> {
        let Some(pending) = self.calls.pending.take() else {
            return Ok(());
        };
        let from = format!("the call of line {}", pending.line);
        let patience = pending.returns.unwrap_or_else(|| self.backend.now());
        let done = self.backend.finish(patience + self.tolerance)?;
        let Some((at, outcome)) = done else {
            return Err(format!("{from} has not returned"));
        };
        self.note(at, &format!("  = {:?} {:?}", outcome.result, outcome.also));
        if let Some(returns) = pending.returns
            && at + self.tolerance < returns
        {
            return Err(format!(
                "{from} returned at {:.6}, too early",
                at.as_secs_f64()
            ));
        }
        self.check_outcome(&pending, &outcome)
            .map_err(|message| format!("{from}: {message}"))?;
        self.follow(&pending, &outcome)
            .map_err(|message| format!("{from}: {message}"))
    }

    fn check_outcome(&self, pending: &Pending, outcome: &Outcome) -> Result<(), String> {
        let opens = matches!(pending.call, Call::Socket { .. } | Call::Accept { .. });
        match (&pending.expected.result, &outcome.result) {
            (None, _) => {}
            // The script has its own numbers for descriptors.
            (Some(Ok(_)), Ok(_)) if opens => {}
            (Some(Ok(want)), Ok(have)) if want == have => {}
            (Some(Err(want)), Err(have)) if want == have => {}
            (Some(want), have) => return Err(format!("expected {want:?}, came to {have:?}")),
        }
        match (&pending.expected.also, &outcome.also) {
            (Also::Events(want), Also::Events(have)) if want != have => {
                Err(format!("expected the events {want:x?}, found {have:x?}"))
            }
            (Also::Option(want), Also::Option(have)) if !same_option(want, have) => {
                Err(format!("expected the value {want:?}, found {have:?}"))
            }
            _ => Ok(()),
        }
    }

    /// What follows from a call that has come to what was expected.
    fn follow(&mut self, pending: &Pending, outcome: &Outcome) -> Result<(), String> {
        let Ok(value) = outcome.result else {
            if let Call::Connect { fd, .. } = pending.call {
                self.note_connection(fd);
            }
            return Ok(());
        };
        match &pending.call {
            Call::Socket { .. } | Call::Accept { .. } => {
                let Some(Ok(named)) = pending.expected.result else {
                    return Err("the script must name the descriptor".into());
                };
                let real = i32::try_from(value).map_err(|_| "no descriptor")?;
                let descriptor = Descriptor {
                    real,
                    written: 0,
                    read: 0,
                };
                if self.calls.fds.insert(named, descriptor).is_some() {
                    return Err(format!("the script has a descriptor {named} already"));
                }
                if matches!(pending.call, Call::Accept { .. }) {
                    self.calls.connection = Some(real);
                }
            }
            Call::Connect { fd, .. } => self.note_connection(*fd),
            Call::Send { fd, .. } => {
                if let Some(descriptor) = self.calls.fds.get_mut(&i64::from(*fd)) {
                    descriptor.written += value as u64;
                }
            }
            Call::Receive { fd, flags, .. } => self.check_read(*fd, *flags, &outcome.bytes)?,
            Call::Close { fd } => {
                let closed = self.calls.fds.remove(&i64::from(*fd));
                if closed.map(|c| c.real) == self.calls.connection {
                    self.calls.connection = None;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn note_connection(&mut self, fd: i32) {
        let descriptor = self.calls.fds.get(&i64::from(fd));
        self.calls.connection = descriptor.map(|d| d.real);
    }

    /// What was read must be what arrived, byte for byte.
    fn check_read(&mut self, fd: i32, flags: i32, bytes: &[u8]) -> Result<(), String> {
        let Some(descriptor) = self.calls.fds.get_mut(&i64::from(fd)) else {
            return Ok(());
        };
        let address = INCOMING + descriptor.read;
        if flags & constant::MSG_PEEK == 0 {
            descriptor.read += bytes.len() as u64;
        }
        match pattern::first_wrong(address, bytes) {
            Some(at) => Err(format!("byte {at} of what was read is not what arrived")),
            None => Ok(()),
        }
    }

    pub(super) fn assert(&mut self, assertions: &[Assertion]) -> Result<(), String> {
        let Some(fd) = self.calls.connection else {
            return Err("there is no connection to assert anything of".into());
        };
        let info = self.backend.info(fd)?;
        for assertion in assertions {
            let value = assertion.condition.value(&|name| info.get(name).copied());
            let (line, text) = (assertion.line, &assertion.text);
            match value {
                Ok(0) => {
                    let fields = assertion.condition.fields();
                    let said: Vec<String> = fields
                        .iter()
                        .map(|name| format!("{name} is {}", info.get(name).unwrap_or(&0)))
                        .collect();
                    let said = said.join(", ");
                    return Err(format!("line {line}: {text} does not hold: {said}"));
                }
                Ok(_) => {}
                Err(unknown) => return Err(format!("line {line}: {text}: {unknown}")),
            }
        }
        Ok(())
    }
}

/// Whether an option has the value that was expected. A name may be followed by zeros.
fn same_option(want: &OptionValue, have: &OptionValue) -> bool {
    match (want, have) {
        (OptionValue::Integers(want), OptionValue::Integers(have)) => have.starts_with(want),
        (want, have) => want == have,
    }
}
