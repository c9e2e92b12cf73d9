//! How fast the devices are by themselves, over a veth pair in namespaces of its own:
//!
//! ```text
//! cargo run -p outboard-netdev --release --example bare_rates
//! ```
//!
//! Nothing here is TCP. What is sent is addressed so that the peer's kernel drops it at once, and
//! what is received is thrown away, so these are upper bounds of what an engine can reach.
//!
//! Rates are by the clock on the wall, and suffer from whatever else runs. Times for each frame are
//! CPU time of the thread that sends or receives. On a veth the sender's includes what the other
//! end does on arrival: its kernel's receive path, or the copy into an AF_XDP socket's memory.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use lab::{Side, World};
use netdev::interface::Interface;
use netdev::packet::LargeSender;
use netdev::steering::{Endpoint, Placement, Share, Steering};
use netdev::xdp::Config;
use netdev::{Counters, Device, LargeSend, PartialChecksum, XdpDevice};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use wire::checksum::{Sum, pseudo_header_v4};

/// How long each measurement takes.
const SPAN: Duration = Duration::from_secs(1);
const PORT: u16 = 9;
/// In the client's network, but nobody: its kernel drops it after looking for a route.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 99);
const HEADERS: usize = 14 + 20 + 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if !lab::is_root() {
        return Err("this makes network namespaces: run it as root".into());
    }
    let world = World::new()?;
    // On a thread of its own: when the world goes, it takes along whoever is still in it.
    std::thread::scope(|scope| scope.spawn(|| measure(&world)).join())
        .map_err(|_| "a measurement panicked")?
        .map_err(Into::into)
}

fn measure(world: &World) -> Result<(), String> {
    all(world).map_err(|error| error.to_string())
}

fn all(world: &World) -> Result<(), Box<dyn std::error::Error>> {
    world.enter(Side::Server)?;
    on_core(0);
    println!(
        "{:<44} {:>12} {:>9} {:>9} {:>9}",
        "", "frames/s", "GB/s", "CPU ns", "ns/byte"
    );
    send_small(64, false)?;
    send_small(1514, false)?;
    send_small(1514, true)?;
    for bytes in [2 * 1448, 16 * 1024, 64 * 1024 - 400] {
        send_large(bytes, false)?;
    }
    send_large(64 * 1024 - 400, true)?;
    for size in [64, 1514] {
        receive(world, size, false)?;
        receive(world, size, true)?;
    }
    Ok(())
}

fn on_core(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // On a machine of one core there is nothing to choose.
    let _ = sched_setaffinity(None, &cores);
}

