//! The examples of programs that know of the engine, in C and in Rust, on the engine and on the kernel.

mod native_programs;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World};
use native_programs::{compile, example, library};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const ORIGIN: u16 = 6999;
/// That of the first program; the others are above.
const PORT: u16 = 7000;

/// Does `talk` on the client's side with each of `programs` on the server's side, without an engine
/// and with one. `further` are the words after the program's address.
fn on_both(
    programs: &[(PathBuf, Words)],
    world: &World,
    further: &str,
    talk: impl Fn(SocketAddr) + Sync,
) {
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), world);
    let log = world.scratch().join("program.log");
    // Each has a port of its own: an engine hears a little later that a program was killed, and answers at
    // its port until then.
    let mut ports = PORT..;
    let mut converse = || {
        for ((program, words), port) in programs.iter().zip(&mut ports) {
            let at = SocketAddr::from((Side::Server.ipv4(), port));
            let mut server = world
                .program(Side::Server, program)
                .env("OUTBOARD_SOCKET", outboard.socket())
                .args(words(at, further))
                .log(&log)
                .start()
                .expect("a server");
            server
                .wait_until(HANG, || world.is_reached(at) && outboard.takes(port))
                .expect("a server that listens");
            world
                .on(Side::Client, || {
                    talk(at);
                    Ok(())
                })
                .expect("a talk");
            assert!(
                server.ended().expect("its state").is_none(),
                "{}",
                server.printed()
            );
            server.kill().expect("an end");
        }
    };
    converse();
    let engine = outboard.start_engine(world, None).expect("an engine");
    converse();
    engine.stop(HANG).expect("an end");
}

/// How a program takes addresses: in C in two words, in Rust in one.
type Words = fn(SocketAddr, &str) -> Vec<String>;

fn in_c(at: SocketAddr, further: &str) -> Vec<String> {
    let further = further.split([' ', ':']).filter(|word| !word.is_empty());
    let own = [at.ip().to_string(), at.port().to_string()];
    own.into_iter().chain(further.map(str::to_owned)).collect()
}

fn in_rust(at: SocketAddr, further: &str) -> Vec<String> {
    let further = further.split(' ').filter(|word| !word.is_empty());
    std::iter::once(at.to_string())
        .chain(further.map(str::to_owned))
        .collect()
}

/// The example in C, and those in Rust, as far as they are built.
fn programs(world: &World, in_c_source: &str, others: &[&str]) -> Option<Vec<(PathBuf, Words)>> {
    let mut programs = vec![(compile(world, &library()?, in_c_source), in_c as Words)];
    for other in others {
        programs.push((example(other)?, in_rust));
    }
    Some(programs)
}

/// A test's network, if there can be one.
fn world(test: &str) -> Option<World> {
    let skipped = lab::skip_without(test, &["cc"]);
    (!skipped).then(|| World::new().expect("a private network"))
}

/// Sends `sent` and ends, and holds what comes back against it.
fn expect_echo(at: SocketAddr, sent: &[u8]) {
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.set_read_timeout(Some(HANG)).expect("a limit");
    let mut copy = stream.try_clone().expect("a second descriptor");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            copy.write_all(sent).expect("room");
            copy.shutdown(Shutdown::Write).expect("an end");
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("an echo");
        assert!(back == sent, "{} bytes came back", back.len());
    });
}

fn expect_echoes(at: SocketAddr) {
    std::thread::scope(|scope| {
        for client in 0..20_u8 {
            scope.spawn(move || {
                let bytes = (0..300_000_u32).map(|byte| (byte % 251) as u8 ^ client);
                // A thread is in the namespace of the one that made it.
                expect_echo(at, &bytes.collect::<Vec<_>>());
            });
        }
    });
}

/// Echoes, and asks in between how much was echoed, which the same loop answers.
fn expect_echoes_and_answers(at: SocketAddr) {
    let asks = UdpSocket::bind((Side::Client.ipv4(), 0)).expect("a port");
    asks.set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a limit");
    let start = std::time::Instant::now();
    let echoed = || loop {
        let mut bytes = [0; 64];
        // A datagram may be lost.
        asks.send_to(b"?", at).expect("a question");
        if let Ok(read) = asks.recv(&mut bytes) {
            let answer = std::str::from_utf8(&bytes[..read]).expect("text");
            return answer.parse::<usize>().expect("a number");
        }
        assert!(start.elapsed() < HANG, "no answer");
    };
    assert_eq!(echoed(), 0);
    expect_echoes(at);
    while echoed() < 20 * 300_000 {
        assert!(start.elapsed() < HANG, "it counts less");
    }
}

