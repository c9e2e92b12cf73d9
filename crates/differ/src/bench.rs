//! Where programs are run: two private networks, one without an engine and one with.

use crate::happened::Transcript;
use crate::judge::{Difference, Differences, Kind};
use crate::peer::{Peer, State};
use crate::program::{Family, Peer as Act, Program};
use crate::run::{Counts, Patience, Run, Verdict};
use crate::setting::Setting;
use anyhow::{Context, Result};
use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What there is to run.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `outboard`.
    pub outboard: PathBuf,
    /// The interpreter.
    pub actor: PathBuf,
}

/// What a program came to.
#[derive(Debug)]
pub enum Outcome {
    /// The engine did as the kernel did.
    Same(Counts),
    /// So far as it can be compared.
    Parted,
    /// The kernel itself does now this, now that.
    Unsteady,
    /// It differed, and did not when it was tried again.
    Once(Difference),
    /// It differs.
    Differs(Difference),
}

/// How often what differs is tried again before it is believed.
const TRIES: usize = 3;
/// How often the kernel must do the same before a difference is the engine's: whom of three that wait in read
/// the next byte wakes is chance.
const STEADY: usize = 6;
/// Programs for which one engine serves: what is left by one may show in a later one.
const PROGRAMS_PER_ENGINE: u32 = 200;

/// The two networks, and an engine in the second.
pub struct Bench {
    binaries: Binaries,
    differences: Differences,
    kernel: World,
    world: World,
    outboard: Outboard,
    engine: Option<Process>,
    served: u32,
    runs: u16,
    offloaded: f64,
}

impl Bench {
    /// Makes the networks. Needs root.
    pub fn new(binaries: Binaries) -> Result<Self> {
        let world = World::new()?;
        let outboard = Outboard::new(&binaries.outboard, &world);
        Ok(Self {
            binaries,
            differences: Differences::read()?,
            kernel: World::new()?,
            world,
            outboard,
            engine: None,
            served: 0,
            runs: 0,
            offloaded: 0.0,
        })
    }

    /// Runs a program on both, and again if they differ.
    pub fn run(&mut self, program: &Program) -> Result<Outcome> {
        let transcript = self.record(program, Patience::QUICK)?;
        let first = match self.compare(program, &transcript, Patience::QUICK)? {
            Verdict::Same(counts) => return Ok(Outcome::Same(counts)),
            Verdict::Parted(_) => return Ok(Outcome::Parted),
            Verdict::Differs(difference) => difference,
        };
        let transcript = self.record(program, Patience::SURE)?;
        if !self.is_steady(program, &transcript, 1)? {
            return Ok(Outcome::Unsteady);
        }
        for _ in 0..TRIES {
            match self.compare(program, &transcript, Patience::SURE)? {
                Verdict::Differs(_) if !self.is_steady(program, &transcript, STEADY)? => {
                    return Ok(Outcome::Unsteady);
                }
                Verdict::Differs(difference) => return Ok(Outcome::Differs(difference)),
                Verdict::Parted(_) => return Ok(Outcome::Parted),
                Verdict::Same(_) => {}
            }
        }
        Ok(Outcome::Once(first))
    }

