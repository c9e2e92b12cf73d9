//! A thousand threads wait, each for its own connection: whose news has come is woken, and no other.
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
