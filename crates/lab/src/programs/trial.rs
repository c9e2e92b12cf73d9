//! One program on one stack: does it serve, rightly, many at once, while it reloads, and does it
//! leave nothing.

use super::apart;
use super::behind::Behind;
use super::clients::{self, Client};
use super::crowd;
use super::exchange::{LARGE, LIMIT, SMALL, content, once};
use super::place::{BEHIND, PORT, Place};
use super::serving::{Reload, Serving};
use super::subject::{Clients, Subject};
use crate::outboard::{Outboard, total};
use crate::world::{Side, World};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the engine may take to have its listener, or to let go of it.
const TAKING: Duration = Duration::from_secs(10);
/// Threads of clients under load.
const LOADERS: usize = 4;
/// Reloads under load.
const RELOADS: u32 = 3;
/// The same on the kernel where the engine's lose clients. What a program loses by itself it loses seldom.
const RELOADS_TO_COMPARE: u32 = 30;
/// How long the load goes on without a reload, to count.
const COUNTING: Duration = Duration::from_secs(2);

/// How a check came out: what there is to say of it, or what went wrong.
pub type Check = Result<String, String>;

/// What a program did.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Whether it started and answered.
    pub starts: Check,
    /// Connections that clients made, and those of them that the engine accepted.
    pub connections: (u64, u64),
    /// Small and large exchanges, byte by byte.
    pub bytes: Check,
    /// Two hundred clients at once.
    pub at_once: Check,
    /// Exchanges while it reloads; none if it cannot.
    pub reload: Option<Check>,
    /// Whether it ends when it is told to, and leaves nothing.
    pub stop: Check,
    /// Exchanges a second.
    pub rate: f64,
    /// What `outboard explain` says where not all was on the engine.
    pub explained: String,
    /// Whether a program that cannot be on the engine is told apart; none if it can.
    pub apart: Option<Check>,
}

/// Tries a program, on the engine of `binary` or, without one, on the kernel.
///
/// # Errors
/// The network or the engine cannot be made. What goes wrong with the program is in the trial.
pub fn run(subject: &Subject, binary: Option<&Path>) -> Result<Trial> {
    staged(subject, binary, |stage| stage.play())
}

/// What becomes of clients on the kernel while a program reloads, if it can, many times more often than in a trial:
/// a program that loses some by itself, in a moment of its own, does not do so in each trial.
///
/// # Errors
/// The network cannot be made, or the program does not start.
pub fn reloads_on_kernel(subject: &Subject) -> Result<Option<Check>> {
    let Some(reload) = subject.reload else {
        return Ok(None);
    };
    staged(subject, None, |stage| {
        let mut serving = stage.start(&(subject.command)(stage.place)?)?;
        let check = stage.reloads(&mut serving, reload, RELOADS_TO_COMPARE);
        serving.stop()?;
        Ok(Some(check))
    })
}

/// Sets a program up on a stack, for this.
fn staged<T>(
    subject: &Subject,
    binary: Option<&Path>,
    play: impl FnOnce(&Stage<'_>) -> Result<T>,
) -> Result<T> {
    let world = World::new()?;
    let (small, large) = (content(SMALL.1), content(LARGE.1));
    let site = world.site(&[(SMALL.0, &small), (LARGE.0, &large)])?;
    // Programs that give their rights away read it too.
    world.open_scratch()?;
    let outboard = binary.map(|binary| Outboard::new(binary, &world));
    let engine = match &outboard {
        Some(outboard) => Some(outboard.start_engine(&world, None)?),
        None => None,
    };
    let directory = world.scratch().join("program");
    std::fs::create_dir(&directory)?;
    let client: IpAddr = Side::Client.ipv4().into();
    let behind = match subject.passes_on {
        true => Some(world.on(Side::Client, || Behind::start(client, BEHIND))?),
        false => None,
    };
    let place = Place {
        program: subject.executable()?,
        directory,
        site,
        behind: behind.as_ref().map_or(client, Behind::ip).to_string(),
    };
    let stage = Stage {
        subject,
        world: &world,
        outboard: outboard.as_ref(),
        place: &place,
    };
    let played = play(&stage);
    drop(engine);
    played
}

struct Stage<'a> {
    subject: &'a Subject,
    world: &'a World,
    outboard: Option<&'a Outboard>,
    place: &'a Place,
}

