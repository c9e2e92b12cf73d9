//! Taking the steps of a program.
//!
//! On the kernel a step is over when nothing moves any more: every actor that is in a call sleeps,
//! and the peer gets nothing. What happened is written down. On the engine a step is over when the
//! same has happened, or when the patience is at its end: the engine may be a little later than
//! the kernel, which costs no false alarm then, but what has to come must come.

use crate::contest::{is_contest, is_other_order};
use crate::halting::Halting;
use crate::happened::{Arrived, Happened, Transcript};
use crate::judge::{self, Condition, Difference, Differences};
use crate::outcome::Outcome;
use crate::peer::{Peer, State};
use crate::program::{
    Actor, CONNECTIONS, Call, Connection, Peer as Act, Program, Signal, Step, Wait,
};
use crate::setting::Setting;
use crate::stage::{Activity, News, Stage};
use crate::wire;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How patiently it is looked.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Times, a millisecond apart, that nothing must move before a step on the kernel is over.
    pub looks: u32,
    /// Milliseconds without anything new before the peer is believed to have all.
    pub quiet: u64,
    /// Milliseconds without a frame on the wire before the engine is believed to have heard of all that a step
    /// set off: on the kernel what a segment does is done when the call returns that has sent it.
    pub calm: u64,
    /// How long the engine may take for what the kernel has done.
    pub limit: Duration,
}

impl Patience {
    /// For the first try.
    pub const QUICK: Self = Self {
        looks: 3,
        quiet: 60,
        calm: 0,
        limit: Duration::from_secs(3),
    };
    /// For the many tries of shrinking, of which the last is made sure of.
    pub const HASTY: Self = Self {
        looks: 3,
        quiet: 60,
        calm: 0,
        limit: Duration::from_secs(1),
    };
    /// To make sure.
    pub const SURE: Self = Self {
        looks: 20,
        quiet: 150,
        calm: 20,
        limit: Duration::from_secs(8),
    };
}

/// No step on the kernel takes longer: a limit for a machine that stands still.
const STANDSTILL: Duration = Duration::from_secs(30);
/// In which a call returns that is to return, on a machine that is busy.
const A_MOMENT: Duration = Duration::from_millis(300);
/// How long an engine stands still without which a step may come to an end: longer than whoever can do without waits
/// for its answer.
const STANDS: Duration = Duration::from_millis(1200);
/// Calls that wait for a time come back after it, and not long after.
const TIMED: Duration = Duration::from_millis(60);

/// How a run on the engine compares.
#[derive(Debug)]
pub enum Verdict {
    /// As on the kernel, up to the reviewed differences, which are counted by their names.
    Same(Counts),
    /// Two that waited for the same thing got it in another order: what follows does not compare.
    Parted(usize),
    /// Not as on the kernel.
    Differs(Difference),
}

/// What was let pass.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Calls that were repeated because the engine was later than the kernel.
    pub late: u64,
    /// Reviewed differences, by name.
    pub reviewed: BTreeMap<String, u64>,
}

/// A program that runs.
pub struct Run<'a> {
    program: &'a Program,
    halting: Halting<'a>,
    stage: Stage,
    peer: Peer,
    patience: Patience,
    /// Calls that have not returned.
    pending: BTreeSet<usize>,
    counts: Counts,
    given: Vec<Condition>,
}

impl<'a> Run<'a> {
    /// Starts the interpreter and the peer. The calling thread is in the client's network. `engine`: where the program
    /// runs on one.
    pub fn start(
        program: &'a Program,
        setting: &Setting,
        interpreter: lab::Program,
        engine: Option<&'a lab::Process>,
        patience: Patience,
    ) -> Result<Self> {
        Ok(Self {
            program,
            halting: Halting::of(engine),
            peer: Peer::new(setting, program)?,
            stage: Stage::start(setting, interpreter)?,
            patience,
            pending: BTreeSet::new(),
            counts: Counts::default(),
            given: Vec::new(),
        })
    }

    /// Takes all steps on the kernel, and says what happened.
    pub fn record(mut self) -> Result<Transcript> {
        let mut transcript = Vec::new();
        for step in 0..self.program.steps.len() + 2 {
            let mut happened = self.begin(step)?;
            self.settle(step, &mut happened)?;
            transcript.push(happened);
        }
        self.stage.end()?;
        Ok(transcript)
    }

