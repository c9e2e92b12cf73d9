//! The links between the hosts of a world, and what is under way on them.

use core::fmt;
use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;

use tcp::Instant;
use wire::checksum::Sum;
use wire::icmp::{Reason, TcpError};
use wire::segment::{self, ChecksumPolicy, Headers, MAX_HEADERS_LEN, Segment, TcpChecksum};

use crate::ids::{HostId, SocketId};
use crate::link::{Fate, Link, LinkConfig};
use crate::rng::Rng;
use crate::trace::Trace;

/// What happens to a host at some time.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A frame arrives.
    Frame(Vec<u8>),
    /// A router says that a segment was not forwarded.
    Error(TcpError),
    /// A socket's application wants to go on.
    Wake(SocketId),
    /// The host's device has room again.
    Room,
}

#[derive(Debug)]
struct Scheduled {
    at: Instant,
    /// In which order it was scheduled: decides between equal times.
    number: u64,
    host: HostId,
    what: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> core::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Looks at a segment as it is sent, and says whether it may go on.
pub(crate) type Filter = Box<dyn FnMut(&Segment<'_>) -> bool>;

/// Links, and frames under way.
pub(crate) struct Network {
    pub(crate) trace: Trace,
    addresses: BTreeMap<IpAddr, HostId>,
    links: BTreeMap<(HostId, HostId), Link>,
    filters: BTreeMap<HostId, Filter>,
    scheduled: BinaryHeap<Reverse<Scheduled>>,
    count: u64,
    rng: Rng,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}

impl Network {
    pub(crate) fn new(rng: Rng) -> Network {
        Network {
            trace: Trace::default(),
            addresses: BTreeMap::new(),
            links: BTreeMap::new(),
            filters: BTreeMap::new(),
            scheduled: BinaryHeap::new(),
            count: 0,
            rng,
        }
    }

    pub(crate) fn set_address(&mut self, address: IpAddr, host: HostId) {
        self.addresses.insert(address, host);
    }

    pub(crate) fn connect(&mut self, from: HostId, to: HostId, config: LinkConfig) {
        let rng = self.rng.fork();
        self.links.insert((from, to), Link::new(config, rng));
    }

    pub(crate) fn link_mut(&mut self, from: HostId, to: HostId) -> Option<&mut LinkConfig> {
        self.links.get_mut(&(from, to)).map(Link::config_mut)
    }

    pub(crate) fn set_filter(&mut self, from: HostId, filter: Option<Filter>) {
        match filter {
            Some(filter) => self.filters.insert(from, filter),
            None => self.filters.remove(&from),
        };
    }

    /// Sends a segment from a host: as a frame, with everything that happens to frames.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: (HostId, &'static str),
        headers: &Headers,
        payload: &[u8],
    ) {
        let frame = frame(headers, payload);
        let parsed = segment::parse(&frame, ChecksumPolicy::Verify)
            .unwrap_or_else(|reason| panic!("{} sent a bad frame: {reason}: {headers:?}", from.1));
        let (flow, tcp) = (parsed.flow().reversed(), parsed.tcp);
        let packet_len = (frame.len() - headers.ip_offset()) as u32;
        let passes = self
            .filters
            .get_mut(&from.0)
            .is_none_or(|filter| filter(&parsed));
        let to = self.addresses.get(&headers.dst).copied();
        let link = to.and_then(|to| Some((to, self.links.get_mut(&(from.0, to))?)));
        let fate = match link {
            _ if !passes => Fate::Taken,
            None => Fate::Unroutable,
            Some((to, link)) => {
                let (scheduled, count) = (&mut self.scheduled, &mut self.count);
                link.send(now, frame, headers.ip_offset(), |at, frame| {
                    *count += 1;
                    let what = Happening::Frame(frame);
                    scheduled.push(Reverse(Scheduled {
                        at,
                        number: *count,
                        host: to,
                        what,
                    }));
                })
            }
        };
        if let (Fate::TooBig, Some(to)) = (fate, to)
            && let Some(mtu) = self.links.get(&(from.0, to)).and_then(Link::told_mtu)
        {
            // The router is near: what it says is not lost.
            let error = TcpError {
                flow,
                seq: tcp.seq,
                packet_len,
                reason: Reason::TooBig { mtu },
            };
            self.schedule(now + ROUTER_AWAY, from.0, Happening::Error(error));
        }
        self.trace.note(now, from.1, flow, tcp, payload.len(), fate);
    }

    pub(crate) fn schedule(&mut self, at: Instant, host: HostId, what: Happening) {
        self.count += 1;
        self.scheduled.push(Reverse(Scheduled {
            at,
            number: self.count,
            host,
            what,
        }));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.scheduled.peek().map(|Reverse(scheduled)| scheduled.at)
    }

    /// Takes out what is next, if it is due by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(HostId, Happening)> {
        if self.next()? > now {
            return None;
        }
        self.scheduled
            .pop()
            .map(|Reverse(scheduled)| (scheduled.host, scheduled.what))
    }

    /// Whether anything is under way or scheduled.
    pub(crate) fn is_quiet(&self) -> bool {
        self.scheduled.is_empty()
    }
}

/// A complete frame.
pub(crate) fn frame(headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; MAX_HEADERS_LEN];
    let checksum = TcpChecksum::Complete(Sum::of(payload));
    let len = headers
        .emit(payload.len(), checksum, &mut frame)
        .unwrap_or_else(|error| panic!("no frame for {headers:?}: {error}"));
    frame.truncate(len);
    frame.extend_from_slice(payload);
    frame
}

/// How long what a router says is under way.
const ROUTER_AWAY: Duration = Duration::from_millis(1);

/// How long a device stays full.
pub(crate) const FULL_FOR: Duration = Duration::from_micros(50);
