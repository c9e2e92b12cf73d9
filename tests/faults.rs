//! Much data both ways at once, through a wire that loses, repeats and reorders, between an
//! unmodified program on the engine and a client on the kernel's TCP.
//!
//! A gigabyte each way; `OUTBOARD_TEST_MEGABYTES=16` makes it a quick look.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::faults::{Faults, FaultyWire};
use lab::outboard::{Outboard, total};
use lab::{Side, World};

const PORT: u16 = 9000;

/// Nothing at all may take longer than this without a byte arriving.
const STALL: Duration = Duration::from_secs(120);

/// The faults of the wire, each way.
const FAULTS: Faults = Faults {
    loss: 0.01,
    duplication: 0.005,
    reorder: 0.01,
    reorder_distance: 3,
    ..Faults::NONE
};

fn bytes_each_way() -> u64 {
    let megabytes = std::env::var("OUTBOARD_TEST_MEGABYTES")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(1024);
    megabytes << 20
}

/// A byte of a stream, by its place in it; the two directions differ.
fn byte_at(place: u64, salt: u64) -> u8 {
    ((place ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn write_stream(stream: &mut TcpStream, salt: u64, length: u64) {
    let mut place = 0;
    let mut buffer = vec![0; 64 << 10];
    while place < length {
        let size = buffer.len().min((length - place) as usize);
        for (byte, at) in buffer[..size].iter_mut().zip(place..) {
            *byte = byte_at(at, salt);
        }
        stream.write_all(&buffer[..size]).expect("write");
        place += size as u64;
    }
    stream.shutdown(Shutdown::Write).expect("shutdown");
}

fn read_stream(stream: &mut TcpStream, salt: u64, length: u64) {
    let mut place = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let size = stream.read(&mut buffer).expect("read");
        if size == 0 {
            break;
        }
        for (byte, at) in buffer[..size].iter().zip(place..) {
            assert_eq!(*byte, byte_at(at, salt), "byte {at}");
        }
        place += size as u64;
    }
    assert_eq!(place, length, "bytes until the end");
}

const TO_CLIENT: u64 = 1;
const TO_SERVER: u64 = 2;

fn both_ways(stream: TcpStream, outgoing: u64, incoming: u64) {
    let length = bytes_each_way();
    stream.set_read_timeout(Some(STALL)).expect("timeout");
    stream.set_write_timeout(Some(STALL)).expect("timeout");
    let mut writer = stream.try_clone().expect("try_clone");
    let mut reader = stream;
    std::thread::scope(|scope| {
        scope.spawn(|| write_stream(&mut writer, outgoing, length));
        scope.spawn(|| read_stream(&mut reader, incoming, length));
    });
}

/// The program on the engine: one connection, and done.
#[test]
#[ignore = "only run by much_data_both_ways_over_a_faulty_wire"]
fn server_on_the_engine() {
    let Ok(address) = std::env::var("OUTBOARD_TEST_ADDRESS") else {
        return;
    };
    let address: IpAddr = address.parse().expect("an address");
    let listener = TcpListener::bind((address, PORT)).expect("listen");
    eprintln!("listening");
    let (stream, _) = listener.accept().expect("accept");
    both_ways(stream, TO_CLIENT, TO_SERVER);
    eprintln!("all is well");
}

#[test]
fn much_data_both_ways_over_a_faulty_wire() {
    if lab::skip_without_root("much_data_both_ways_over_a_faulty_wire") {
        return;
    }
    let world = World::with_middle().expect("a private network");
    let wire = FaultyWire::start(&world, FAULTS, 7).expect("wire");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).expect("engine");
    let address = Side::Server.ipv4();
    let mut server = outboard
        .on_engine(&world, std::env::current_exe().expect("ourselves"))
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "server_on_the_engine",
        ])
        .env("OUTBOARD_TEST_ADDRESS", address.to_string())
        .log(world.scratch().join("server.log"))
        .start()
        .expect("server");
    let start = Instant::now();
    let log = world.scratch().join("server.log");
    let listening = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("listening"));
    server.wait_until(STALL, listening).expect("listening");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            world.enter(Side::Client).expect("enter");
            let to = SocketAddr::new(address.into(), PORT);
            let stream = TcpStream::connect_timeout(&to, STALL).expect("connect");
            both_ways(stream, TO_SERVER, TO_CLIENT);
        });
        if client.join().is_err() {
            panic!("the client failed; the server says:\n{}", server.printed());
        }
    });
    let status = server.wait(STALL).expect("the server ends");
    assert!(status.success(), "{}", server.printed());
    let report = wire.stop().expect("report");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.0} Mb/s each way\n{report}",
        bytes_each_way() as f64 * 8.0 / seconds / 1e6
    );
    // The engine carried it, not the kernel.
    let counters = outboard.stats().expect("stats");
    assert!(total(&counters, "tcp_segments_in") > 1000.0);
    assert!(report.there.lost > 0 && report.back.lost > 0, "{report}");
}