/// The time on the wall, and the CPU time of this thread.
struct Stopwatch {
    start: Instant,
    start_cpu: Duration,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            start: Instant::now(),
            start_cpu: cpu_time(),
        }
    }

    fn runs(&self) -> bool {
        self.start.elapsed() < SPAN
    }

    fn report(&self, what: &str, frames: u64, bytes: u64) {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu = cpu_time().saturating_sub(self.start_cpu);
        println!(
            "{what:<44} {:>12.0} {:>9.2} {:>9.0} {:>9.3}",
            frames as f64 / seconds,
            bytes as f64 / seconds / 1e9,
            cpu.as_nanos() as f64 / frames as f64,
            cpu.as_nanos() as f64 / bytes as f64,
        );
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The server's device and the link-layer address of the client.
fn open(config: Config) -> Result<XdpDevice, Box<dyn std::error::Error>> {
    let interface = Interface::find(Side::Server.interface())?;
    Ok(XdpDevice::open(&interface, config)?)
}

/// Headers of a TCP segment, with the pseudo-header sum in the checksum field.
fn headers(dst_mac: [u8; 6], src: Ipv4Addr, dst: Ipv4Addr, payload: usize) -> [u8; HEADERS] {
    let mut frame = [0; HEADERS];
    frame[0..6].copy_from_slice(&dst_mac);
    frame[6] = 2;
    frame[12] = 0x08;
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    frame[22] = 64;
    frame[23] = 6;
    frame[26..30].copy_from_slice(&src.octets());
    frame[30..34].copy_from_slice(&dst.octets());
    let sum = Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[36..38].copy_from_slice(&PORT.to_be_bytes());
    frame[46] = 0x50;
    frame[47] = 0x10;
    let pseudo = pseudo_header_v4(src, dst, 6, (20 + payload) as u16);
    frame[50..52].copy_from_slice(&pseudo.fold().to_be_bytes());
    frame
}

fn to_nobody(payload: usize) -> [u8; HEADERS] {
    headers(client_mac(), Side::Server.ipv4(), NOBODY, payload)
}

/// Any unicast address that is not the client's makes its kernel drop frames even earlier.
fn client_mac() -> [u8; 6] {
    [2, 0, 0, 0, 0, 9]
}

fn send_small(size: usize, checksum: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut device = open(Config::default())?;
    let header = to_nobody(size - HEADERS);
    let payload = vec![7; size - HEADERS];
    let watch = Stopwatch::start();
    while watch.runs() {
        for _ in 0..64 {
            let Some(frame) = device.frame() else { break };
            frame[..HEADERS].copy_from_slice(&header);
            frame[HEADERS..size].copy_from_slice(&payload);
            let checksum = checksum.then_some(PartialChecksum::tcp(34));
            device.submit(size, checksum);
        }
        device.flush();
    }
    let Counters {
        sent_frames,
        sent_bytes,
        ..
    } = device.counters();
    let what = match checksum {
        true => format!("AF_XDP out, {size} bytes, checksum offloaded"),
        false => format!("AF_XDP out, {size} bytes"),
    };
    watch.report(&what, sent_frames, sent_bytes);
    Ok(())
}

fn send_large(bytes: usize, bypass: bool) -> Result<(), Box<dyn std::error::Error>> {
    let interface = Interface::find(Side::Server.interface())?;
    let mut sender = LargeSender::open(&interface)?;
    sender.set_queue_bypass(bypass)?;
    let header = to_nobody(bytes);
    let payload: Vec<AtomicU8> = (0..bytes).map(|_| AtomicU8::new(7)).collect();
    let pieces: Vec<&[AtomicU8]> = payload.chunks(16 * 1024).collect();
    let how = LargeSend {
        segment_size: 1448,
        ipv6: false,
        checksum: PartialChecksum::tcp(34),
    };
    let mut counters = Counters::default();
    let watch = Stopwatch::start();
    while watch.runs() {
        // Busy: the next turn tries again.
        let _ = black_box(sender.send(&header, &pieces, how, &mut counters));
    }
    let bypassed = if bypass { ", queue bypassed" } else { "" };
    let what = format!("AF_PACKET out, {bytes} bytes{bypassed}");
    watch.report(&what, counters.large_sends, counters.large_bytes);
    Ok(())
}

/// The client floods a steered port from another core. The receiver polls, or sleeps a little when
/// nothing is there, which shows what its work costs without the waiting.
fn receive(world: &World, size: usize, sleeping: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut device = open(Config::default())?;
    let mut steering = Steering::attach(device.interface(), Placement::Auto)?;
    steering.connect_queue(0, &device)?;
    steering.add_port(Endpoint::new(Side::Server.ipv4().into(), PORT), Share::All)?;
    let server_mac = device.interface().mac;
    let stop = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood(world, server_mac, size, &stop));
        let watch = Stopwatch::start();
        let mut sum = 0u64;
        while watch.runs() {
            if device.receive(256, |frame| sum += u64::from(frame[0])) == 0 && sleeping {
                std::thread::sleep(Duration::from_micros(1));
            }
        }
        black_box(sum);
        let mode = if sleeping { "sleeping" } else { "polling" };
        let counters = device.counters();
        watch.report(
            &format!("AF_XDP in, {size} bytes, {mode}"),
            counters.received_frames,
            counters.received_bytes,
        );
        stop.store(true, Ordering::Relaxed);
        flood.join()
    });
    let sent = sent.map_err(|_| "the flood failed")?;
    let counters = device.counters();
    println!(
        "    of {sent} sent; dropped: ring full {}, no free buffer {}",
        counters.receive_dropped_ring_full, counters.receive_fill_ring_empty,
    );
    Ok(())
}

/// Sends as fast as it can until told to stop; returns how many frames.
fn flood(world: &World, server_mac: [u8; 6], size: usize, stop: &AtomicBool) -> u64 {
    on_core(1);
    world.enter(Side::Client).expect("the client's network");
    let interface = Interface::find(Side::Client.interface()).expect("the client's interface");
    let mut device = XdpDevice::open(&interface, Config::default()).expect("AF_XDP");
    let payload = size - HEADERS;
    let header = headers(
        server_mac,
        Side::Client.ipv4(),
        Side::Server.ipv4(),
        payload,
    );
    let watch = Stopwatch::start();
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..64 {
            let Some(frame) = device.frame() else { break };
            frame[..HEADERS].copy_from_slice(&header);
            device.submit(size, None);
        }
        device.flush();
    }
    let counters = device.counters();
    watch.report(
        "    while the peer sends",
        counters.sent_frames,
        counters.sent_bytes,
    );
    counters.sent_frames
}
