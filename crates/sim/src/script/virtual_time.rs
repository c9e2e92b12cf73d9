//! Our own stack in this process, under virtual time: an hour of silence takes no time at all, and
//! two runs are the same.

use core::time::Duration;

use tcp::Instant;

use super::ast::{Options, Side, Version};
use super::backend::{Backend, Captured, Info};
use super::call::{Also, Call, Outcome, constant};
use super::errno::Errno;
use super::place;
use super::setting::Setting;
use crate::sockets::settings::Set;
use crate::sockets::{Attempt, Fd, Refusal, Sockets};

/// Our stack, as scripts see it.
pub struct Virtual {
    sockets: Sockets,
    version: Version,
    began: Instant,
    pending: Option<Pending>,
    done: Option<(Duration, Outcome)>,
}

/// A call that waits.
struct Pending {
    call: Call,
    data: Vec<u8>,
    /// How much of the data has been taken.
    sent: usize,
    /// When the call gives up by itself.
    deadline: Option<Instant>,
}

impl Virtual {
    /// A fresh stack for a script with these options.
    pub fn new(version: Version, options: &Options) -> Virtual {
        let mut sockets = Sockets::new(vec![place::local(version)], 0x5c21);
        sockets.set_mtu(match version {
            Version::V4 => options.mtu,
            Version::V6 => options.mtu + 20,
        });
        Virtual {
            began: sockets.now(),
            sockets,
            version,
            pending: None,
            done: None,
        }
    }

    fn instant(&self, at: Duration) -> Instant {
        self.began + at
    }

    fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }

    /// Tries once more what waits.
    fn retry(&mut self) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        match self.attempt(&mut pending) {
            Ok(outcome) => self.complete(outcome),
            Err(Refusal::Error(errno)) => self.complete(Outcome::of(Err(errno))),
            Err(Refusal::Wait) => {
                if pending.deadline.is_some_and(|at| at <= self.sockets.now()) {
                    let mut outcome = Outcome::of(Ok(0));
                    if let Call::Poll { fds, .. } = &pending.call {
                        outcome.also = Also::Events(vec![0; fds.len()]);
                    }
                    self.complete(outcome);
                } else {
                    self.pending = Some(pending);
                }
            }
        }
    }

    fn complete(&mut self, outcome: Outcome) {
        self.done = Some((self.since_start(self.sockets.now()), outcome));
    }

    fn attempt(&mut self, pending: &mut Pending) -> Attempt<Outcome> {
        let sockets = &mut self.sockets;
        let v6 = self.version == Version::V6;
        let nothing = Outcome::of(Ok(0));
        match &pending.call {
            Call::Socket { non_blocking } => {
                let fd = sockets.open(v6, *non_blocking);
                Ok(Outcome::of(Ok(fd.0.into())))
            }
            Call::Bind { fd, address } => {
                let address = place::listening(self.version, address.map(|a| a.port));
                sockets.bind(Fd(*fd), address).map(|()| nothing)
            }
            Call::Listen { fd, backlog } => sockets.listen(Fd(*fd), *backlog).map(|()| nothing),
            Call::Accept { fd } => sockets
                .accept(Fd(*fd))
                .map(|(new, _)| Outcome::of(Ok(new.0.into()))),
            Call::Connect { fd, address } => {
                let address = place::service(self.version, address.map(|a| a.port));
                sockets.connect(Fd(*fd), address).map(|()| nothing)
            }
            Call::Receive { fd, count, flags } => {
                let bytes = sockets.receive(Fd(*fd), *count, *flags)?;
                Ok(Outcome {
                    bytes: bytes.clone(),
                    ..Outcome::of(Ok(bytes.len() as i64))
                })
            }
            Call::Send { fd, count, flags } => {
                let blocking = !*sockets.non_blocking(Fd(*fd))?;
                loop {
                    let rest = &pending.data[pending.sent..];
                    match sockets.send(Fd(*fd), rest, *flags) {
                        Ok(taken) => pending.sent += taken,
                        // What was taken is what counts.
                        Err(Refusal::Error(_)) if pending.sent > 0 => break,
                        Err(refusal) => return Err(refusal),
                    }
                    if pending.sent == *count || !blocking {
                        break;
                    }
                }
                Ok(Outcome::of(Ok(pending.sent as i64)))
            }
            Call::Close { fd } => sockets.close(Fd(*fd)).map(|()| nothing),
            Call::Shutdown { fd, how } => sockets.shutdown(Fd(*fd), *how).map(|()| nothing),
            Call::SetOption {
                fd,
                level,
                name,
                value,
            } => sockets
                .set_option(Fd(*fd), *level, *name, value)
                .map(|()| nothing),
            Call::GetOption { fd, level, name } => {
                let value = sockets.option(Fd(*fd), *level, *name)?;
                Ok(Outcome {
                    also: Also::Option(value),
                    ..nothing
                })
            }
            Call::Poll { fds, timeout } => {
                let mut found = Vec::new();
                for &(fd, asked) in fds {
                    let always = (constant::POLLERR | constant::POLLHUP) as i16;
                    found.push(match sockets.events(Fd(fd)) {
                        Ok(events) => events as i16 & (asked | always),
                        Err(_) => constant::POLLNVAL as i16,
                    });
                }
                let ready = found.iter().filter(|events| **events != 0).count();
                if ready == 0 && *timeout != Some(Duration::ZERO) {
                    return Err(Refusal::Wait);
                }
                Ok(Outcome {
                    also: Also::Events(found),
                    ..Outcome::of(Ok(ready as i64))
                })
            }
            Call::Control {
                fd,
                command,
                argument,
            } => {
                let non_blocking = sockets.non_blocking(Fd(*fd))?;
                match *command {
                    constant::F_GETFL => {
                        let flag = if *non_blocking {
                            constant::O_NONBLOCK
                        } else {
                            0
                        };
                        Ok(Outcome::of(Ok((constant::O_RDWR | flag).into())))
                    }
                    constant::F_SETFL => {
                        *non_blocking = argument & constant::O_NONBLOCK != 0;
                        Ok(nothing)
                    }
                    _ => Err(Errno::EINVAL.into()),
                }
            }
        }
    }

    /// Lets time pass until `until`, or until `enough`.
    fn pass(&mut self, until: Instant, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            let deadline = self.pending.as_ref().and_then(|p| p.deadline);
            let limit = deadline.map_or(until, |deadline| deadline.min(until));
            let more = self.sockets.step(limit);
            self.retry();
            if !more && limit == until {
                return;
            }
        }
    }
}

