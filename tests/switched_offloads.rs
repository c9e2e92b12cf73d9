//! What `--offload` says of sums and of segmentation is so in the frames that an engine's peer is sent.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Side, World};
use netdev::Interface;
use netdev::packet::{FrameBatch, RawSocket};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use wire::segment::{ChecksumPolicy, parse};

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 8_000;
/// More than a frame has, and than a segment of the largest size.
const SIZE: usize = 300_000;
/// The largest frame that the link carries without segmentation: its MTU, and an Ethernet header.
const FRAME: usize = 1_514;
/// Room for any frame that comes whole.
const LARGEST: usize = 66_000;

/// A frame with data that the client has seen.
struct Seen {
    length: usize,
    /// Whether its sum is that of all that is in it. A device, or a peer on this machine, is to finish the others.
    is_summed: bool,
}

/// The frames with data that an engine told so sends for a file, and what it says of the interface.
fn frames(told: &[&str]) -> (Vec<Seen>, String) {
    let world = World::new().expect("a private network");
    // What came in several frames is to be seen as several.
    let client = Side::Client.interface();
    let ethtool = world.program(Side::Client, "ethtool");
    let ethtool = ethtool.args(["-K", client, "gro", "off"]);
    ethtool.output().expect("no frames are joined");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let told: Vec<&str> = told.iter().flat_map(|it| ["--offload", *it]).collect();
    let engine = outboard.start_engine_told(&world, None, &told);
    let engine = engine.expect("an engine");
    let content = vec![b'x'; SIZE];
    let site = world.site(&[("file", &content)]).expect("a site");
    let address = SocketAddr::from((Side::Server.ipv4(), PORT));
    let server = outboard.start_serve(&world, &site, address);
    let server = server.expect("a server");
    let seen = world.on(Side::Client, || {
        let socket = RawSocket::open(&Interface::find(client)?)?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET /file HTTP/1.0\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        assert!(answer.len() > SIZE, "{}", answer.len());
        let (mut seen, mut batch) = (Vec::new(), FrameBatch::new(LARGEST));
        while socket.receive(&mut batch)? > 0 {
            seen.extend(batch.frames().filter_map(of_the_server));
        }
        assert_eq!((socket.dropped()?, batch.truncated()), (0, 0));
        Ok(seen)
    });
    let seen = seen.expect("frames");
    assert!(!seen.is_empty());
    server.stop(LIMIT).expect("an end");
    engine.stop(LIMIT).expect("an end");
    let log = std::fs::read_to_string(world.scratch().join("engine.log"));
    (seen, log.expect("a log"))
}

/// A frame of the server's that carries data.
fn of_the_server(frame: &[u8]) -> Option<Seen> {
    let segment = parse(frame, ChecksumPolicy::AcceptPartial).ok()?;
    let is_data = segment.tcp.src_port == PORT && !segment.payload.is_empty();
    is_data.then(|| Seen {
        length: frame.len(),
        is_summed: parse(frame, ChecksumPolicy::Verify).is_ok(),
    })
}

#[test]
fn what_is_switched_is_switched_in_the_frames() {
    if lab::skip_without("what_is_switched_is_switched_in_the_frames", &["ethtool"]) {
        return;
    }
    let longest = |seen: &[Seen]| seen.iter().map(|it| it.length).max().unwrap_or(0);
    let (seen, _) = frames(&["txcsum=off", "tso=off"]);
    assert!(seen.iter().all(|frame| frame.is_summed));
    assert_eq!(longest(&seen), FRAME);
    let (seen, log) = frames(&["txcsum=on", "tso=off"]);
    assert_eq!(longest(&seen), FRAME);
    // A kernel, or a driver, that finishes no sum for AF_XDP is asked for none.
    let is_there = log.contains("txcsum");
    assert!(
        seen.iter().all(|frame| frame.is_summed != is_there),
        "{log}"
    );
    let (seen, _) = frames(&["txcsum=on", "tso=on"]);
    assert!(longest(&seen) > FRAME);
    let mut large = seen.iter().filter(|frame| frame.length > FRAME);
    assert!(large.all(|frame| !frame.is_summed), "the device sums them");
}