impl Stage<'_> {
    fn play(&self) -> Result<Trial> {
        let nothing = || Err("not tried".to_owned());
        let mut trial = Trial {
            starts: nothing(),
            connections: (0, 0),
            bytes: nothing(),
            at_once: nothing(),
            reload: None,
            stop: nothing(),
            rate: 0.0,
            explained: String::new(),
            apart: None,
        };
        let started = (self.subject.command)(self.place)
            .and_then(|command| Ok((self.start(&command)?, command)));
        let (mut serving, command) = match started {
            Ok(started) => started,
            Err(error) => {
                trial.starts = Err(format!("{error:#}"));
                return Ok(trial);
            }
        };
        trial.starts = Ok("yes".into());
        let before = (self.made()?, self.accepted());
        let large = (LARGE.0, self.subject.most.unwrap_or(LARGE.1));
        trial.bytes = self.check(|| {
            for _ in 0..20 {
                self.once(SMALL)?;
            }
            for _ in 0..3 {
                self.once(large)?;
            }
            Ok("right".into())
        });
        trial.at_once = self.check(|| self.burst());
        trial.rate = self.rate(&mut trial.at_once);
        if let Some(reload) = self.subject.reload {
            trial.reload = Some(self.reloads(&mut serving, reload, RELOADS));
        }
        let made = self.made()? - before.0;
        trial.connections = (made, self.accepted() - before.1);
        if self.outboard.is_some() && trial.connections.1 < made {
            trial.explained = self.explain(&serving);
        }
        trial.stop = self.stop(&mut serving);
        if let Some(outboard) = self.outboard.filter(|_| self.subject.apart) {
            // It is told once its port is free: what is not refused would begin to serve.
            let told = apart::told(outboard, self.world, &command, &trial.explained);
            trial.apart = Some(told.map_err(|error| format!("{error:#}")));
        }
        Ok(trial)
    }

    fn start(&self, command: &[String]) -> Result<Serving> {
        let wrapped = apart::wrapped(command);
        let command = if self.subject.apart {
            &wrapped
        } else {
            command
        };
        let (program, arguments) = command.split_first().context("no command")?;
        let started = match self.outboard {
            Some(outboard) => outboard.on_engine(self.world, program),
            None => self.world.program(Side::Server, program),
        };
        let mut process = started
            .args(arguments)
            .log(self.world.scratch().join("program.log"))
            .ends_by(Signal::TERM)
            .start()?;
        let serving = match self.subject.reload {
            Some(Reload::Upgrade(file)) => Serving::daemon(process, self.place, file)?,
            _ => {
                process.wait_until(LIMIT, || self.world.is_reached(address()))?;
                Serving::new(process)
            }
        };
        // Where the engine never takes it, that is what the table is to say.
        let begin = Instant::now();
        while !self.subject.apart
            && self.outboard.is_some_and(|outboard| !outboard.takes(PORT))
            && begin.elapsed() < TAKING
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(serving)
    }

    /// Connections that clients have opened, whatever program they are: the kernel at their side counts.
    fn made(&self) -> Result<u64> {
        self.world.on(Side::Client, || {
            let text = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
            counted(&text, "Tcp:", "ActiveOpens").context("the kernel counts no connections")
        })
    }

    /// Connections that the engine has accepted for its hosts.
    fn accepted(&self) -> u64 {
        let counters = self.outboard.and_then(|outboard| outboard.stats().ok());
        counters.map_or(0, |counters| total(&counters, "handed_over") as u64)
    }

    fn explain(&self, serving: &Serving) -> String {
        let Some(outboard) = self.outboard else {
            return String::new();
        };
        let said = outboard
            .command(self.world, "explain")
            .arg(serving.id().to_string())
            .output();
        said.unwrap_or_else(|error| format!("{error:#}"))
    }

    /// Runs a check at the client's side.
    fn check(&self, work: impl FnOnce() -> Result<String> + Send) -> Check {
        self.world
            .on(Side::Client, work)
            .map_err(|error| format!("{error:#}"))
    }

    fn once(&self, what: (&str, usize)) -> Result<()> {
        match self.subject.clients {
            Clients::Speak(protocol) => once(protocol, address(), what),
            Clients::Run(client) => client.once(self.place, what, LIMIT),
        }
    }

    fn burst(&self) -> Result<String> {
        match self.subject.clients {
            Clients::Speak(protocol) => crowd::speak(protocol, address()),
            Clients::Run(client) => match client.at_once {
                Some(line) => clients::said(line, self.place),
                None => crowd::run(client, self.place),
            },
        }
    }

    /// Clients that come one after another, in several threads, while `meanwhile` goes on: how many
    /// were served, how many not, and what went wrong first.
    fn load(&self, meanwhile: impl FnOnce()) -> (u64, u64, Option<String>) {
        let (over, served) = (AtomicBool::new(false), AtomicU64::new(0));
        let wrong = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..LOADERS {
                scope.spawn(|| {
                    let clients = self.world.on(Side::Client, || {
                        while !over.load(Ordering::Relaxed) {
                            match self.once(SMALL) {
                                Ok(()) => {
                                    served.fetch_add(1, Ordering::Relaxed);
                                }
                                Err(error) => {
                                    if let Ok(mut wrong) = wrong.lock() {
                                        wrong.push(format!("{error:#}"));
                                    }
                                }
                            }
                        }
                        Ok(())
                    });
                    // A network that cannot be entered serves nobody, and the count says so.
                    let _ = clients;
                });
            }
            meanwhile();
            over.store(true, Ordering::Relaxed);
        });
        let wrong = wrong.into_inner().unwrap_or_default();
        let first = wrong.first().cloned();
        (served.load(Ordering::Relaxed), wrong.len() as u64, first)
    }

    /// Exchanges a second, or what a client's own measurement says. What goes wrong with that is told
    /// where its clients at once are.
    fn rate(&self, at_once: &mut Check) -> f64 {
        if let Clients::Run(Client {
            rate: Some(line), ..
        }) = self.subject.clients
        {
            let said = self.check(|| clients::said(line, self.place));
            return match said
                .and_then(|said| said.parse().map_err(|_| format!("no number: {said}")))
            {
                Ok(rate) => rate,
                Err(wrong) => {
                    *at_once = Err(format!("a measurement: {wrong}"));
                    0.0
                }
            };
        }
        let begin = Instant::now();
        let (served, _, _) = self.load(|| std::thread::sleep(COUNTING));
        served as f64 / begin.elapsed().as_secs_f64()
    }

    fn reloads(&self, serving: &mut Serving, reload: Reload, times: u32) -> Check {
        let mut reloaded = Ok(());
        let (served, failed, first) = self.load(|| {
            for _ in 0..times {
                std::thread::sleep(Duration::from_millis(700));
                if reloaded.is_ok() {
                    reloaded = serving.reload(reload, self.place);
                }
            }
            std::thread::sleep(Duration::from_millis(700));
        });
        reloaded.map_err(|error| format!("{error:#}"))?;
        // Nobody is left with a process that does not serve any more.
        let after = self.check(|| {
            for _ in 0..10 {
                self.once(SMALL)?;
            }
            Ok(String::new())
        });
        match (first, after) {
            (None, Ok(_)) => Ok(format!("0 of {served} lost")),
            (Some(first), _) => Err(format!("{failed} of {} lost: {first}", served + failed)),
            (None, Err(error)) => Err(format!("afterwards: {error}")),
        }
    }

    fn stop(&self, serving: &mut Serving) -> Check {
        serving.stop().map_err(|error| format!("{error:#}"))?;
        let Some(outboard) = self.outboard else {
            return Ok("ends".into());
        };
        let begin = Instant::now();
        while outboard.takes(PORT) {
            if begin.elapsed() > TAKING {
                return Err("the engine still listens".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok("ends".into())
    }
}

fn address() -> SocketAddr {
    (Side::Server.ipv4(), PORT).into()
}

/// A counter of a protocol in what the kernel says in /proc/net/snmp: a line of names, then one of numbers.
fn counted(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|one| one == name)?;
    numbers.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: MaxConn ActiveOpens PassiveOpens\nTcp: -1 17 4\n";
        assert_eq!(counted(text, "Tcp:", "ActiveOpens"), Some(17));
        assert_eq!(counted(text, "Tcp:", "OutRsts"), None);
        assert_eq!(counted(text, "Udp:", "ActiveOpens"), None);
    }
}
