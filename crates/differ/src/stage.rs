//! The processes and threads of a running program, as seen from outside: who is there, who is in a
//! call, who sleeps in it, who has died.

use crate::outcome::{Outcome, Reply};
use crate::program::{ACTORS, Actor, Call, Signal};
use crate::setting::{MESSAGE, Setting};
use anyhow::{Context, Result, bail};
use lab::{Process, Program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags};
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};
use std::time::{Duration, Instant};

/// How long a program may take to begin, on however busy a machine.
const STARTING: Duration = Duration::from_secs(60);

/// What an actor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// There is none of that name yet.
    Absent,
    /// It waits for a call to make.
    Idle,
    /// It is in the call of a step.
    Calling(usize),
    /// Its process is no more, or it was a thread before an exec.
    Gone,
}

#[derive(Clone, Copy)]
struct Player {
    activity: Activity,
    process: Pid,
    thread: i32,
}

struct Ours {
    pid: Pid,
    /// Readable when the process has ended.
    handle: OwnedFd,
    alive: bool,
    stopped: bool,
}

/// Something that came from the program.
pub enum News {
    /// An actor has come.
    Came(Actor),
    /// The call of a step has returned.
    Returned(Actor, usize, Outcome),
    /// A process has died, and with it these.
    Died(Vec<Actor>),
}

/// A running program.
pub struct Stage {
    lines: Vec<OwnedFd>,
    players: [Player; ACTORS],
    processes: Vec<Ours>,
    root: Process,
}

