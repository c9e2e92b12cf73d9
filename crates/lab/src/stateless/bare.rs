//! What the platform allows at best: frames out by AF_XDP, back by a mirror in the driver at the
//! other end (XDP_TX), in by AF_XDP.

use crate::world::{Side, World};
use anyhow::{Context, Result};
use netdev::reflect::Reflector;
use netdev::{Claim, Claimed, Device, Interface, Placement, XdpDevice, xdp};
use std::time::{Duration, Instant};
use wire::checksum::Sum;
use wire::ethernet::MacAddr;
use wire::ip::Ecn;
use wire::segment::{Headers, Link, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr};

/// The port at the server's end, and at the client's.
const PORTS: (u16, u16) = (80, 20_000);
/// Frames handled at once.
const BATCH: usize = 256;
/// After so long without a frame those that are on the way count as lost.
const PATIENCE: Duration = Duration::from_millis(20);

/// Frames that come back in a second, with so many on their way at once, each of `length` bytes.
/// Runs in the calling thread, which must be on the client's side.
pub(super) fn round_trips(
    world: &World,
    length: usize,
    on_the_way: usize,
    window: Duration,
) -> Result<f64> {
    let there = world.on(Side::Server, || {
        Ok(Interface::find(Side::Server.interface())?)
    })?;
    let here = Interface::find(Side::Client.interface())?;
    let frame = frame(&here, &there, length)?;
    let mut device = XdpDevice::open(
        &here,
        xdp::Config {
            receive_frames: 16_384,
            transmit_frames: 4096,
            ..xdp::Config::default()
        },
    )?;
    let claimed = Claimed {
        server: (Side::Server.ipv4(), PORTS.0).into(),
        addresses: vec![(Side::Client.ipv4().into(), Side::Client.ipv4().into())],
        ports: PORTS.1..=PORTS.1,
    };
    let mut claim = Claim::attach(&here, Placement::Native, &claimed)?;
    claim.connect_queue(device.queue(), &device)?;
    let began = Instant::now();
    let (mut credit, mut came_back) = (on_the_way, 0_u64);
    let mut last = began;
    loop {
        let now = Instant::now();
        if now.duration_since(began) >= window {
            break;
        }
        let received = device.receive(BATCH, |_| ());
        came_back += received as u64;
        credit += received;
        if received > 0 {
            last = now;
        } else if now.duration_since(last) > PATIENCE {
            credit = on_the_way;
            last = now;
        }
        for _ in 0..credit.min(BATCH) {
            let Some(buffer) = device.frame() else { break };
            buffer[..frame.len()].copy_from_slice(&frame);
            device.submit(frame.len(), None);
            credit -= 1;
        }
        device.flush();
    }
    Ok(came_back as f64 / began.elapsed().as_secs_f64())
}

/// The mirror at the server's end. Dropping it ends it.
pub(super) fn mirror(world: &World) -> Result<Reflector> {
    world.on(Side::Server, || {
        let interface = Interface::find(Side::Server.interface())?;
        Reflector::attach(&interface).context("the mirror")
    })
}

/// A segment of the client's, of so many bytes.
fn frame(here: &Interface, there: &Interface, length: usize) -> Result<Vec<u8>> {
    let headers = Headers {
        link: Link {
            src: MacAddr(here.mac),
            dst: MacAddr(there.mac),
            ..Link::default()
        },
        src: Side::Client.ipv4().into(),
        dst: Side::Server.ipv4().into(),
        hop_limit: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        tcp: Repr {
            src_port: PORTS.1,
            dst_port: PORTS.0,
            seq: SeqNumber(1),
            ack: Some(SeqNumber(1)),
            flags: Flags::ACK,
            window: 65_535,
            options: Options::NONE,
        },
    };
    let payload = vec![b'x'; length.saturating_sub(headers.len())];
    let mut frame = vec![0; headers.len()];
    let sum = TcpChecksum::Complete(Sum::of(&payload));
    headers.emit(payload.len(), sum, &mut frame)?;
    frame.extend(payload);
    Ok(frame)
}
