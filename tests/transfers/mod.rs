//! Transfers of random size and pattern between two sides of a world: what the tests that hold the
//! engine's TCP against the kernel's have in common.
//!
//! On each side run two programs, one that accepts and one that connects, so that either side is
//! client and server. The programs are the test binary itself ([`program`]), on the engine or not.

mod end;
mod plan;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Process, Side, World};

use end::{Ended, Stretch};
use plan::{Content, End, Transfer};

/// The name of the test that is such a program: each test file has it.
pub const PROGRAM: &str = "an_end_of_transfers";
/// All transfers together take no longer than this.
const LIMIT: Duration = Duration::from_secs(240);
/// Connections that one program opens at once.
const AT_ONCE: usize = 16;

/// The transfers of a test.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    pub seed: u64,
    pub count: u64,
}

impl Series {
    /// The side that accepts a transfer. They take turns, and so do the families of addresses.
    fn acceptor(id: u64) -> Side {
        match id % 2 {
            0 => Side::Server,
            _ => Side::Client,
        }
    }

    fn address(id: u64) -> SocketAddr {
        let side = Self::acceptor(id);
        let address: IpAddr = match id / 2 % 2 {
            0 => side.ipv4().into(),
            _ => side.ipv6().into(),
        };
        (address, port(side)).into()
    }

    fn accepted_by(self, side: Side) -> impl Iterator<Item = u64> {
        (0..self.count).filter(move |&id| Self::acceptor(id) == side)
    }
}

/// Where the server's side listens, and the client's.
pub const PORTS: [u16; 2] = [7_001, 7_002];

fn port(side: Side) -> u16 {
    match side {
        Side::Server => PORTS[0],
        Side::Client => PORTS[1],
    }
}

/// One of the four programs, if the environment says which.
pub fn program() {
    let variable = |name: &str| std::env::var(format!("OUTBOARD_TEST_{name}"));
    let Ok(role) = variable("ROLE") else { return };
    let number = |name| variable(name).expect("set").parse().expect("a number");
    let series = Series {
        seed: number("SEED"),
        count: number("COUNT"),
    };
    let side = |word: &str| match word {
        "server" => Side::Server,
        _ => Side::Client,
    };
    match role.split_once(' ').expect("two words") {
        ("accept", at) => accept(series, side(at)),
        (_, at) => connect(series, side(at)),
    }
}

/// Accepts the transfers that are meant for this side.
fn accept(series: Series, side: Side) {
    let families = [IpAddr::from(side.ipv4()), side.ipv6().into()];
    let listeners = families.map(|address| {
        let address = SocketAddr::from((address, port(side)));
        let mine = series.accepted_by(side);
        let count = mine.filter(|&id| Series::address(id) == address).count();
        (TcpListener::bind(address).expect("listen"), count)
    });
    println!("\nlistening");
    std::thread::scope(|scope| {
        for (listener, count) in &listeners {
            scope.spawn(move || {
                for _ in 0..*count {
                    let (mut stream, _) = listener.accept().expect("accept");
                    scope.spawn(move || {
                        stream.set_read_timeout(Some(end::STALL)).expect("limit");
                        let mut id = [0; 8];
                        stream.read_exact(&mut id).expect("the transfer's number");
                        run_end(&stream, series, u64::from_be_bytes(id), End::Server);
                    });
                }
            });
        }
    });
}

/// Makes the connections of this side.
fn connect(series: Series, side: Side) {
    let other = match side {
        Side::Server => Side::Client,
        Side::Client => Side::Server,
    };
    println!();
    let ids: Vec<u64> = series.accepted_by(other).collect();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(&id) = ids.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let stream = TcpStream::connect(Series::address(id));
                    let mut stream = stream.unwrap_or_else(|e| panic!("transfer {id}: {e}"));
                    stream.write_all(&id.to_be_bytes()).expect("the number");
                    run_end(&stream, series, id, End::Client);
                }
            });
        }
    });
}

/// One end of one transfer, and a line about it.
fn run_end(stream: &TcpStream, series: Series, id: u64, end: End) {
    let transfer = Transfer::new(series.seed, id);
    let line = match end::run(stream, &transfer, end) {
        Ok(stretches) => {
            let [sent, received] = stretches.map(|Stretch { bytes, hash, ended }| {
                format!("{bytes} {hash} {}", u8::from(ended == Ended::Reset))
            });
            format!("transfer {id} {} {sent} {received}\n", end as u8)
        }
        Err(error) => format!("failed {id} {end:?}: {error}\n"),
    };
    // In one piece, past the harness: other ends write as well.
    std::io::stdout().write_all(line.as_bytes()).expect("a log");
}

