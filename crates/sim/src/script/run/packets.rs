//! What arrives at the stack, and what is expected to leave it.

use core::time::Duration;

use wire::ip::Ecn;
use wire::tcp::Flags;

use super::Run;
use super::flow::Flow;
use crate::pattern;
use crate::script::ast::{Side, When};
use crate::script::backend::{Backend, Captured};
use crate::script::datagram::{self, Received};
use crate::script::packet::{Body, Icmp, Packet, Segment, TcpOption};
use crate::script::place;

use core::net::SocketAddr;

impl<B: Backend> Run<'_, B> {
    pub(super) fn inject(&mut self, packet: &Packet) -> Result<(), String> {
        let port = packet.port.unwrap_or(self.usual_flow);
        let local_port = self.listening_port;
        let flow = self
            .flows
            .entry(port)
            .or_insert_with(|| Flow::new(local_port));
        let remote = SocketAddr::new(place::remote(self.version), port);
        let local = SocketAddr::new(place::local(self.version), flow.local_port);
        let bytes = match &packet.body {
            Body::Tcp(segment) => {
                let mut wire = flow.for_wire(segment);
                self.cookies.for_wire(&mut wire);
                let mut payload = vec![0; segment.len.into()];
                // A SYN's payload comes after it.
                let first = segment
                    .seq
                    .wrapping_add(u32::from(segment.flags.contains(Flags::SYN)));
                pattern::fill(flow.incoming_address(first), &mut payload);
                let ecn = packet.ecn.unwrap_or(Ecn::NotCapable);
                datagram::segment(remote, local, ecn, &wire, &payload)
            }
            Body::Icmp(icmp) => self.error(icmp, port, local, remote)?,
        };
        let now = self.backend.now();
        self.note(now, &format!("< {packet}"));
        self.backend.inject(&bytes)
    }

    fn error(
        &self,
        icmp: &Icmp,
        port: u16,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Vec<u8>, String> {
        let (seq, len) = icmp.about.unwrap_or((0, 0));
        let seq = self.flows[&port].seq_to_wire(seq);
        datagram::error(
            remote.ip(),
            icmp.says,
            icmp.mtu,
            (local, remote),
            (seq, len),
        )
        .ok_or_else(|| "this version of IP has no such error".into())
    }

    /// `window` is within when it must leave.
    pub(super) fn expect_packet(
        &mut self,
        expected: &Packet,
        window: Option<(Duration, Duration)>,
        when: When,
    ) -> Result<(), String> {
        let now = self.backend.now();
        let patience = window.map_or(now + Duration::from_secs(5), |(_, latest)| latest);
        let Some(captured) = self.next_captured(patience + self.tolerance)? else {
            return Err(format!("nothing left by then; expected > {expected}"));
        };
        let Some(received) = datagram::read(&captured.bytes) else {
            return Err("a datagram left that is no segment, or damaged".into());
        };
        let actual = self.in_script(&received, expected);
        self.note(captured.at, &format!("> {actual}"));
        if let Some((earliest, latest)) = window {
            let early = captured.at + self.tolerance < earliest;
            let late = captured.at > latest + self.tolerance;
            if early || late {
                let word = if early { "early" } else { "late" };
                return Err(format!(
                    "too {word}: left at {:.6}, expected {:.6} to {:.6} ± {:?}",
                    captured.at.as_secs_f64(),
                    earliest.as_secs_f64(),
                    latest.as_secs_f64(),
                    self.tolerance,
                ));
            }
        }
        if let Some(what) = self.difference(expected, &actual) {
            return Err(format!(
                "{what}\n    expected > {expected}\n    actual   > {actual}"
            ));
        }
        self.check_payload(&received, &actual)?;
        match when {
            When::Moment(_) => self.clock.set(self.clock.times(when).0),
            _ => self.clock.set(captured.at),
        }
        Ok(())
    }

    fn next_captured(&mut self, until: Duration) -> Result<Option<Captured>, String> {
        if let Some(captured) = self.captured.pop_front() {
            return Ok(Some(captured));
        }
        self.backend.next_packet(until)
    }

    /// Takes what has left, and fails if some of it left long before `at`: no line expects that.
    pub(super) fn expect_silence(&mut self, at: Duration) -> Result<(), String> {
        let now = self.backend.now();
        while let Some(captured) = self.backend.next_packet(now)? {
            self.captured.push_back(captured);
        }
        let Some(first) = self.captured.front() else {
            return Ok(());
        };
        if first.at.saturating_add(self.tolerance) >= at {
            return Ok(());
        }
        let at = first.at;
        let Some(received) = datagram::read(&first.bytes) else {
            return Err("a datagram left that is no segment, or damaged".into());
        };
        let any = Packet {
            port: None,
            ecn: None,
            tos: None,
            body: Body::Tcp(received.segment.clone()),
        };
        let packet = self.in_script(&received, &any);
        Err(format!(
            "no line expects what left at {:.6}: > {packet}",
            at.as_secs_f64()
        ))
    }

    /// What left, in the numbers of the script.
    fn in_script(&mut self, received: &Received, expected: &Packet) -> Packet {
        let port = received.dst.port();
        let flow = self
            .flows
            .entry(port)
            .or_insert_with(|| Flow::new(received.src.port()));
        if flow.local_port == 0 {
            flow.local_port = received.src.port();
        }
        let segment = match &expected.body {
            Body::Tcp(expected) => {
                let mut segment = flow.for_script(&received.segment, expected);
                self.cookies.for_script(&mut segment, expected);
                segment
            }
            Body::Icmp(_) => received.segment.clone(),
        };
        Packet {
            port: (port != self.usual_flow).then_some(port),
            ecn: Some(received.ecn),
            tos: Some(received.tos),
            body: Body::Tcp(segment),
        }
    }

    /// In what `actual` differs from what was expected, if in anything that was.
    fn difference(&self, expected: &Packet, actual: &Packet) -> Option<&'static str> {
        let (Body::Tcp(want), Body::Tcp(have)) = (&expected.body, &actual.body) else {
            return Some("an ICMP error cannot be expected");
        };
        let port = |packet: &Packet| packet.port.unwrap_or(self.usual_flow);
        if port(expected) != port(actual) {
            return Some("it belongs to another connection");
        }
        if expected.ecn.is_some() && expected.ecn != actual.ecn {
            return Some("its ECN mark is wrong");
        }
        if expected.tos.is_some() && expected.tos != actual.tos {
            return Some("its type of service is wrong");
        }
        // RFC 9293 3.9.1.2 asks for PSH at the end of what was written and leaves the rest to the
        // sender; Linux sets it in other places too.
        let spare = self.backend.side() == Side::Linux && have.len > 0;
        let ignored = if spare && !want.flags.contains(Flags::PSH) {
            Flags::PSH
        } else {
            Flags::NONE
        };
        if want.flags != have.flags.with(ignored, false) {
            return Some("its flags are wrong");
        }
        if (want.seq, want.len) != (have.seq, have.len) {
            return Some("its sequence numbers are wrong");
        }
        if want.ack != have.ack {
            return Some("its acknowledgement number is wrong");
        }
        if want.window.is_some() && want.window != have.window {
            return Some("its window is wrong");
        }
        if want.urgent.is_some() && want.urgent != have.urgent {
            return Some("its urgent pointer is wrong");
        }
        (!self.options_match(want, have)).then_some("its options are wrong")
    }

    fn options_match(&self, want: &Segment, have: &Segment) -> bool {
        let Some(want) = &want.options else {
            return true;
        };
        let have = have.options.as_deref().unwrap_or_default();
        let millis = u32::try_from(self.tolerance.as_millis()).unwrap_or(u32::MAX);
        want.len() == have.len()
            && want.iter().zip(have).all(|pair| match pair {
                (
                    TcpOption::Timestamps { value: a, echo: b },
                    TcpOption::Timestamps { value: c, echo: d },
                ) => b == d && (a.wrapping_sub(*c) as i32).unsigned_abs() <= millis,
                (a, b) => a == b,
            })
    }

    /// What left must be what was written, byte for byte.
    fn check_payload(&mut self, received: &Received, actual: &Packet) -> Result<(), String> {
        let Body::Tcp(segment) = &actual.body else {
            return Ok(());
        };
        let flow = &self.flows[&received.dst.port()];
        let address = flow.outgoing_address(segment.seq);
        match address.map(|address| pattern::first_wrong(address, &received.payload)) {
            Some(Some(at)) => Err(format!("byte {at} of its payload is not what was written")),
            _ => Ok(()),
        }
    }
}
