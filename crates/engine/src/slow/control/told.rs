//! What a process has said of its sockets: a line for each that it has, and how many of those that it has
//! closed were the kernel's.

use queue_pair::control::Explanation;

/// Different reasons that are kept of closed sockets.
const REASONS: usize = 16;

/// The lines of one process.
#[derive(Debug, Default)]
pub(super) struct Told {
    lines: Vec<Explanation>,
    /// Closed ones that were the kernel's, by kind and reason. Without them a client that has been refused
    /// a thousand times would seem to have had no socket.
    closed: Vec<(Explanation, u64)>,
}

impl Told {
    /// Keeps a line of the process `pid`; false if it has said as many as are kept.
    pub(super) fn say(&mut self, pid: u32, line: Explanation, most: usize) -> bool {
        // A descriptor is one thing at a time; what has none is known by what is said of it.
        let same = |known: &&mut Explanation| {
            known.fd == line.fd && (known.fd != Explanation::NO_DESCRIPTOR || **known == line)
        };
        if let Some(known) = self.lines.iter_mut().find(same) {
            let past = std::mem::replace(known, line);
            self.keep(past);
            return true;
        }
        if self.lines.len() >= most {
            let shut = |known: &mut Explanation| !is_open(pid, known.fd);
            let past: Vec<Explanation> = self.lines.extract_if(.., shut).collect();
            past.into_iter().for_each(|past| self.keep(past));
        }
        if self.lines.len() >= most {
            return false;
        }
        self.lines.push(line);
        true
    }

    /// Counts a line that holds no more, if it told of a socket that was the kernel's until it was closed: a
    /// listener may have become the engine's.
    fn keep(&mut self, past: Explanation) {
        if past.fd == Explanation::NO_DESCRIPTOR || past.reason.is_empty() || is_listener(&past) {
            return;
        }
        let same = |(known, _): &(Explanation, u64)| {
            (&known.kind, &known.reason) == (&past.kind, &past.reason)
        };
        if let Some(at) = self.closed.iter().position(same) {
            self.closed[at].1 += 1;
        } else if self.closed.len() < REASONS {
            self.closed.push((past, 1));
        }
    }

    /// What holds of the process `pid`, and then what was.
    pub(super) fn lines(&self, pid: u32) -> Vec<Explanation> {
        let mut now = Self {
            lines: self.lines.clone(),
            closed: self.closed.clone(),
        };
        let shut = |known: &mut Explanation| !is_open(pid, known.fd);
        let past: Vec<Explanation> = now.lines.extract_if(.., shut).collect();
        past.into_iter().for_each(|past| now.keep(past));
        let closed = now.closed.into_iter().map(|(line, count)| Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: match count {
                1 => format!("1 {}, closed", line.kind),
                _ => format!("{count} {}s, closed", line.kind),
            },
            ..line
        });
        now.lines.into_iter().chain(closed).collect()
    }
}

fn is_listener(line: &Explanation) -> bool {
    line.kind.starts_with("listener")
}

/// Whether a process still has a descriptor, as far as the engine may look.
fn is_open(pid: u32, fd: i32) -> bool {
    if fd < 0 {
        return true;
    }
    let at = |what: &str| std::fs::symlink_metadata(format!("/proc/{pid}/fd{what}"));
    let gone =
        at(&format!("/{fd}")).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    !(gone && at("").is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    fn line(fd: i32, kind: &str, reason: &str) -> Explanation {
        Explanation {
            fd,
            kind: kind.into(),
            reason: reason.into(),
            detail: String::new(),
        }
    }

    /// A descriptor of this process, and its number.
    fn open() -> (File, i32) {
        let file = File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd();
        (file, fd)
    }

    /// A number that no descriptor of this process has.
    const SHUT: i32 = 1_000_000;

    #[test]
    fn of_a_descriptor_the_last_line_holds_and_the_kernels_past_ones_are_counted() {
        let pid = std::process::id();
        let mut told = Told::default();
        let (_file, fd) = open();
        for reason in ["no port", "no port", "no port", "", "no route", ""] {
            assert!(told.say(pid, line(fd, "connection", reason), 8));
        }
        let expected = [
            line(fd, "connection", ""),
            line(-1, "3 connections, closed", "no port"),
            line(-1, "1 connection, closed", "no route"),
        ];
        assert_eq!(told.lines(pid), expected);
    }

    #[test]
    fn what_is_closed_is_counted_once_and_makes_room() {
        let pid = std::process::id();
        let mut told = Told::default();
        let (_file, fd) = open();
        assert!(told.say(pid, line(SHUT, "connection", "no port"), 2));
        assert!(told.say(pid, line(SHUT + 1, "connection", ""), 2));
        let closed = [line(-1, "1 connection, closed", "no port")];
        assert_eq!(told.lines(pid), closed);
        assert_eq!(told.lines(pid), closed);
        assert!(told.say(pid, line(fd, "connection", "no port"), 2));
        assert!(told.say(pid, line(-1, "call", "no"), 2));
        assert!(!told.say(pid, line(-1, "call", "not that either"), 2));
        let expected = [
            line(fd, "connection", "no port"),
            line(-1, "call", "no"),
            line(-1, "1 connection, closed", "no port"),
        ];
        assert_eq!(told.lines(pid), expected);
    }

    #[test]
    fn a_listener_that_became_the_engines_was_not_closed() {
        let pid = std::process::id();
        let mut told = Told::default();
        let (_file, fd) = open();
        told.say(pid, line(fd, "listener 10.0.0.1:80", "no engine"), 2);
        told.say(pid, line(fd, "listener 10.0.0.1:80", ""), 2);
        assert_eq!(told.lines(pid), [line(fd, "listener 10.0.0.1:80", "")]);
    }

    #[test]
    fn of_reasons_the_first_are_kept() {
        let pid = std::process::id();
        let mut told = Told::default();
        for reason in 0..2 * REASONS {
            told.say(pid, line(SHUT, "connection", &reason.to_string()), 2);
        }
        assert_eq!(told.lines(pid).len(), REASONS);
    }
}