#[test]
fn a_loop_of_ones_own_waits_for_the_queue_and_for_more() {
    let Some(world) = world("a_loop_of_ones_own_waits_for_the_queue_and_for_more") else {
        return;
    };
    let others = ["echo_in_a_loop"];
    let Some(programs) = programs(&world, "examples/loop.c", &others) else {
        return;
    };
    on_both(&programs, &world, "", expect_echoes_and_answers);
}

#[test]
fn echoes_to_many_at_once() {
    let Some(world) = world("echoes_to_many_at_once") else {
        return;
    };
    let others = ["echo_by_completions", "echo_by_tokio"];
    let Some(programs) = programs(&world, "examples/echo.c", &others) else {
        return;
    };
    on_both(&programs, &world, "", expect_echoes);
}

/// What a client sends and what memcached answers; a star at the end stands for a line's rest.
const CONVERSATION: &[(&str, &str)] = &[
    ("get nothing\r\n", "END\r\n"),
    ("set a 5 0 3\r\nabc\r\n", "STORED\r\n"),
    ("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
    ("set b 0 0 0\r\n\r\n", "STORED\r\n"),
    (
        "get a nothing b\r\n",
        "VALUE a 5 3\r\nabc\r\nVALUE b 0 0\r\n\r\nEND\r\n",
    ),
    ("add a 1 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ("add c 1 0 1\r\nx\r\n", "STORED\r\n"),
    ("replace none 1 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ("replace c 2 0 2\r\nyz\r\n", "STORED\r\n"),
    ("append c 9 0 1\r\n!\r\n", "STORED\r\n"),
    ("prepend c 9 0 1\r\n?\r\n", "STORED\r\n"),
    ("append none 0 0 1\r\n!\r\n", "NOT_STORED\r\n"),
    (
        "gets c a\r\n",
        "VALUE c 2 4 6\r\n?yz!\r\nVALUE a 5 3 1\r\nabc\r\nEND\r\n",
    ),
    ("cas a 7 0 2 99\r\nno\r\n", "EXISTS\r\n"),
    ("cas none 7 0 2 99\r\nno\r\n", "NOT_FOUND\r\n"),
    ("cas a 7 0 2 1\r\nok\r\n", "STORED\r\n"),
    ("gets a\r\n", "VALUE a 7 2 7\r\nok\r\nEND\r\n"),
    ("delete a\r\n", "DELETED\r\n"),
    ("delete a\r\n", "NOT_FOUND\r\n"),
    ("set n 0 0 2\r\n10\r\n", "STORED\r\n"),
    ("incr n 5\r\n", "15\r\n"),
    ("decr n 6\r\n", "9\r\n"),
    ("get n\r\n", "VALUE n 0 2\r\n9 \r\nEND\r\n"),
    ("decr n 100\r\n", "0\r\n"),
    (
        "incr n 18446744073709551615\r\n",
        "18446744073709551615\r\n",
    ),
    ("incr n 2\r\n", "1\r\n"),
    ("incr none 2\r\n", "NOT_FOUND\r\n"),
    (
        "incr n x\r\n",
        "CLIENT_ERROR invalid numeric delta argument\r\n",
    ),
    (
        "incr c 1\r\n",
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    ),
    ("touch c 100\r\n", "TOUCHED\r\n"),
    ("touch none 100\r\n", "NOT_FOUND\r\n"),
    ("set gone 0 -1 1\r\nx\r\nget gone\r\n", "STORED\r\nEND\r\n"),
    ("touch c -1\r\nget c\r\n", "TOUCHED\r\nEND\r\n"),
    (
        "set q 0 0 1 noreply\r\nx\r\nget q\r\n",
        "VALUE q 0 1\r\nx\r\nEND\r\n",
    ),
    (
        "set i 0 0 1 noreply\r\n1\r\nincr i 1 noreply\r\ntouch i 0 noreply\r\nget i\r\n",
        "VALUE i 0 1\r\n2\r\nEND\r\n",
    ),
    ("delete q noreply\r\nget q\r\n", "END\r\n"),
    ("version\r\n", "VERSION *"),
    ("nonsense\r\n", "ERROR\r\n"),
    ("get\r\n", "ERROR\r\n"),
    ("\r\n", "ERROR\r\n"),
    (
        "set a 0 0 x\r\n",
        "CLIENT_ERROR bad command line format\r\n",
    ),
    (
        "set d 0 0 1\r\nx\r\nflush_all\r\nget d b n\r\n",
        "STORED\r\nOK\r\nEND\r\n",
    ),
    (
        "set d 0 0 1\r\nx\r\nflush_all noreply\r\nget d\r\n",
        "STORED\r\nEND\r\n",
    ),
];

/// Reads what is expected, and no more.
fn expect(stream: &mut TcpStream, after: &str, expected: &str) {
    let mut answer = vec![0; expected.trim_end_matches('*').len()];
    stream.read_exact(&mut answer).expect("an answer");
    let mut answer = String::from_utf8_lossy(&answer).into_owned();
    if expected.ends_with('*') {
        let mut byte = [0];
        while byte != *b"\n" {
            stream.read_exact(&mut byte).expect("a line");
        }
        answer.push('*');
    }
    assert_eq!(answer, expected, "after {after:?}");
}

/// A connection that does not wait without end.
fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("a connection");
    stream.set_nodelay(true).expect("an option");
    stream.set_read_timeout(Some(HANG)).expect("a limit");
    stream
}

/// Holds a server against memcached's answers.
fn expect_a_store(at: SocketAddr) {
    let mut stream = connect(at);
    for (sent, expected) in CONVERSATION {
        stream.write_all(sent.as_bytes()).expect("room");
        expect(&mut stream, sent, expected);
    }
    // In pieces, wherever they are cut.
    let whole = "set p 0 0 5\r\n12345\r\nget p none p\r\nincr p 1\r\n";
    let value = "VALUE p 0 5\r\n12345\r\n";
    let expected = format!("STORED\r\n{value}{value}END\r\n12346\r\n");
    for cut in 1..whole.len() {
        for piece in [&whole[..cut], &whole[cut..]] {
            stream.write_all(piece.as_bytes()).expect("room");
        }
        expect(&mut stream, "pieces", &expected);
    }
    // Many at once, by who reads nothing before all is sent; large ones; one that is too large.
    let value = "v".repeat(1_000_000);
    for key in 0..8 {
        let set = format!("set big{key} 1 0 {}\r\n{value}\r\n", value.len());
        stream.write_all(set.as_bytes()).expect("room");
        expect(&mut stream, "a large set", "STORED\r\n");
    }
    let keys: Vec<String> = (0..8).map(|key| format!("big{key}")).collect();
    let get = format!("get {}\r\n", keys.join(" "));
    stream.write_all(get.repeat(2).as_bytes()).expect("room");
    for _ in 0..2 {
        for key in &keys {
            let answer = format!("VALUE {key} 1 {}\r\n{value}\r\n", value.len());
            expect(&mut stream, "a large get", &answer);
        }
        expect(&mut stream, "a large get", "END\r\n");
    }
    let too_large = 3 << 20;
    let set = format!("set big0 1 0 {too_large}\r\n{}\r\n", "x".repeat(too_large));
    stream.write_all(set.as_bytes()).expect("room");
    expect(
        &mut stream,
        "too much",
        "SERVER_ERROR object too large for cache\r\n",
    );
    let many = "set m 0 0 1\r\n1\r\nincr m 1\r\nget m\r\n";
    stream.write_all(many.repeat(100).as_bytes()).expect("room");
    let expected = "STORED\r\n2\r\nVALUE m 0 1\r\n2\r\nEND\r\n";
    expect(&mut stream, "many", &expected.repeat(100));
    stream.write_all(b"quit\r\n").expect("room");
    assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
    // Whoever leaves in the middle of a value is forgotten.
    let mut leaves = connect(at);
    leaves.write_all(b"set left 0 0 10\r\nx").expect("room");
    drop(leaves);
    let mut stream = connect(at);
    stream.write_all(b"get left\r\n").expect("room");
    expect(&mut stream, "one that left", "END\r\n");
}

/// Keeps twice as much as there is memory for: what is asked for again and again stays, and the rest goes in
/// its turn.
fn expect_a_bound(at: SocketAddr) {
    let mut stream = connect(at);
    let value = "b".repeat(1_000_000);
    let wanted = "VALUE wanted 0 1\r\nw\r\nEND\r\n";
    stream
        .write_all(b"set wanted 0 0 1\r\nw\r\n")
        .expect("room");
    expect(&mut stream, "a set", "STORED\r\n");
    for key in 0..128 {
        let set = format!("set turn{key} 0 0 {}\r\n{value}\r\n", value.len());
        stream.write_all(set.as_bytes()).expect("room");
        expect(&mut stream, "a set of many", "STORED\r\n");
        stream.write_all(b"get wanted\r\n").expect("room");
        expect(&mut stream, "what is in use", wanted);
    }
    let mut kept = 0;
    for key in 0..128 {
        let get = format!("get turn{key}\r\n");
        stream.write_all(get.as_bytes()).expect("room");
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        if byte == *b"V" {
            kept += 1;
            let rest = format!("ALUE turn{key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
            expect(&mut stream, "one that stayed", &rest);
        } else {
            expect(&mut stream, "one that has gone", "ND\r\n");
        }
        assert!(byte == *b"V" || key < 127, "the last has gone");
    }
    assert!(
        (1..=64 << 20).contains(&(kept * value.len())),
        "{kept} stayed"
    );
}

#[test]
fn the_store_answers_as_memcached_does() {
    let Some(world) = world("the_store_answers_as_memcached_does") else {
        return;
    };
    let others = ["store_by_completions"];
    let Some(programs) = programs(&world, "examples/store.c", &others) else {
        return;
    };
    on_both(&programs, &world, "", |at| {
        expect_a_store(at);
        expect_a_bound(at);
    });
    if lab::skip_without("memcached's own answers", &["memcached"]) {
        return;
    }
    let at = SocketAddr::from((Side::Server.ipv4(), PORT));
    let mut memcached = world
        .program(Side::Server, "memcached")
        .args([
            "-u",
            "nobody",
            "-l",
            &at.ip().to_string(),
            "-p",
            &PORT.to_string(),
        ])
        .log(world.scratch().join("memcached.log"))
        .start()
        .expect("memcached");
    memcached
        .wait_until(HANG, || world.is_reached(at))
        .expect("memcached");
    world
        .on(Side::Client, || {
            expect_a_store(at);
            Ok(())
        })
        .expect("a talk");
}

/// A listener behind the proxy.
fn origin() -> TcpListener {
    TcpListener::bind((Side::Client.ipv4(), ORIGIN)).expect("a port")
}

fn expect_a_proxy(at: SocketAddr) {
    // Nobody is there: the client is told, maybe before its connect returns.
    let told = TcpStream::connect(at).and_then(|mut stream| {
        stream.set_read_timeout(Some(HANG))?;
        stream.read(&mut [0])
    });
    let reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(
        matches!(&told, Ok(0)) || told.as_ref().is_err_and(reset),
        "{told:?}"
    );

    // Both ways, and each end on its own.
    let listener = origin();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                let mut stream = listener.accept().expect("a proxy").0;
                scope.spawn(move || {
                    let mut copy = stream.try_clone().expect("a second descriptor");
                    std::io::copy(&mut stream, &mut copy).expect("an echo");
                });
            }
        });
        expect_echoes(at);
    });

    // The server ends first, and still hears the client.
    let mut client = connect(at);
    let mut server = listener.accept().expect("a proxy").0;
    server.write_all(b"first").expect("room");
    server.shutdown(Shutdown::Write).expect("an end");
    let mut heard = String::new();
    client.read_to_string(&mut heard).expect("an end");
    assert_eq!(heard, "first");
    client.write_all(b"second").expect("room");
    drop(client);
    heard.clear();
    server.set_read_timeout(Some(HANG)).expect("a limit");
    server.read_to_string(&mut heard).expect("an end");
    assert_eq!(heard, "second");

    // Whoever does not read holds up who sends, before much is kept on the way.
    let mut client = connect(at);
    let mut server = listener.accept().expect("a proxy").0;
    // On a machine that stands still less is sent, which is right, too.
    client
        .set_write_timeout(Some(Duration::from_secs(1)))
        .expect("a limit");
    let (most, mut sent) = (256 << 20, 0);
    let piece = vec![7; 1 << 20];
    while sent < most {
        match client.write(&piece) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < most, "all of {sent} bytes were taken");
    drop(client);
    server.set_read_timeout(Some(HANG)).expect("a limit");
    let arrived = std::io::copy(&mut server, &mut std::io::sink()).expect("an end");
    assert_eq!(arrived, sent as u64);

    // A reset is passed on.
    let client = connect(at);
    let mut server = listener.accept().expect("a proxy").0;
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("an option");
    drop(client);
    server.set_read_timeout(Some(HANG)).expect("a limit");
    let told = server.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(told, Err(ErrorKind::ConnectionReset));
}

#[test]
fn the_proxy_passes_bytes_ends_and_resets_both_ways() {
    let Some(world) = world("the_proxy_passes_bytes_ends_and_resets_both_ways") else {
        return;
    };
    let others = ["proxy_by_completions"];
    let Some(programs) = programs(&world, "examples/proxy.c", &others) else {
        return;
    };
    let origin = format!("{}:{ORIGIN}", Side::Client.ipv4());
    on_both(&programs, &world, &origin, expect_a_proxy);
}
