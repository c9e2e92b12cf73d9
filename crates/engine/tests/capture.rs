//! Captures: what a reader finds in the stream, and that it can neither block nor exhaust the
//! engine.

use engine::capture::{Capture, CaptureError, Captures, Direction, Frame, MAX_CAPTURES};
use engine::clock::Clock;
use engine::network::NicId;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::AtomicU8;
use tcp::Instant;

/// A frame with a TCP SYN from 10.0.0.1 port 1000 to 10.0.0.2 port 80.
fn syn() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x26, 0xcd]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([
        3, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    frame
}

fn frame(head: &[u8]) -> Frame<'_> {
    Frame {
        direction: Direction::In,
        nic: NicId::default(),
        head,
        payload: &[],
        dropped: None,
    }
}

/// One that has not begun.
fn capture(filter: &str, socket: OwnedFd) -> Result<Capture, CaptureError> {
    let filter = Capture::check(filter, &socket)?;
    Ok(Capture::new(filter, socket, &["eth7".to_owned()], 0))
}

/// A capture that is running, and its reader.
fn begin(filter: &str) -> (Captures, UnixStream) {
    let (reader, writer) = UnixStream::pair().unwrap();
    let mut captures = Captures::default();
    let capture = capture(filter, writer.into()).unwrap();
    captures.begin(Box::new(capture), &Clock::start()).unwrap();
    reader.set_nonblocking(true).unwrap();
    (captures, reader)
}

/// All that can be read now.
fn read(reader: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match reader.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
        _ => bytes,
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    data: Vec<u8>,
    time: u64,
    direction: u32,
    lost: u64,
    comment: String,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Takes a stream apart as the format prescribes: kinds of blocks, and the packets.
fn take_apart(mut stream: &[u8]) -> (Vec<u32>, Vec<Found>) {
    let (mut kinds, mut packets) = (Vec::new(), Vec::new());
    while !stream.is_empty() {
        let len = u32_at(stream, 4) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(u32_at(stream, len - 4) as usize, len, "both lengths");
        kinds.push(u32_at(stream, 0));
        if kinds.last() == Some(&6) {
            packets.push(packet(&stream[8..len - 4]));
        }
        stream = &stream[len..];
    }
    (kinds, packets)
}

fn packet(body: &[u8]) -> Found {
    let len = u32_at(body, 12) as usize;
    assert_eq!(u32_at(body, 16) as usize, len, "not cut short");
    let mut found = Found {
        data: body[20..20 + len].to_vec(),
        time: u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8)),
        ..Found::default()
    };
    let mut options = &body[20 + len.next_multiple_of(4)..];
    loop {
        let code = u16::from_ne_bytes([options[0], options[1]]);
        let len = usize::from(u16::from_ne_bytes([options[2], options[3]]));
        let value = &options[4..4 + len];
        match code {
            0 => break,
            1 => found.comment = String::from_utf8(value.to_vec()).unwrap(),
            2 => found.direction = u32_at(value, 0),
            4 => found.lost = u64::from_ne_bytes(value.try_into().unwrap()),
            other => panic!("option {other}"),
        }
        options = &options[4 + len.next_multiple_of(4)..];
    }
    assert_eq!(options.len(), 4, "nothing after the end of the options");
    found
}

#[test]
fn frames_arrive_with_direction_drops_and_time() {
    let (mut captures, mut reader) = begin("");
    assert!(captures.is_on());
    let syn = syn();
    captures.frame(Instant::from_nanos(1_000), &frame(&syn));
    let dropped = Some("bad_checksum");
    captures.frame(
        Instant::from_nanos(2_500),
        &Frame {
            dropped,
            ..frame(&syn[..33])
        },
    );
    // A large send: headers here, payload in pieces that a host can write.
    let piece = |byte: u8, len| (0..len).map(|_| AtomicU8::new(byte)).collect::<Vec<_>>();
    let (a, b) = (piece(b'a', 1001), piece(b'b', 60_000));
    let payload: &[&[AtomicU8]] = &[&a, &b];
    let direction = Direction::Out;
    captures.frame(
        Instant::from_nanos(3_000),
        &Frame {
            direction,
            payload,
            ..frame(&syn)
        },
    );
    captures.flush();

    let (kinds, packets) = take_apart(&read(&mut reader));
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 6, 6]);
    assert_eq!(packets[0].data, syn);
    assert_eq!((packets[0].direction, packets[0].comment.as_str()), (1, ""));
    assert_eq!(packets[1].data, syn[..33]);
    assert_eq!(packets[1].comment, "dropped: bad_checksum");
    assert_eq!(
        packets[2].data,
        [&syn[..], &[b'a'; 1001], &[b'b'; 60_000]].concat()
    );
    assert_eq!(packets[2].direction, 2);
    assert_eq!(packets[1].time - packets[0].time, 1_500);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let age = now.as_nanos() as i128 - i128::from(packets[0].time);
    assert!(
        (0..60_000_000_000).contains(&age),
        "the wall clock, not {age} ns ago"
    );
}