    /// Takes the steps on the engine, as long as they come to the same.
    pub fn compare(
        mut self,
        transcript: &Transcript,
        differences: &Differences,
    ) -> Result<Verdict> {
        for (step, expected) in transcript.iter().enumerate() {
            let before = self.pending.clone();
            let accepts = |step: &usize| {
                let call = self.call_of(*step);
                matches!(
                    call,
                    Some((_, Call::Accept { .. } | Call::AcceptAny { .. }))
                )
            };
            if before.iter().any(accepts) {
                self.given.push(Condition::AcceptHasWaited);
            }
            let failed = |(made, outcome): (&usize, &Outcome)| {
                let call = self.call_of(*made);
                matches!(call, Some((_, Call::Connect { .. })))
                    && matches!(outcome, Outcome::Error(_))
            };
            if expected.returned.iter().any(failed) {
                self.given.push(Condition::ConnectHasFailed);
            }
            if let Some(Step::Signal(..)) = self.program.steps.get(step) {
                self.await_sleep();
            }
            if let (Some(Step::Peer(act)), Some(before)) =
                (self.program.steps.get(step), step.checked_sub(1))
            {
                self.await_arrival(act.connection(), &transcript[before].arrived)?;
            }
            self.halting.begin(self.program.steps.get(step))?;
            let mut happened = self.begin(step)?;
            self.await_same(step, expected, &mut happened, differences)?;
            if let Some(Step::Signal(..)) = self.program.steps.get(step) {
                // What the handler does is done.
                self.await_sleep();
            }
            if happened == *expected {
                self.await_calm();
                continue;
            }
            if is_contest(self.program, &before, expected, &happened)
                || is_other_order(self.program, expected, &happened)
            {
                self.stage.end()?;
                return Ok(Verdict::Parted(step));
            }
            let found = judge::compare(
                self.program,
                step,
                expected,
                &happened,
                differences,
                &self.given,
            );
            match found {
                Ok(names) => {
                    for name in names {
                        *self.counts.reviewed.entry(name).or_default() += 1;
                    }
                }
                Err(mut difference) => {
                    difference.said = self.stage.end()?;
                    return Ok(Verdict::Differs(*difference));
                }
            }
        }
        let counts = std::mem::take(&mut self.counts);
        self.stage.end()?;
        Ok(Verdict::Same(counts))
    }

    fn call_of(&self, step: usize) -> Option<(Actor, &'a Call)> {
        match self.program.steps.get(step) {
            Some(Step::Do(actor, call)) => Some((*actor, call)),
            _ => None,
        }
    }

    /// Begins a step.
    fn begin(&mut self, step: usize) -> Result<Happened> {
        let mut happened = Happened::default();
        match self.program.steps.get(step) {
            Some(Step::Do(actor, call)) => match self.stage.activity(*actor) {
                Activity::Idle if self.stage.is_stopped(*actor) => {
                    happened.skipped = Some("stopped");
                }
                Activity::Idle => {
                    self.pending.insert(step);
                    self.stage.call(*actor, step, call)?;
                }
                Activity::Absent => happened.skipped = Some("absent"),
                Activity::Calling(_) => happened.skipped = Some("in a call"),
                Activity::Gone => happened.skipped = Some("gone"),
            },
            Some(Step::Peer(act)) => self.peer.act(&self.small(act))?,
            Some(Step::Signal(actor, signal)) => match self.stage.activity(*actor) {
                Activity::Absent | Activity::Gone => happened.skipped = Some("gone"),
                _ => self.stage.signal(*actor, *signal)?,
            },
            Some(Step::Engine(_) | Step::Observe) => {}
            None if step == self.program.steps.len() => {}
            None => {
                for actor in 0..crate::program::ACTORS as Actor {
                    self.stage.signal(actor, Signal::Kill)?;
                }
            }
        }
        Ok(happened)
    }

    /// While somebody waits, what arrives is one segment: how many of several he sees at once is
    /// chance.
    fn small(&self, act: &Act) -> Act {
        match act {
            Act::Send(connection, length) if !self.pending.is_empty() => {
                Act::Send(*connection, (*length).min(1000))
            }
            other => other.clone(),
        }
    }

    fn is_look(&self, step: usize) -> bool {
        step >= self.program.steps.len() || self.program.steps[step] == Step::Observe
    }

