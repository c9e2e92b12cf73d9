//! What went over the links, as lines to read: for tests that are packet traces, and for the end of
//! a run that failed.

use core::fmt;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::net::IpAddr;

use tcp::Instant;
use wire::flow::FlowKey;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Repr};

use crate::link::Fate;

/// How many segments are kept unless a test asks for all.
const KEPT: usize = 60;

/// One segment, when it was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// The name of the host that sent it.
    pub from: &'static str,
    /// Its header.
    pub tcp: Repr,
    /// The length of its payload.
    pub payload_len: usize,
    /// What became of it.
    pub fate: Fate,
    /// Where the sender's numbers begin, if its SYN was seen; else zero.
    seq_origin: SeqNumber,
    /// Likewise the receiver's.
    ack_origin: SeqNumber,
}

/// As tcpdump has it, numbers relative to their SYN: `0.010000 client S 0:0(0) win 65535`.
impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sent {
            at,
            from,
            tcp,
            payload_len,
            ..
        } = self;
        let seq = tcp.seq.distance_from(self.seq_origin);
        write!(
            f,
            "{at} {from} {} {seq}:{}({payload_len})",
            tcp.flags,
            seq + *payload_len as i32
        )?;
        if let Some(ack) = tcp.ack {
            write!(f, " ack {}", ack.distance_from(self.ack_origin))?;
        }
        write!(f, " win {}", tcp.window)?;
        for block in tcp.options.sack.as_slice() {
            let edge = |seq: SeqNumber| seq.distance_from(self.ack_origin);
            write!(f, " sack {}:{}", edge(block.left), edge(block.right))?;
        }
        if self.fate != Fate::Passed {
            write!(f, " ({:?})", self.fate)?;
        }
        Ok(())
    }
}

/// The segments that were sent, the last of them or all.
#[derive(Debug, Default)]
pub struct Trace {
    sent: VecDeque<Sent>,
    keep_all: bool,
    origins: BTreeMap<(IpAddr, u16, IpAddr, u16), SeqNumber>,
}

impl Trace {
    /// From now on, keeps all.
    pub(crate) fn keep_all(&mut self) {
        self.keep_all = true;
        self.sent.clear();
    }

    /// Notes a segment of `flow`, as its sender names it.
    pub(crate) fn note(
        &mut self,
        at: Instant,
        from: &'static str,
        flow: FlowKey,
        tcp: Repr,
        payload_len: usize,
        fate: Fate,
    ) {
        let key = |flow: FlowKey| (flow.local, flow.local_port, flow.remote, flow.remote_port);
        if tcp.flags.contains(Flags::SYN) {
            self.origins.insert(key(flow), tcp.seq);
        }
        let origin = |flow| self.origins.get(&key(flow)).copied().unwrap_or_default();
        let (seq_origin, ack_origin) = (origin(flow), origin(flow.reversed()));
        if !self.keep_all && self.sent.len() == KEPT {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            at,
            from,
            tcp,
            payload_len,
            fate,
            seq_origin,
            ack_origin,
        });
    }

    /// What was kept.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Sent> {
        self.sent.iter()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sent.iter().try_for_each(|sent| writeln!(f, "{sent}"))
    }
}