/// Runs the transfers between the two sides; the server's side is on the engine if there is one.
/// Panics if any byte is not what it should be.
pub fn run(world: &World, engine: Option<&Outboard>, series: Series) {
    let log = |side: Side, what: &str| {
        let name = format!("{what}-{}.log", side.interface());
        world.scratch().join(name)
    };
    let start = |side: Side, what: &str| {
        let binary = std::env::current_exe().expect("ourselves");
        let program = match (side, engine) {
            (Side::Server, Some(outboard)) => outboard.on_engine(world, binary),
            _ => world.program(side, binary),
        };
        let role = match side {
            Side::Server => format!("{what} server"),
            Side::Client => format!("{what} client"),
        };
        program
            .args(["--ignored", "--exact", "--nocapture", PROGRAM])
            .env("OUTBOARD_TEST_ROLE", role)
            .env("OUTBOARD_TEST_SEED", series.seed.to_string())
            .env("OUTBOARD_TEST_COUNT", series.count.to_string())
            .log(log(side, what))
            .start()
            .expect("a program")
    };
    let sides = [Side::Server, Side::Client];
    let mut programs = Vec::from(sides.map(|side| start(side, "accept")));
    for (program, side) in programs.iter_mut().zip(sides) {
        let log = log(side, "accept");
        let listens = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("listening"));
        program.wait_until(LIMIT, listens).expect("a listener");
    }
    programs.extend(sides.map(|side| start(side, "connect")));
    let mut ends = Ends::new();
    for program in programs.iter_mut().rev() {
        let status = program.wait(LIMIT);
        read(program, series, &mut ends);
        let well = status.as_ref().is_ok_and(|status| status.success());
        assert!(
            well,
            "seed {}: {status:?}\n{}",
            series.seed,
            program.printed()
        );
    }
    for id in 0..series.count {
        check(&Transfer::new(series.seed, id), &ends);
    }
}

/// What each end of each transfer has sent and received.
type Ends = HashMap<(u64, u8), [Stretch; 2]>;

fn read(program: &Process, series: Series, ends: &mut Ends) {
    for line in program.printed().lines() {
        assert!(!line.starts_with("failed"), "seed {}: {line}", series.seed);
        let Some(rest) = line.strip_prefix("transfer ") else {
            continue;
        };
        let n: Vec<u64> = rest
            .split(' ')
            .map(|n| n.parse().expect("a number"))
            .collect();
        let stretch = |at: usize| Stretch {
            bytes: n[at],
            hash: n[at + 1],
            ended: if n[at + 2] == 0 {
                Ended::Well
            } else {
                Ended::Reset
            },
        };
        ends.insert((n[0], n[1] as u8), [stretch(2), stretch(5)]);
    }
}

/// Whether both ends of a transfer tell the same, and what was planned.
fn check(transfer: &Transfer, ends: &Ends) {
    for end in [End::Client, End::Server] {
        let of = |end: End| ends.get(&(transfer.id, end as u8));
        let (Some([sent, _]), Some([_, received])) = (of(end), of(end.other())) else {
            panic!("an end is missing of {transfer:?}");
        };
        let both = format!("{transfer:?}, from the {end:?}: {sent:?}, {received:?}");
        if transfer.aborts() {
            assert!(received.bytes <= transfer.sends(end), "{both}");
            let hash = Content::hash_of(transfer, end, received.bytes);
            assert_eq!(received.hash, hash, "{both}");
        } else {
            assert_eq!(sent.bytes, transfer.sends(end), "{both}");
            assert_eq!(sent, received, "{both}");
        }
    }
    if let plan::Kind::Abort(who, after) = transfer.kind {
        let aborter = ends[&(transfer.id, who as u8)];
        let other = ends[&(transfer.id, who.other() as u8)];
        assert_eq!(aborter[1].bytes, after, "{transfer:?}");
        // What it did not want to hear has come back as an error.
        assert_eq!(other[0].ended, Ended::Reset, "{transfer:?}");
    }
}
