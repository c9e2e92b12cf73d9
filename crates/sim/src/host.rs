//! One host of a world: a stack, the memory it receives into, and its device.

use core::fmt;
use std::collections::BTreeMap;
use std::net::IpAddr;

use tcp::{Config, ConnId, FrameSink, Instant, ListenSpec, ListenerId, Outgoing, SinkFull, Stack};
use wire::segment::{self, ChecksumPolicy, Headers, Link, Malformed};
use wire::tcp::Flags;

use crate::ids::{HostId, SocketId};
use crate::memory::Memory;
use crate::network::{FULL_FOR, Happening, Network};
use crate::offers::Offers;
use crate::pattern;
use crate::rng::{Chance, Rng};
use crate::socket::Plan;

/// The nature of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// What it is called in traces.
    pub name: &'static str,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its stack's settings.
    pub stack: Config,
    /// How many segments its device cuts out of one burst; 1 for a device that cannot.
    pub burst: usize,
    /// How likely its device is to be full, for any segment.
    pub full: Chance,
    /// How likely its receive memory is to have run out, for any placement.
    pub exhaustion: Chance,
}

impl HostConfig {
    /// A host with an address and nothing unusual.
    pub fn new(name: &'static str, address: IpAddr) -> HostConfig {
        HostConfig {
            name,
            addresses: vec![address],
            stack: Config::default(),
            burst: 1,
            full: Chance::NEVER,
            exhaustion: Chance::NEVER,
        }
    }
}

/// One host.
pub struct Host {
    pub(crate) id: HostId,
    pub(crate) config: HostConfig,
    /// Its TCP.
    pub stack: Stack,
    /// Its receive memory.
    pub memory: Memory,
    pub(crate) sockets: BTreeMap<ConnId, SocketId>,
    pub(crate) listeners: BTreeMap<ListenerId, Listener>,
    /// Frames that the stack never saw, by reason.
    pub malformed: BTreeMap<Malformed, u64>,
    /// What its stack, or one before it, has promised its peers.
    pub(crate) offers: Offers,
    pub(crate) rng: Rng,
}

/// What the application does with connections to a listener.
pub(crate) struct Listener {
    pub(crate) spec: ListenSpec,
    /// What it plans for those that it accepts at once; `None` to accept only when asked.
    pub(crate) plan: Option<Plan>,
    /// What it has accepted and no test has asked for.
    pub(crate) accepted: Vec<SocketId>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Host {
    pub(crate) fn new(id: HostId, config: HostConfig, mut rng: Rng) -> Host {
        let mut seed = [0; 32];
        for word in seed.chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        let memory = Memory::new(config.exhaustion, rng.fork());
        Host {
            id,
            stack: Stack::new(config.stack.clone(), seed),
            memory,
            sockets: BTreeMap::new(),
            listeners: BTreeMap::new(),
            malformed: BTreeMap::new(),
            offers: Offers::default(),
            rng,
            config,
        }
    }

    /// Takes a frame off the link.
    pub(crate) fn receive(&mut self, now: Instant, frame: &[u8]) {
        match segment::parse(frame, ChecksumPolicy::Verify) {
            Ok(segment) => {
                self.offers.on_arrival(&segment);
                // What is wrong with a segment is counted by the stack.
                let _ = self.stack.on_segment(now, &segment, &mut self.memory);
            }
            Err(reason) => *self.malformed.entry(reason).or_default() += 1,
        }
    }

    /// Lets the stack send as much as it wants; returns how many emissions there were.
    pub(crate) fn transmit(&mut self, now: Instant, network: &mut Network) -> usize {
        let mut device = Device {
            host: (self.id, self.config.name),
            burst: self.config.burst,
            full: self.config.full,
            offers: &mut self.offers,
            rng: &mut self.rng,
            network,
        };
        // A small budget now and then, so that what is left over is not forgotten either.
        let budget = device.rng.pick(&[1, 7, 64]);
        self.stack.poll_transmit(now, &mut device, budget)
    }
}

/// The device of a host, while its stack is sending.
struct Device<'a> {
    host: (HostId, &'static str),
    burst: usize,
    full: Chance,
    offers: &'a mut Offers,
    rng: &'a mut Rng,
    network: &'a mut Network,
}

impl FrameSink for Device<'_> {
    fn burst_limit(&mut self, _conn: ConnId, mss: u16) -> usize {
        // What one IP packet can describe bounds a burst as well.
        let segments = self.burst.min(64_000 / usize::from(mss.max(1))).max(1);
        segments * usize::from(mss)
    }

    fn emit(&mut self, now: Instant, out: &Outgoing<'_>) -> Result<(), SinkFull> {
        if self.rng.happens(self.full) {
            self.network
                .schedule(now + FULL_FOR, self.host.0, Happening::Room);
            return Err(SinkFull);
        }
        self.offers.on_sent(out);
        let mut payload = Vec::with_capacity(out.payload_len);
        for extent in out.payload {
            let start = payload.len();
            payload.resize(start + extent.len as usize, 0);
            pattern::fill(extent.addr, &mut payload[start..]);
        }
        assert_eq!(payload.len(), out.payload_len, "the pieces of {out:?}");
        let mut headers = Headers {
            link: Link::default(),
            src: out.src,
            dst: out.dst,
            hop_limit: 64,
            dscp: 0,
            ecn: out.ecn,
            tcp: out.tcp,
        };
        if out.gso_size == 0 {
            self.network.send(now, self.host, &headers, &payload);
            return Ok(());
        }
        // As a device with segmentation offload does: the header's numbers go on, and FIN and PSH
        // stay with the last segment.
        assert!(
            payload.len() > out.gso_size.into(),
            "a burst of one segment: {out:?}"
        );
        let pieces = payload.chunks(out.gso_size.into());
        let last = pieces.len() - 1;
        for (number, piece) in pieces.enumerate() {
            headers.tcp.flags = out.tcp.flags.with(Flags::FIN | Flags::PSH, false);
            if number == last {
                headers.tcp.flags = out.tcp.flags;
            }
            self.network.send(now, self.host, &headers, piece);
            headers.tcp.seq += piece.len() as u32;
        }
        Ok(())
    }
}
