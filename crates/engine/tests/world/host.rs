//! A process that is attached, which speaks the shared memory by hand.

use std::net::TcpListener;
use std::os::fd::OwnedFd;

use queue_pair::control::Channel;
use queue_pair::{Completion, ConnRef, HostSide, Submission, bells, position, region};

/// An attached process, spoken for by the test.
pub struct Host {
    pub channel: Channel,
    /// The file of the region.
    pub memory: OwnedFd,
    pub region: HostSide,
    pub completions: Vec<Completion>,
    /// The kernel's listening sockets, as a server keeps them.
    pub kernel: Vec<TcpListener>,
    /// By which it rings for the engine, and hears.
    doorbells: Vec<OwnedFd>,
    next_send: u64,
}

impl Host {
    /// By what the engine has given it.
    pub fn of(channel: Channel, memory: OwnedFd, doorbells: Vec<OwnedFd>) -> Self {
        let region = region::attach(&memory).expect("a region");
        Self {
            channel,
            memory,
            region,
            completions: Vec::new(),
            kernel: Vec::new(),
            doorbells,
            next_send: 0,
        }
    }

    /// Submits and publishes.
    pub fn submit(&mut self, submission: Submission) {
        let posted = self.region.submissions.post(&submission);
        assert!(posted.expect("an honest engine"), "room in the ring");
        self.region.submissions.publish();
    }

    /// Rings for the engine, if that is asked for; whether it is.
    pub fn ring(&self) -> bool {
        let asked = self.region.sleepers.take(bells::ALL) != 0;
        if asked {
            rustix::io::write(&self.doorbells[0], &[1]).expect("rung");
        }
        asked
    }

    /// Writes bytes to the send area and submits them.
    pub fn send(&mut self, conn: ConnRef, bytes: &[u8], consumed: u64) {
        let addr = self.next_send;
        self.next_send += bytes.len() as u64;
        self.region.send.copy_in(addr, bytes).expect("inside");
        self.submit(Submission::Send {
            conn,
            addr,
            len: bytes.len() as u32,
            more: false,
            consumed,
        });
    }

    /// As [`send`](Self::send), on a connection that others have, too.
    pub fn send_at(&mut self, conn: ConnRef, bytes: &[u8], at: u64) {
        let addr = self.next_send;
        self.next_send += bytes.len() as u64;
        self.region.send.copy_in(addr, bytes).expect("inside");
        self.submit(Submission::SendAt {
            conn,
            addr,
            len: bytes.len() as u32,
            more: false,
            at,
        });
    }

    /// Takes what the engine has posted.
    pub fn collect(&mut self) {
        while let Some(completion) = self.region.completions.take().expect("honest") {
            self.completions.push(completion);
        }
        self.region.completions.release();
    }

    /// Takes what the engine has posted, and accepts what it offers.
    pub fn collect_and_accept(&mut self) {
        let from = self.completions.len();
        self.collect();
        for completion in &self.completions[from..] {
            if let Completion::Accepted { conn, grant, .. } = completion {
                let word = self.region.positions.word(conn.index).expect("a place");
                position::accept(word, *grant, conn.generation);
            }
        }
    }

    /// The grant under which this process reads a connection, and where it began, as far as it knows.
    pub fn grant(&self, conn: ConnRef) -> Option<(u16, u64)> {
        self.completions.iter().rev().find_map(|it| match it {
            Completion::Granted {
                conn: it,
                grant,
                consumed,
                ..
            } if *it == conn => Some(Some((*grant, *consumed))),
            Completion::Elsewhere { conn: it, .. } if *it == conn => Some(None),
            Completion::Accepted {
                conn: it, grant, ..
            }
            | Completion::Opened {
                conn: it, grant, ..
            } if *it == conn => Some(Some((*grant, 0))),
            _ => None,
        })?
    }