impl Backend for Virtual {
    fn side(&self) -> Side {
        Side::Outboard
    }

    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    fn set(&mut self, setting: &Setting) -> Result<(), String> {
        match self.sockets.set(setting.name, &setting.value) {
            // What our stack cannot be told it does not do either way, or always: the script's
            // expectations say which.
            Set::Done | Set::Unknown => Ok(()),
            Set::Refused(why) => Err(why),
        }
    }

    fn now(&mut self) -> Duration {
        self.since_start(self.sockets.now())
    }

    fn wait_until(&mut self, at: Duration) -> Result<(), String> {
        self.pass(self.instant(at), |_| false);
        Ok(())
    }

    fn inject(&mut self, datagram: &[u8]) -> Result<(), String> {
        self.sockets.deliver(datagram);
        self.retry();
        Ok(())
    }

    fn next_packet(&mut self, until: Duration) -> Result<Option<Captured>, String> {
        self.pass(self.instant(until), |this| this.sockets.has_packet());
        let packet = self.sockets.take_packet();
        Ok(packet.map(|(at, bytes)| Captured {
            at: self.since_start(at),
            bytes,
        }))
    }

    fn begin(&mut self, call: &Call, data: &[u8]) -> Result<(), String> {
        let deadline = match call {
            Call::Poll { timeout, .. } => timeout.map(|span| self.sockets.now() + span),
            _ => None,
        };
        self.done = None;
        self.pending = Some(Pending {
            call: call.clone(),
            data: data.to_vec(),
            sent: 0,
            deadline,
        });
        self.retry();
        Ok(())
    }

    fn finish(&mut self, until: Duration) -> Result<Option<(Duration, Outcome)>, String> {
        self.pass(self.instant(until), |this| this.done.is_some());
        Ok(self.done.take())
    }

    fn info(&mut self, fd: i32) -> Result<Info, String> {
        self.sockets
            .info(Fd(fd))
            .map_err(|refusal| format!("TCP_INFO: {refusal:?}"))
    }
}