    /// Takes notice of what comes within a millisecond; whether anything did.
    fn notice(&mut self, happened: &mut Happened) -> Result<bool> {
        let mut any = self.peer.pump();
        for news in self.stage.news(1)? {
            any = true;
            match news {
                News::Came(actor) => {
                    happened.came.insert(actor);
                    // An exec does not return.
                    let own = |step: &usize| matches!(self.call_of(*step), Some((by, Call::Exec)) if by == actor);
                    if let Some(step) = self.pending.iter().copied().find(own) {
                        self.pending.remove(&step);
                    }
                }
                News::Returned(_, step, outcome) => {
                    self.pending.remove(&step);
                    happened.returned.insert(step, outcome);
                }
                News::Died(actors) => {
                    for step in self.pending.clone() {
                        if let Some((by, _)) = self.call_of(step)
                            && actors.contains(&by)
                        {
                            self.pending.remove(&step);
                        }
                    }
                    happened.died.extend(actors);
                }
            }
        }
        Ok(any)
    }

    /// Waits until every actor that is in a call sleeps in it, as it did on the kernel, or for the patience's
    /// limit: a signal that comes before a call has begun does not end it.
    fn await_sleep(&self) {
        let begin = Instant::now();
        let mut looks = 0;
        while looks < self.patience.looks && begin.elapsed() < self.patience.limit {
            std::thread::sleep(Duration::from_millis(1));
            looks = if self.stage.all_asleep() {
                looks + 1
            } else {
                0
            };
        }
    }