/// A capture that begins in the middle of a long turn tells the time of other captures, and not that of the turn.
#[test]
fn times_are_those_of_the_wall_clock() {
    let wall = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_nanos() as u64
    };
    let clock = Clock::start();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (mut reader, writer) = UnixStream::pair().unwrap();
    let mut captures = Captures::default();
    let capture = capture("", writer.into()).unwrap();
    captures.begin(Box::new(capture), &clock).unwrap();
    reader.set_nonblocking(true).unwrap();
    let (before, now, after) = (wall(), clock.now(), wall());
    captures.frame(now, &frame(&syn()));
    captures.flush();
    let (_, packets) = take_apart(&read(&mut reader));
    let allowed = before - 1_000_000..after + 1_000_000;
    assert!(allowed.contains(&packets[0].time), "{allowed:?}");
}

#[test]
fn only_what_passes_the_filter_is_written() {
    let (mut captures, mut reader) = begin("out or dropped");
    let syn = syn();
    captures.frame(Instant::ZERO, &frame(&syn));
    captures.frame(
        Instant::ZERO,
        &Frame {
            direction: Direction::Out,
            nic: NicId::default(),
            ..frame(&syn)
        },
    );
    captures.frame(
        Instant::ZERO,
        &Frame {
            dropped: Some("x"),
            ..frame(&syn)
        },
    );
    captures.flush();
    assert_eq!(take_apart(&read(&mut reader)).1.len(), 2);
}

#[test]
fn a_reader_that_is_behind_loses_frames_and_is_told() {
    let (mut captures, mut reader) = begin("");
    let head = vec![7; 60_000];
    for i in 0..200 {
        captures.frame(Instant::from_nanos(i), &frame(&head));
        captures.flush();
    }
    let mut stream = Vec::new();
    let mut read_all = |captures: &mut Captures, stream: &mut Vec<u8>| loop {
        captures.flush();
        let bytes = read(&mut reader);
        if bytes.is_empty() {
            break;
        }
        stream.extend(bytes);
    };
    read_all(&mut captures, &mut stream);
    captures.frame(Instant::from_nanos(200), &frame(&head));
    read_all(&mut captures, &mut stream);

    let (_, packets) = take_apart(&stream);
    let last = packets.last().unwrap();
    assert!(last.lost > 0 && packets.len() > 50);
    assert_eq!(
        packets.len() as u64 + last.lost,
        201,
        "each is there or counted"
    );
    assert!(
        packets[..packets.len() - 1]
            .iter()
            .all(|packet| packet.lost == 0)
    );
}

#[test]
fn a_capture_ends_with_its_reader() {
    let (mut captures, reader) = begin("");
    captures.reap();
    assert!(captures.is_on());
    drop(reader);
    // Without a frame, the next look at the sockets notices; with one, sending it does.
    captures.reap();
    assert!(!captures.is_on());
    let (mut captures, reader) = begin("");
    drop(reader);
    captures.frame(Instant::ZERO, &frame(&syn()));
    captures.flush();
    assert!(!captures.is_on());
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let mut captures = Captures::default();
    let mut begin = |filter: &str, socket: OwnedFd| {
        let capture = capture(filter, socket)?;
        Ok(captures.begin(Box::new(capture), &Clock::start()).is_ok())
    };
    let socket = || OwnedFd::from(UnixStream::pair().unwrap().1);
    assert!(matches!(
        begin("prot 80", socket()),
        Err(CaptureError::Filter(_))
    ));
    let (_, pipe) = std::io::pipe().unwrap();
    assert_eq!(begin("", pipe.into()), Err(CaptureError::NotASocket));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(begin("", tcp.into()), Err(CaptureError::NotASocket));
    for _ in 0..MAX_CAPTURES {
        assert_eq!(begin("", socket()), Ok(true));
    }
    assert_eq!(begin("", socket()), Ok(false));
}

/// Somebody else's reader understands it too.
#[test]
fn tcpdump_reads_it() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return;
    }
    let (mut captures, mut reader) = begin("");
    captures.frame(Instant::ZERO, &frame(&syn()));
    captures.flush();
    let path = std::env::temp_dir().join(format!("outboard-capture-{}.pcapng", std::process::id()));
    std::fs::write(&path, read(&mut reader)).unwrap();
    let output = Command::new("tcpdump")
        .arg("-nr")
        .arg(&path)
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("IP 10.0.0.1.1000 > 10.0.0.2.80: Flags [S]"),
        "{output:?}"
    );
}
