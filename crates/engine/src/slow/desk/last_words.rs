//! What processes said before they became programs that the interposed library is not in, and of such
//! programs that they have started. Nobody there has a control connection, or the right to the one that its
//! predecessor had, so what was said goes by the process.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use queue_pair::control::Explanation;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::Desk;
use super::requests::shortened;

/// Processes that are remembered.
const PROCESSES: usize = 64;
/// Lines of one process that are kept, and taken from one message.
const LINES: usize = 16;
/// Lines that were logged, and are not logged again.
const LOGGED: usize = 256;

/// What was said, by whom.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    said: VecDeque<Said>,
    logged: VecDeque<String>,
}

#[derive(Debug)]
struct Said {
    pid: u32,
    /// Readable when it has ended.
    pidfd: OwnedFd,
    lines: Vec<Explanation>,
}

impl Said {
    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())) == Ok(1)
    }
}

impl LastWords {
    /// Keeps what a process has said.
    fn remember(&mut self, pid: u32, pidfd: OwnedFd, lines: Vec<Explanation>) {
        self.said.retain(|said| !said.has_ended());
        let known = self.said.iter().position(|said| said.pid == pid);
        let mut said = known.and_then(|at| self.said.remove(at)).unwrap_or(Said {
            pid,
            pidfd,
            lines: Vec::new(),
        });
        if lines.iter().any(|line| line.kind == Explanation::EXECUTED) {
            // What it was, it is not any more.
            said.lines.clear();
        }
        for line in lines {
            if said.lines.len() < LINES && !said.lines.contains(&line) {
                said.lines.push(line);
            }
        }
        if self.said.len() == PROCESSES {
            self.said.pop_front();
        }
        self.said.push_back(said);
    }

    /// A process has attached: it is not what it said that it would be.
    pub(super) fn attached(&mut self, pid: u32) {
        if let Some(said) = self.said.iter_mut().find(|said| said.pid == pid) {
            let of_itself = |line: &Explanation| line.kind == Explanation::EXECUTED;
            if said.lines.iter().any(of_itself) {
                said.lines.clear();
            }
        }
    }

    /// What there is to say of a process.
    pub(super) fn explain(&self, pid: u32) -> &[Explanation] {
        let mut said = self.said.iter();
        match said.find(|said| said.pid == pid && !said.has_ended()) {
            Some(said) => &said.lines,
            None => &[],
        }
    }

    /// Whether this is to be logged: it is new.
    fn is_news(&mut self, line: &str) -> bool {
        if self.logged.iter().any(|known| known == line) {
            return false;
        }
        if self.logged.len() == LOGGED {
            self.logged.pop_front();
        }
        self.logged.push_back(line.to_owned());
        true
    }
}

impl Desk {
    /// A connection has said what is true once it is closed.
    pub(super) fn last_words(&mut self, slot: u32, mut lines: Vec<Explanation>) {
        lines.truncate(LINES);
        let lines = lines.into_iter().map(|line| Explanation {
            fd: line.fd,
            kind: shortened(line.kind),
            reason: shortened(line.reason),
            detail: String::new(),
        });
        if let Some(client) = self.control.client(slot) {
            client.last_words = lines.collect();
        }
    }

    /// It is closed.
    pub(super) fn hear_last_words(&mut self, slot: u32) {
        let Some(client) = self.control.client(slot) else {
            return;
        };
        let pid = client.pid;
        let lines = std::mem::take(&mut client.last_words);
        if lines.is_empty() {
            return;
        }
        for line in &lines {
            if line.fd == Explanation::NO_DESCRIPTOR && self.last_words.is_news(&line.reason) {
                let why = &line.reason;
                tracing::warn!(pid, %why, "a program is left to the kernel");
            }
        }
        // One that has ended meanwhile needs no memory.
        if let Ok(pidfd) = self.process_descriptor(slot, pid) {
            self.last_words.remember(pid, pidfd, lines);
        }
    }
}
