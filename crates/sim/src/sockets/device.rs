//! Datagrams in and out, and the bytes that wait to be acknowledged.

use std::collections::{HashMap, VecDeque};

use tcp::{ConnId, FrameSink, Instant, Outgoing, SinkFull, Stack};
use wire::checksum::Sum;
use wire::ethernet::HEADER_LEN;
use wire::icmp;
use wire::segment::{self, ChecksumPolicy, Headers, Link, MAX_HEADERS_LEN, TcpChecksum};

use crate::memory::Memory;
use crate::offers::Offers;

/// What has left and was not taken yet, and what may have to leave again.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    packets: VecDeque<(Instant, Vec<u8>)>,
    streams: HashMap<ConnId, Stream>,
    /// The DSCP of connections whose programs have chosen one.
    classes: HashMap<ConnId, u8>,
    /// What the stack has promised its peers.
    offers: Offers,
}

/// What a connection has been given to send and the peer has not acknowledged.
#[derive(Debug, Default)]
struct Stream {
    /// Where in the stream the bytes begin.
    start: u64,
    bytes: VecDeque<u8>,
}

impl Outbox {
    pub(super) fn take(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.packets.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Keeps bytes until they are acknowledged; returns their place in the stream, which is also
    /// their address.
    pub(super) fn keep(&mut self, conn: ConnId, bytes: &[u8]) -> u64 {
        let stream = self.streams.entry(conn).or_default();
        let at = stream.start + stream.bytes.len() as u64;
        stream.bytes.extend(bytes);
        at
    }

    /// Takes back the last bytes that were kept: the stack did not want them.
    pub(super) fn take_back(&mut self, conn: ConnId, count: usize) {
        if let Some(stream) = self.streams.get_mut(&conn) {
            let keep = stream.bytes.len().saturating_sub(count);
            stream.bytes.truncate(keep);
        }
    }

    pub(super) fn acknowledge(&mut self, conn: ConnId, acked: u64) {
        if let Some(stream) = self.streams.get_mut(&conn) {
            let count = (acked.saturating_sub(stream.start) as usize).min(stream.bytes.len());
            stream.bytes.drain(..count);
            stream.start += count as u64;
        }
    }

    pub(super) fn release(&mut self, conn: ConnId) {
        self.streams.remove(&conn);
        self.classes.remove(&conn);
    }

    /// What leaves of a connection from now on is of this class (DSCP).
    pub(super) fn classify(&mut self, conn: ConnId, dscp: u8) {
        self.classes.insert(conn, dscp);
    }

    fn payload(&self, out: &Outgoing<'_>) -> Vec<u8> {
        let mut payload = Vec::with_capacity(out.payload_len);
        let stream = out.conn.and_then(|conn| self.streams.get(&conn));
        for extent in out.payload {
            let stream = stream.expect("only what was kept is sent");
            let from = (extent.addr - stream.start) as usize;
            payload.extend(stream.bytes.range(from..from + extent.len as usize));
        }
        payload
    }
}

impl FrameSink for Outbox {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        mss.into()
    }

    fn emit(&mut self, now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        self.offers.on_sent(out);
        let payload = self.payload(out);
        let dscp = out.conn.and_then(|conn| self.classes.get(&conn));
        let headers = Headers {
            link: Link::default(),
            src: out.src,
            dst: out.dst,
            hop_limit: 64,
            dscp: dscp.copied().unwrap_or(0),
            ecn: out.ecn,
            tcp: out.tcp,
        };
        let mut frame = vec![0; MAX_HEADERS_LEN];
        let checksum = TcpChecksum::Complete(Sum::of(&payload));
        let len = headers
            .emit(payload.len(), checksum, &mut frame)
            .expect("a segment of the stack fits a datagram");
        let mut datagram = frame[HEADER_LEN..len].to_vec();
        datagram.extend(payload);
        self.packets.push_back((now, datagram));
        Ok(())
    }
}

/// Gives a datagram to the stack. What is no segment is dropped, as by any host.
pub(super) fn deliver(
    stack: &mut Stack,
    now: Instant,
    datagram: &[u8],
    (memory, outbox): (&mut Memory, &mut Outbox),
) {
    let ether_type: [u8; 2] = match datagram.first().map(|byte| byte >> 4) {
        Some(4) => [0x08, 0x00],
        Some(6) => [0x86, 0xdd],
        _ => return,
    };
    let mut frame = vec![0; HEADER_LEN];
    frame[12..14].copy_from_slice(&ether_type);
    frame.extend(datagram);
    // What is wrong with either is counted by the stack.
    match segment::parse(&frame, ChecksumPolicy::Verify) {
        Ok(segment) => {
            outbox.offers.on_arrival(&segment);
            let _ = stack.on_segment(now, &segment, memory);
        }
        Err(_) => {
            if let Ok(error) = icmp::parse(&frame, ChecksumPolicy::Verify) {
                let _ = stack.on_icmp(now, &error);
            }
        }
    }
}