    /// What was pushed under the last grant and lies beyond `skip` bytes of it.
    pub fn pushed(&self, conn: ConnRef) -> Vec<u8> {
        let last = self.completions.iter().rposition(|it| {
            matches!(it, Completion::Granted { conn: it, .. } if *it == conn)
                || matches!(it, Completion::Accepted { conn: it, .. } if *it == conn)
                || matches!(it, Completion::Opened { conn: it, .. } if *it == conn)
        });
        self.bytes_of(&self.completions[last.unwrap_or(0)..], conn)
    }

    /// Reads up to `limit` bytes as an honest process does that has read everything before `at`:
    /// copies, then moves its position on. `None`: it is not the reader any more.
    pub fn read(&mut self, conn: ConnRef, at: u64, limit: usize) -> Option<Vec<u8>> {
        self.collect();
        let (grant, began) = self.grant(conn)?;
        let pushed = self.pushed(conn);
        let mut bytes = pushed.get((at - began) as usize..)?.to_vec();
        bytes.truncate(limit);
        let word = self.region.positions.word(conn.index).expect("a place");
        position::advance(word, grant, at, bytes.len() as u64).then_some(bytes)
    }

    /// What this process was last told of a connection that it does not read: bytes that wait, and
    /// whether the peer has closed.
    pub fn elsewhere(&mut self, conn: ConnRef) -> Option<(u32, bool)> {
        self.collect();
        self.completions.iter().rev().find_map(|it| match it {
            Completion::Elsewhere {
                conn: it,
                unread,
                peer_closed,
                ..
            } if *it == conn => Some((*unread, *peer_closed)),
            _ => None,
        })
    }

    /// The connections that were handed over, in order.
    pub fn accepted(&self) -> Vec<ConnRef> {
        let accepted = |c: &Completion| match c {
            Completion::Accepted { conn, .. } => Some(*conn),
            _ => None,
        };
        self.completions.iter().filter_map(accepted).collect()
    }

    /// The bytes announced on a connection so far.
    pub fn received(&self, conn: ConnRef) -> Vec<u8> {
        self.bytes_of(&self.completions, conn)
    }

    fn bytes_of(&self, completions: &[Completion], conn: ConnRef) -> Vec<u8> {
        let mut bytes = Vec::new();
        for completion in completions {
            let (area, addr, len) = match completion {
                Completion::Update {
                    conn: c, addr, len, ..
                } if *c == conn => (&self.region.receive, *addr, *len),
                Completion::Placed {
                    conn: c, addr, len, ..
                } if *c == conn => (&self.region.send, *addr, *len),
                _ => continue,
            };
            let mut piece = vec![0; len as usize];
            area.copy_out(addr, &mut piece).expect("inside");
            bytes.extend(piece);
        }
        bytes
    }

    /// Closes a connection, whatever has been sent: at position 0.
    pub fn close(&mut self, conn: ConnRef) {
        self.close_at(conn, 0);
    }

    /// As [`close`](Self::close), of a connection that others have, too.
    pub fn close_at(&mut self, conn: ConnRef, at: u64) {
        self.submit(Submission::Close {
            conn,
            abort: false,
            at,
        });
    }

    /// Whether the engine has said that it no longer reads what was sent on a connection.
    pub fn is_released(&self, conn: ConnRef) -> bool {
        self.completions
            .iter()
            .any(|it| matches!(it, Completion::Released { conn: it, .. } if *it == conn))
    }

    /// The errno that a connection failed with.
    pub fn failure(&self, conn: ConnRef) -> Option<u16> {
        self.completions.iter().find_map(|c| match c {
            Completion::Failed { conn: c, errno } if *c == conn => Some(*errno),
            _ => None,
        })
    }

    /// Whether the peer is known to have closed.
    pub fn peer_closed(&self, conn: ConnRef) -> bool {
        self.completions.iter().any(
            |c| matches!(c, Completion::Update { conn: c, peer_closed: true, .. } if *c == conn),
        )
    }
}
