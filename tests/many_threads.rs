//! Many threads wait, each for its own connection or all for the next: whom the news concerns is woken, and
//! no other.
#![forbid(unsafe_code)]

mod example;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World, skip_without_root};

const THREADS: usize = 1000;
const REQUESTS: usize = 2000;
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the threads of a process went to sleep so far.
fn sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let line = status.lines().find(|line| line.starts_with("voluntary"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

#[test]
fn of_a_thousand_threads_the_right_one_is_woken() {
    if skip_without_root("of_a_thousand_threads_the_right_one_is_woken") {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).expect("an engine");
    let address = SocketAddr::new(Side::Server.ipv4().into(), 7000);
    let server = outboard
        .on_engine(&world, example::build("thread_echo"))
        .arg(address.to_string())
        .start()
        .expect("the server starts");
    let asked = world.on(Side::Client, || {
        let mut clients: Vec<TcpStream> = Vec::new();
        while clients.len() < THREADS {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(client) => {
                    client.set_nodelay(true).expect("no delay");
                    client.set_read_timeout(Some(PATIENCE)).expect("a limit");
                    clients.push(client);
                }
                // It does not listen yet.
                Err(_) if clients.is_empty() => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => panic!("connect: {error}"),
            }
        }
        let mut ask = |number: usize| {
            let client = &mut clients[number % THREADS];
            let mut byte = [b'x'];
            client.write_all(&byte).expect("a request");
            client.read_exact(&mut byte).expect("an answer");
        };
        // Everyone is there, and has slept once.
        (0..THREADS).for_each(&mut ask);
        let before = sleeps(server.id());
        // Nobody looks now and then whether anything has come.
        std::thread::sleep(Duration::from_millis(500));
        let idle = sleeps(server.id()) - before;
        // One after the other, far apart.
        (0..REQUESTS).for_each(|number| ask(number * 7));
        let woken = sleeps(server.id()) - before - idle;
        println!("{REQUESTS} requests: {woken} sleeps, {idle} while idle");
        assert!(idle <= 20, "{idle} sleeps while nothing came");
        // A request ends one sleep. Now and then a thread that has to do so hands the watch over, and
        // a lock or a slow engine makes some go to sleep twice.
        assert!(woken <= 2 * REQUESTS as u64, "{woken} sleeps");
        Ok(())
    });
    asked.expect("the client's network");
    let counters = outboard.stats().expect("the engine counts");
    let accepted = lab::outboard::total(&counters, "handed_over");
    // While the machine stands still, new clients are left to the kernel.
    let enough = THREADS as f64 / 10.0;
    assert!(accepted >= enough, "{accepted} accepted by the engine");
}

/// Threads of `tests/many_threads/waiting.py` that poll: more than an engine has bells for.
const POLLING: usize = 100;
const TURNS: usize = 400;

#[test]
fn threads_that_accept_or_poll_are_woken_one_at_a_time() {
    let name = "threads_that_accept_or_poll_are_woken_one_at_a_time";
    if lab::skip_without(name, &["python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).expect("an engine");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/many_threads/waiting.py");
    let mut server = outboard
        .on_engine(&world, "python3")
        .arg(script)
        .log(world.scratch().join("server.log"))
        .start()
        .expect("python starts");
    server
        .wait_until(PATIENCE, || outboard.takes(7000) && outboard.takes(7001))
        .expect("it listens");
    let connect = |port| {
        let address = SocketAddr::new(Side::Server.ipv4().into(), port);
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("connects");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream
    };
    let waited = world.on(Side::Client, || {
        let accepted = || {
            let mut byte = [0];
            connect(7000).read_exact(&mut byte).expect("it is accepted");
        };
        let mut polled: Vec<TcpStream> = (0..POLLING).map(|_| connect(7001)).collect();
        let mut ask = |number: usize| {
            let client = &mut polled[number % POLLING];
            let mut byte = [b'x'];
            client.write_all(&byte).expect("a request");
            client.read_exact(&mut byte).expect("an answer");
        };
        // Everyone is there, and has slept once.
        (0..200).for_each(|_| accepted());
        (0..POLLING).for_each(&mut ask);
        std::thread::sleep(Duration::from_millis(300));
        let before = sleeps(server.id());
        std::thread::sleep(Duration::from_millis(500));
        let idle = sleeps(server.id()) - before;
        (0..TURNS).for_each(|_| accepted());
        let accepting = sleeps(server.id()) - before - idle;
        (0..TURNS).for_each(|number| ask(number * 7));
        let polling = sleeps(server.id()) - before - idle - accepting;
        println!("{TURNS} turns: {accepting} and {polling} sleeps, {idle} while idle");
        assert!(idle <= 40, "{idle} sleeps while nothing came");
        // The one that has it, the next that watches, and both watch for others where nothing of theirs
        // has come; the rest is Python's own lock.
        let most = 16 * TURNS as u64;
        assert!(accepting <= most, "{accepting} sleeps to accept");
        assert!(polling <= most, "{polling} sleeps to poll");
        Ok(())
    });
    waited.expect("the client's network");
}
