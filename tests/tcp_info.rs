//! What an ordinary program reads by `getsockopt(TCP_INFO)` on the engine, and what `outboard ss`
//! shows, makes as much sense as on the kernel.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Process, Program, Side, World};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const SIZE: usize = 300_000;
/// Times on a machine that stands still now and then; a wrong unit is beyond it.
const MOST_US: u64 = 120_000_000;

/// Serves one client: reads a line, sends a lot, and when all of it has been acknowledged writes
/// down what TCP_INFO says.
const SERVER: &str = r#"
import json, socket, struct, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("10.77.0.1", int(sys.argv[1])))
listener.listen(8)
while True:
    peer, _ = listener.accept()
    line = peer.recv(100)
    if line:
        break
    peer.close()
peer.sendall(b"x" * 300000)
peer.recv(100)
data = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 248)
names = """rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent
last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering
rcv_rtt rcv_space total_retrans pacing_rate max_pacing_rate bytes_acked bytes_received segs_out
segs_in notsent_bytes min_rtt data_segs_in data_segs_out delivery_rate""".split()
values = struct.unpack_from("=8B24I4Q6IQ", data)
facts = dict(zip("state ca_state retransmits probes backoff options wscales flags".split(), values))
facts.update(zip(names, values[8:]))
facts["length"] = len(data)
facts["bbr"] = list(struct.unpack("=5I", peer.getsockopt(socket.IPPROTO_TCP, 26, 104) or bytes(20)))
with open(sys.argv[2] + ".new", "w") as out:
    json.dump(facts, out)
import os
os.rename(sys.argv[2] + ".new", sys.argv[2])
peer.recv(100)
"#;

fn start(world: &World, program: Program, port: u16) -> (Process, PathBuf) {
    let facts = world.scratch().join(format!("facts.{port}"));
    let process = program
        .args(["-c", SERVER, &port.to_string()])
        .arg(&facts)
        .log(world.scratch().join(format!("server.{port}.log")))
        .start()
        .unwrap();
    (process, facts)
}

/// What the server has read, and what `outboard ss` says meanwhile.
fn facts(world: &World, outboard: Option<&Outboard>, port: u16) -> (Value, Option<Value>) {
    let program = match outboard {
        Some(outboard) => outboard.on_engine(world, "python3"),
        None => world.program(Side::Server, "python3"),
    };
    let (mut process, file) = start(world, program, port);
    let address = SocketAddr::new(Side::Server.ipv4().into(), port);
    process
        .wait_until(PATIENCE, || {
            let rows = outboard.map(|outboard| outboard.sockets().unwrap_or_default());
            let listens = |rows: Vec<Value>| rows.iter().any(|row| row["state"] == "LISTEN");
            rows.is_none_or(listens) && world.is_reached(address)
        })
        .unwrap();
    let row = world
        .on(Side::Client, || {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"all of it\n")?;
            stream.read_exact(&mut vec![0; SIZE])?;
            stream.write_all(b"thanks\n")?;
            process.wait_until(PATIENCE, || file.exists())?;
            let rows = outboard.map(|outboard| outboard.sockets()).transpose()?;
            let ours = |row: &Value| row["peer"].is_string() && row["state"] == "ESTABLISHED";
            let row = rows.and_then(|rows| rows.into_iter().find(ours));
            stream.write_all(b"bye\n")?;
            Ok(row)
        })
        .unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    (serde_json::from_str(&text).unwrap(), row)
}

#[test]
fn a_program_reads_what_it_would_on_the_kernel() {
    if lab::skip_without("a_program_reads_what_it_would_on_the_kernel", &["python3"]) {
        return;
    }
    let world = World::new().unwrap();
    let (kernel, _) = facts(&world, None, 5001);
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine_with(&world, "").unwrap();
    let (engine, row) = facts(&world, Some(&outboard), 5002);
    let number = |facts: &Value, name: &str| facts[name].as_u64().unwrap();
    // The same on both.
    for name in [
        "state",
        "options",
        "snd_mss",
        "advmss",
        "pmtu",
        "bytes_acked",
        "bytes_received",
        "length",
        "unacked",
        "notsent_bytes",
        "lost",
        "ca_state",
        "probes",
        "backoff",
    ] {
        let ours = number(&engine, name);
        let theirs = number(&kernel, name);
        // The kernel counts the SYN as a byte.
        let slack = u64::from(name == "bytes_acked");
        assert!(ours.abs_diff(theirs) <= slack, "{name}: {ours}, {theirs}");
    }
    // What depends on time and chance lies where it can lie.
    for (name, low, high) in [
        ("rtt", 1, MOST_US),
        ("rttvar", 1, MOST_US),
        ("min_rtt", 1, MOST_US),
        ("rto", 100_000, MOST_US),
        ("snd_cwnd", 1, 100_000),
        ("reordering", 3, 300),
        ("snd_ssthresh", 2, 0x7fff_ffff),
        ("rcv_space", 10_000, 100_000_000),
        ("segs_in", 3, 10_000),
        ("segs_out", (SIZE / 1460) as u64, 10_000),
        ("delivery_rate", 1, 100_000_000_000),
        ("last_data_sent", 0, MOST_US / 1000),
        ("last_data_recv", 0, MOST_US / 1000),
    ] {
        let value = number(&engine, name);
        assert!((low..=high).contains(&value), "{name}: {value}");
    }
    let info = &row.expect("the connection is listed")["info"];
    assert_eq!(info["bytes_acked"], SIZE);
    assert_eq!(info["path_mtu"], 1500);
    assert!(number(info, "delivery_rate") > 0 && number(info, "rtt_us") > 0);
}

/// `struct tcp_bbr_info` of a connection to a program on the engine, and what `outboard ss` shows of it.
fn bbr(settings: &str) -> (Vec<u64>, Value) {
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine_with(&world, settings).unwrap();
    let (engine, row) = facts(&world, Some(&outboard), 5003);
    let told = engine["bbr"].as_array().unwrap();
    let told = told.iter().map(|value| value.as_u64().unwrap()).collect();
    (told, row.expect("the connection is listed")["info"].take())
}

#[test]
fn bbr_says_what_it_makes_of_the_path() {
    if lab::skip_without("bbr_says_what_it_makes_of_the_path", &["python3"]) {
        return;
    }
    let (told, info) = bbr("[tcp]\ncongestion = \"bbr\"\n");
    let [low, high, min_rtt, pacing_gain, cwnd_gain] = told[..] else {
        panic!("{told:?}");
    };
    assert!((high << 32 | low) > 0, "{told:?}");
    assert!((1..MOST_US).contains(&min_rtt), "{told:?}");
    // From ProbeRTT's half to Startup's 2.77, in steps of 1/256.
    assert!((128..=709).contains(&pacing_gain) && (128..=709).contains(&cwnd_gain));
    assert!(info["bbr"]["bandwidth"].as_u64().unwrap() > 0, "{info}");
    let (told, info) = bbr("");
    assert_eq!(told, [0; 5]);
    assert!(info["bbr"].is_null());
}