    /// Waits until the peer has as much of a connection as it had on the kernel, or for the patience's limit: what
    /// it closes or resets before takes what is on its way with it.
    fn await_arrival(&mut self, connection: Connection, arrived: &Arrived) -> Result<()> {
        let wanted = arrived.0.get(&connection).copied().unwrap_or(0);
        self.halting.ends(self.peer.arrived(connection) < wanted)?;
        let begin = Instant::now();
        while self.peer.arrived(connection) < wanted && begin.elapsed() < self.patience.limit {
            if !self.peer.pump() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Waits until nothing has crossed the wire for a while, or for the patience's limit. A program that writes once
    /// more must have heard of the reset that its last write called for, as on the kernel.
    fn await_calm(&self) {
        let calm = Duration::from_millis(self.patience.calm);
        let begin = Instant::now();
        let mut last = (wire::frames(), begin);
        while last.1.elapsed() < calm && begin.elapsed() < self.patience.limit {
            std::thread::sleep(Duration::from_millis(1));
            let frames = wire::frames();
            if frames != last.0 {
                last = (frames, Instant::now());
            }
        }
    }

    fn settle(&mut self, step: usize, happened: &mut Happened) -> Result<()> {
        let begin = Instant::now();
        let mut looks = 0;
        let mut last = Instant::now();
        while looks < self.patience.looks
            || self.is_look(step) && last.elapsed() < Duration::from_millis(self.patience.quiet)
            || self.is_timed() && last.elapsed() < TIMED
        {
            if self.notice(happened)? {
                last = Instant::now();
                looks = 0;
            } else if self.stage.all_asleep() && self.is_complete(step, happened) {
                looks += 1;
                // A call that has returned moves nothing that its return has not.
                if self.pending.is_empty() && self.call_of(step).is_some() {
                    break;
                }
            } else {
                looks = 0;
            }
            if begin.elapsed() > STANDSTILL {
                bail!("step {step} does not come to an end on the kernel");
            }
        }
        self.look(step, happened);
        Ok(())
    }

    /// Whether what a step sets off in any case has happened.
    fn is_complete(&self, step: usize, happened: &Happened) -> bool {
        if happened.skipped.is_some() {
            return true;
        }
        match self.program.steps.get(step) {
            Some(Step::Do(actor, Call::Fork { child } | Call::Thread { new: child })) => {
                let failed = matches!(happened.returned.get(&step), Some(Outcome::Error(_)));
                failed
                    || self.stage.activity(*actor) == Activity::Gone
                    || happened.came.contains(child)
            }
            Some(Step::Do(actor, Call::Start { .. })) => {
                happened.returned.contains_key(&step)
                    || self.stage.activity(*actor) == Activity::Gone
            }
            Some(Step::Do(actor, Call::Exec)) => {
                happened.came.contains(actor) || happened.returned.contains_key(&step)
            }
            Some(Step::Do(actor, Call::Exit { .. }) | Step::Signal(actor, Signal::Kill)) => {
                happened.died.contains(actor)
            }
            Some(Step::Peer(Act::Connect { .. })) | Some(_) => true,
            None if step == self.program.steps.len() => true,
            None => (0..crate::program::ACTORS as Actor).all(|actor| {
                matches!(
                    self.stage.activity(actor),
                    Activity::Absent | Activity::Gone
                )
            }),
        }
    }

    /// Whether a call waits for a time that will be over.
    fn is_timed(&self) -> bool {
        self.pending.iter().any(|step| {
            let timed = |wait: &Wait| matches!(wait, Wait::Milliseconds(_));
            match self.call_of(*step) {
                Some((_, Call::EpollWait { wait, .. } | Call::Poll { wait, .. })) => timed(wait),
                Some((_, Call::Select { wait, .. })) => timed(wait),
                // A time limit of the socket's may be set.
                Some((_, Call::Receive { .. } | Call::Accept { .. })) => {
                    self.program.sets_timeouts()
                }
                _ => false,
            }
        })
    }

    /// Writes down what is looked at rather than told.
    fn look(&mut self, step: usize, happened: &mut Happened) {
        if let Some(Step::Peer(Act::Connect { connection, .. })) = self.program.steps.get(step) {
            happened.connected = self.peer.state(*connection);
        }
        if self.is_look(step) {
            happened.views = Some(self.peer.views());
        }
        let all = (0..CONNECTIONS as Connection).map(|one| (one, self.peer.arrived(one)));
        happened.arrived = Arrived(all.filter(|(_, bytes)| *bytes > 0).collect());
    }

    /// Waits until what is expected has happened, or something else, or for the patience's limit.
    fn await_same(
        &mut self,
        step: usize,
        expected: &Happened,
        happened: &mut Happened,
        differences: &Differences,
    ) -> Result<()> {
        let mut begin = Instant::now();
        loop {
            let any = self.notice(happened)?;
            self.look(step, happened);
            let is_other = |(step, outcome)| expected.returned.get(step) != Some(outcome);
            let differs = happened.returned.iter().any(is_other);
            if self.halting.ends(differs || begin.elapsed() > STANDS)? {
                begin = Instant::now();
            }
            if begin.elapsed() > self.patience.limit {
                return Ok(());
            }
            if self.retry(expected, happened, differences)? {
                continue;
            }
            if let Some(Step::Peer(act)) = self.program.steps.get(step)
                && expected.connected == Some(State::Refused)
                && self.peer.connect_again(act)?
            {
                std::thread::sleep(Duration::from_millis(1));
                self.counts.late += 1;
                continue;
            }
            let there = expected
                .returned
                .keys()
                .all(|step| happened.returned.contains_key(step))
                && expected.came.is_subset(&happened.came)
                && expected.died.is_subset(&happened.died)
                && expected.connected == happened.connected
                && expected.views == happened.views;
            // Once all is there, one more look for what should not be.
            if there && !any {
                return Ok(());
            }
            let beyond = happened
                .returned
                .keys()
                .any(|step| !expected.returned.contains_key(step));
            // What has not returned with it has some time more: a moment is no hang.
            if beyond && !any && begin.elapsed() > A_MOMENT {
                return Ok(());
            }
        }
    }

    /// Repeats calls that changed nothing, or did a part only, because what they were for had not
    /// arrived yet; whether there was one.
    fn retry(
        &mut self,
        expected: &Happened,
        happened: &mut Happened,
        differences: &Differences,
    ) -> Result<bool> {
        for (step, wanted) in &expected.returned {
            let Some(got) = happened.returned.get(step).cloned() else {
                continue;
            };
            let Some((actor, call)) = self.call_of(*step) else {
                continue;
            };
            if got == *wanted
                || self.stage.activity(actor) != Activity::Idle
                || differences
                    .covers(call, wanted, &got, &self.given)
                    .is_some()
            {
                continue;
            }
            let Some(again) = judge::again(call, wanted, &got) else {
                continue;
            };
            std::thread::sleep(Duration::from_millis(1));
            self.counts.late += 1;
            self.stage.call(actor, *step, &again)?;
            let begin = Instant::now();
            let mut now = Happened::default();
            while !now.returned.contains_key(step) {
                self.notice(&mut now)?;
                if begin.elapsed() > self.patience.limit || !now.died.is_empty() {
                    break;
                }
            }
            let more = now.returned.remove(step);
            happened.returned.extend(now.returned);
            happened.came.extend(now.came);
            happened.died.extend(now.died);
            match more {
                Some(more) => {
                    happened
                        .returned
                        .insert(*step, judge::joined(call, got, more));
                }
                None => {
                    // It waits for more, which does not come.
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(false)
    }
}