    /// Whether the kernel does the same so many times more.
    fn is_steady(&mut self, program: &Program, before: &Transcript, times: usize) -> Result<bool> {
        for _ in 0..times {
            if self.record(program, Patience::SURE)? != *before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a program on both once: how it differs, if it does.
    pub fn difference(&mut self, program: &Program) -> Result<Option<Difference>> {
        let transcript = self.record(program, Patience::QUICK)?;
        Ok(match self.compare(program, &transcript, Patience::QUICK)? {
            Verdict::Differs(difference) => Some(difference),
            Verdict::Same(_) | Verdict::Parted(_) => None,
        })
    }

    /// Connections that engines have carried so far: without any, nothing was compared.
    pub fn offloaded(&self) -> f64 {
        self.offloaded + self.carried()
    }

    fn carried(&self) -> f64 {
        match (&self.engine, self.outboard.stats()) {
            (Some(_), Ok(counters)) => {
                total(&counters, "handed_over") + total(&counters, "tcp_active_opens")
            }
            _ => 0.0,
        }
    }

    /// What the kernel does.
    pub fn record(&mut self, program: &Program, patience: Patience) -> Result<Transcript> {
        let setting = self.setting(&self.kernel.scratch().join("control"));
        let log = self.kernel.scratch().join("program.log");
        let interpreter = self
            .kernel
            .program(Side::Server, &self.binaries.actor)
            .log(log);
        self.runs += 1;
        self.kernel.on(Side::Client, || {
            Run::start(program, &setting, interpreter, None, patience)?.record()
        })
    }

    /// Whether the engine does the same. Whatever differs, the engine is then started anew.
    fn compare(
        &mut self,
        program: &Program,
        transcript: &Transcript,
        patience: Patience,
    ) -> Result<Verdict> {
        self.have_engine()?;
        let setting = self.setting(&self.world.scratch().join("control"));
        let log = self.world.scratch().join("program.log");
        let interpreter = self
            .outboard
            .on_engine(&self.world, &self.binaries.actor)
            .log(log);
        self.runs += 1;
        let engine = self.engine.as_ref();
        let verdict = self.world.on(Side::Client, || {
            Run::start(program, &setting, interpreter, engine, patience)?
                .compare(transcript, &self.differences)
        })?;
        self.served += 1;
        let verdict = match verdict {
            Verdict::Differs(difference) => Verdict::Differs(difference),
            good => match self.trouble(program, &setting, patience.limit * 2)? {
                Some(difference) => Verdict::Differs(difference),
                None => good,
            },
        };
        if matches!(verdict, Verdict::Differs(_)) || self.served >= PROGRAMS_PER_ENGINE {
            self.offloaded += self.carried();
            self.engine = None;
        }
        Ok(verdict)
    }

    fn have_engine(&mut self) -> Result<()> {
        if self.engine.is_none() {
            self.engine = Some(self.outboard.start_engine(&self.world, None)?);
            self.served = 0;
        }
        Ok(())
    }

    /// Ports of its own for every run, so that none is in the way of another.
    fn setting(&self, control: &Path) -> Setting {
        let run = self.runs;
        Setting {
            control: control.to_string_lossy().into_owned(),
            here: (Side::Server.ipv4(), Side::Server.ipv6()),
            there: (Side::Client.ipv4(), Side::Client.ipv6()),
            own_ports: 10_000 + run % 2500 * 8,
            peer_ports: 10_000 + run % 1600 * 12,
        }
    }

    /// What is wrong after a program's end: an engine that has ended, listeners and connections
    /// that nobody has any more, ports at which there is silence.
    fn trouble(
        &mut self,
        program: &Program,
        setting: &Setting,
        limit: Duration,
    ) -> Result<Option<Difference>> {
        let difference = |kind, text| {
            Ok(Some(Difference {
                step: program.steps.len() + 2,
                kind,
                text,
                said: String::new(),
            }))
        };
        let engine = self.engine.as_mut().context("an engine")?;
        if let Some(status) = engine.ended()? {
            let text = format!("the engine ended ({status}): {}", engine.printed());
            return difference(Kind::Engine, text);
        }
        let begin = Instant::now();
        loop {
            let left: Vec<String> = self
                .outboard
                .sockets()?
                .iter()
                .filter(|row| row["state"] != "TIME-WAIT" && row["state"] != "SYN-RECEIVED")
                .map(ToString::to_string)
                .collect();
            if left.is_empty() {
                break;
            }
            if begin.elapsed() > limit {
                let text = format!("the engine keeps {}", left.join("\n  "));
                return difference(Kind::Left, text);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        match self.silent_port(program, setting, limit)? {
            Some(port) => difference(
                Kind::Left,
                format!("own port {port} is silent after the program's end"),
            ),
            None => Ok(None),
        }
    }

    /// A port of the program's where a client is neither refused nor served.
    fn silent_port(
        &self,
        program: &Program,
        setting: &Setting,
        limit: Duration,
    ) -> Result<Option<u8>> {
        let ports = program.listens_at();
        if ports.is_empty() {
            return Ok(None);
        }
        // Port numbers that the program's peer did not use.
        let mut setting = setting.clone();
        setting.peer_ports += 20_000;
        self.world.on(Side::Client, || {
            let mut peer = Peer::new(&setting, &Program::default())?;
            for (&port, connection) in ports.iter().zip(0..) {
                let family = Family::V4;
                peer.act(&Act::Connect {
                    connection,
                    port,
                    family,
                })?;
            }
            let begin = Instant::now();
            loop {
                peer.pump();
                let silent =
                    (0..ports.len()).find(|&index| peer.state(index as u8) == Some(State::Awaited));
                match silent {
                    None => return Ok(None),
                    Some(index) if begin.elapsed() > limit => return Ok(Some(ports[index])),
                    Some(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        })
    }
}