impl Stage {
    /// Starts `program`, the interpreter, and waits until its first actor is there.
    pub fn start(setting: &Setting, program: Program) -> Result<Self> {
        let _ = std::fs::remove_file(&setting.control);
        let door = net::socket_with(
            AddressFamily::UNIX,
            net::SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        net::bind(&door, &SocketAddrUnix::new(setting.control.as_str())?)?;
        net::listen(&door, ACTORS as i32)?;
        let mut root = program.arg(serde_json::to_string(setting)?).start()?;
        let pid = Pid::from_raw(root.id().cast_signed()).context("no process id")?;
        let mut lines = Vec::new();
        while lines.len() < ACTORS {
            let mut ready = false;
            root.wait_until(STARTING, || {
                let mut door = [PollFd::new(&door, PollFlags::IN)];
                ready = poll(&mut door, Some(&milliseconds(5))).is_ok_and(|found| found > 0);
                ready
            })?;
            lines.push(net::accept_with(&door, SocketFlags::CLOEXEC)?);
        }
        let nobody = Player {
            activity: Activity::Absent,
            process: pid,
            thread: 0,
        };
        let mut stage = Self {
            lines,
            players: [nobody; ACTORS],
            processes: Vec::new(),
            root,
        };
        let begin = Instant::now();
        while stage.players[0].activity == Activity::Absent {
            stage.news(5)?;
            if begin.elapsed() > STARTING {
                bail!("the program does not begin: {}", stage.root.printed());
            }
        }
        Ok(stage)
    }

    /// What an actor does.
    pub fn activity(&self, actor: Actor) -> Activity {
        self.players
            .get(usize::from(actor))
            .map_or(Activity::Absent, |player| player.activity)
    }

    /// Whether its process is stopped.
    pub fn is_stopped(&self, actor: Actor) -> bool {
        let pid = self.players[usize::from(actor)].process;
        self.processes
            .iter()
            .any(|process| process.pid == pid && process.stopped)
    }

    /// Has an actor make a call.
    pub fn call(&mut self, actor: Actor, step: usize, call: &Call) -> Result<()> {
        let message = serde_json::to_vec(&(step, call))?;
        self.players[usize::from(actor)].activity = Activity::Calling(step);
        // A process that has just died does not listen; its death is news to come.
        let _ = net::send(
            &self.lines[usize::from(actor)],
            &message,
            SendFlags::NOSIGNAL,
        );
        Ok(())
    }

    /// Sends a signal to an actor's process.
    pub fn signal(&mut self, actor: Actor, signal: Signal) -> Result<()> {
        use rustix::process::Signal as Kernel;
        let pid = self.players[usize::from(actor)].process;
        let Some(process) = self
            .processes
            .iter_mut()
            .find(|process| process.pid == pid && process.alive)
        else {
            return Ok(());
        };
        let number = match signal {
            Signal::Stop => Kernel::STOP,
            Signal::Continue => Kernel::CONT,
            Signal::Kill => Kernel::KILL,
            Signal::Interrupt => Kernel::USR1,
        };
        kill_process(pid, number)?;
        match signal {
            Signal::Stop => process.stopped = true,
            Signal::Continue => process.stopped = false,
            Signal::Kill | Signal::Interrupt => {}
        }
        Ok(())
    }

    /// Waits at most so long for news, and returns what there is.
    pub fn news(&mut self, most: u64) -> Result<Vec<News>> {
        let alive: Vec<usize> = (0..self.processes.len())
            .filter(|&index| self.processes[index].alive)
            .collect();
        let mut watched: Vec<PollFd<'_>> = self
            .lines
            .iter()
            .map(|line| PollFd::new(line, PollFlags::IN))
            .collect();
        for &index in &alive {
            watched.push(PollFd::new(&self.processes[index].handle, PollFlags::IN));
        }
        poll(&mut watched, Some(&milliseconds(most)))?;
        let said: Vec<usize> = (0..ACTORS)
            .filter(|&actor| watched[actor].revents().contains(PollFlags::IN))
            .collect();
        let ended: Vec<usize> = alive
            .iter()
            .zip(&watched[ACTORS..])
            .filter(|(_, handle)| handle.revents().contains(PollFlags::IN))
            .map(|(index, _)| *index)
            .collect();
        drop(watched);
        let mut news = Vec::new();
        for actor in said {
            news.extend(self.read(actor)?);
        }
        for index in ended {
            news.push(self.died(index));
        }
        Ok(news)
    }

    fn read(&mut self, actor: usize) -> Result<Option<News>> {
        let mut buffer = vec![0; MESSAGE];
        let line = self.lines[actor].as_fd();
        let (read, _) = match net::recv(line, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok(read) => read,
            Err(_) => return Ok(None),
        };
        if read == 0 {
            return Ok(None);
        }
        let name = actor as Actor;
        Ok(match serde_json::from_slice(&buffer[..read])? {
            Reply::Here(process, thread) => {
                self.welcome(actor, process, thread)?;
                Some(News::Came(name))
            }
            Reply::Returned(outcome) => match self.players[actor].activity {
                Activity::Calling(step) => {
                    self.players[actor].activity = Activity::Idle;
                    Some(News::Returned(name, step, outcome))
                }
                _ => None,
            },
        })
    }

    fn welcome(&mut self, actor: usize, process: i32, thread: i32) -> Result<()> {
        let pid = Pid::from_raw(process).context("no process id")?;
        if !self.processes.iter().any(|known| known.pid == pid) {
            self.processes.push(Ours {
                pid,
                handle: pidfd_open(pid, PidfdFlags::empty())?,
                alive: true,
                stopped: false,
            });
        }
        // An exec ends the other threads.
        let after_exec = matches!(self.players[actor].activity, Activity::Calling(_));
        for (other, player) in self.players.iter_mut().enumerate() {
            if after_exec && other != actor && player.process == pid {
                player.activity = match player.activity {
                    Activity::Absent => Activity::Absent,
                    _ => Activity::Gone,
                };
            }
        }
        self.players[actor] = Player {
            activity: Activity::Idle,
            process: pid,
            thread,
        };
        Ok(())
    }

    fn died(&mut self, index: usize) -> News {
        let process = &mut self.processes[index];
        process.alive = false;
        let pid = process.pid;
        let mut gone = Vec::new();
        for (actor, player) in self.players.iter_mut().enumerate() {
            let there = matches!(player.activity, Activity::Idle | Activity::Calling(_));
            if there && player.process == pid {
                player.activity = Activity::Gone;
                gone.push(actor as Actor);
            }
        }
        News::Died(gone)
    }

    /// Whether every actor sleeps, in its call or waiting for one, or is stopped. A handler may run in any of them.
    pub fn all_asleep(&self) -> bool {
        let is_there =
            |player: &&Player| matches!(player.activity, Activity::Calling(_) | Activity::Idle);
        self.players.iter().filter(is_there).all(|player| {
            let pid = player.process.as_raw_nonzero();
            let path = format!("/proc/{pid}/task/{}/stat", player.thread);
            let Ok(stat) = std::fs::read_to_string(path) else {
                return true;
            };
            // The name before it may hold anything, a parenthesis too.
            let state = stat
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.chars().next());
            matches!(state, Some('S' | 'T' | 't'))
        })
    }

    /// Ends every process, and waits for that.
    pub fn end(mut self) -> Result<String> {
        for process in &self.processes {
            if process.alive {
                let _ = kill_process(process.pid, rustix::process::Signal::KILL);
            }
        }
        let begin = Instant::now();
        while self.processes.iter().any(|process| process.alive) {
            self.news(5)?;
            if begin.elapsed() > STARTING {
                bail!("a killed process does not end");
            }
        }
        Ok(self.root.printed())
    }
}

fn milliseconds(time: u64) -> Timespec {
    Timespec {
        tv_sec: (time / 1000) as i64,
        tv_nsec: (time % 1000 * 1_000_000) as i64,
    }
}
