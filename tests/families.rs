//! Families of processes on the engine, unmodified: what a fork left to several of them they share as
//! they do on the kernel.

mod scene;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use lab::outboard::total;
use lab::{Side, World};
use scene::Scene;

const LIMIT: Duration = Duration::from_secs(120);

fn address() -> SocketAddr {
    (Side::Server.ipv4(), 7000).into()
}

fn start(name: &str) -> Scene {
    Scene::start(&format!("families/{name}"), 1, LIMIT)
}

impl Scene {
    fn counted(&self, name: &str) -> f64 {
        total(&self.outboard.stats().expect("the engine answers"), name)
    }
}

fn rest(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn each_byte_is_read_by_one_of_several_processes() {
    if lab::skip_without(
        "each_byte_is_read_by_one_of_several_processes",
        &["python3"],
    ) {
        return;
    }
    let scene = start("several_readers.py");
    const ROUNDS: usize = 4000;
    for round in 0..4 {
        let mut stream = scene.connect(7000);
        let bytes: Vec<u8> = (0..251 * ROUNDS).map(|i| (i % 251) as u8).collect();
        // In pieces of every size.
        let mut at = 0;
        for size in [1, 10, 1000, 5000, 60_000].into_iter().cycle() {
            let end = (at + size).min(bytes.len());
            stream.write_all(&bytes[at..end]).expect("taken");
            at = end;
            if at == bytes.len() {
                break;
            }
        }
        stream.shutdown(Shutdown::Write).expect("a connection");
        let total = 251 * ROUNDS;
        assert_eq!(
            rest(&mut stream),
            format!("{total} 0 {ROUNDS} {ROUNDS}"),
            "round {round}"
        );
    }
    assert!(scene.counted("grants_moved") > 0.0, "nobody shared");
    assert_eq!(scene.counted("violations"), 0.0);
}

#[test]
fn a_parent_reads_on_where_it_was_when_it_forked() {
    if lab::skip_without(
        "a_parent_reads_on_where_it_was_when_it_forked",
        &["python3", "sha256sum"],
    ) {
        return;
    }
    let scene = start("read_across_a_fork.py");
    for length in [20_001, 20_100, 400_000] {
        let mut stream = scene.connect(7000);
        let bytes: Vec<u8> = (0..length as u32).map(|i| (i * 7 % 253) as u8).collect();
        stream.write_all(&bytes[..20_000]).expect("taken");
        let mut go = [0; 2];
        stream.read_exact(&mut go).expect("it has forked");
        stream.write_all(&bytes[20_000..20_001]).expect("taken");
        stream.write_all(&bytes[20_001..]).expect("taken");
        stream.shutdown(Shutdown::Write).expect("a connection");
        let file = scene.world.scratch().join("sent");
        std::fs::write(&file, &bytes).expect("a file");
        let wanted = scene
            .world
            .program(Side::Client, "sha256sum")
            .arg(&file)
            .output()
            .expect("a hash");
        let hash = wanted.split_whitespace().next().expect("a hash");
        assert_eq!(rest(&mut stream), hash, "{length} bytes");
    }
}

#[test]
fn a_child_that_waits_before_it_reads_hears_of_its_data() {
    if lab::skip_without(
        "a_child_that_waits_before_it_reads_hears_of_its_data",
        &["python3"],
    ) {
        return;
    }
    let scene = start("child_that_polls.py");
    // Many children at once, with one session each.
    let mut streams: Vec<TcpStream> = (0..100).map(|_| scene.connect(7000)).collect();
    for round in 0..3 {
        for (number, stream) in streams.iter_mut().enumerate() {
            write!(stream, "{round} {number:03}").expect("taken");
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(answer, format!("{round} {number:03}").as_bytes());
        }
    }
}

#[test]
fn writers_that_take_turns_are_heard_in_their_order() {
    if lab::skip_without(
        "writers_that_take_turns_are_heard_in_their_order",
        &["python3"],
    ) {
        return;
    }
    let scene = start("writers.py");
    for _ in 0..2 {
        let mut stream = scene.connect(7000);
        let heard = rest(&mut stream);
        let wanted: String = (0..300)
            .flat_map(|turn| (0..3).map(move |who| format!("{turn}:{who}\n")))
            .collect();
        assert!(heard == wanted, "{heard}");
    }
    assert!(scene.counted("shared_sends") > 0.0, "nobody shared");
}

#[test]
fn nobody_waits_behind_a_process_that_works() {
    if lab::skip_without("nobody_waits_behind_a_process_that_works", &["python3"]) {
        return;
    }
    let scene = start("prefork.py");
    // Three of four processes are busy, for seconds.
    let mut slow: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = scene.connect(7000);
            stream.write_all(b"slow").expect("taken");
            stream
        })
        .collect();
    // Not before they are: each is accepted by a process of its own, whichever.
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    let mut answered = 0;
    while answered < 40 {
        let mut stream = scene.connect(7000);
        stream.write_all(b"quick").expect("taken");
        assert!(!rest(&mut stream).is_empty());
        answered += 1;
        if begin.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    for stream in &mut slow {
        assert!(!rest(stream).is_empty());
    }
    assert_eq!(answered, 40, "the others waited for those that work");
}

#[test]
fn a_child_that_accepts_none_is_offered_none() {
    if lab::skip_without("a_child_that_accepts_none_is_offered_none", &["python3"]) {
        return;
    }
    let scene = start("forking.py");
    // Each has a child that lives on, and that has told the engine of itself.
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..40 {
        let mut stream = scene.connect(7000);
        let mut echo = [0];
        stream.write_all(b"x").expect("taken");
        stream.read_exact(&mut echo).expect("an answer");
        streams.push(stream);
    }
    assert_eq!(scene.counted("handed_over"), 40.0);
    assert_eq!(scene.counted("given_back"), 0.0, "by those who serve one");
}

#[test]
fn children_wait_in_a_set_of_their_parent() {
    if lab::skip_without("children_wait_in_a_set_of_their_parent", &["python3"]) {
        return;
    }
    let scene = start("set_of_a_parent.py");
    for _ in 0..20 {
        let mut stream = scene.connect(7000);
        stream.write_all(b"who?").expect("taken");
        assert!(!rest(&mut stream).is_empty());
    }
    assert!(scene.counted("handed_over") >= 20.0);
}

#[test]
fn a_child_without_an_engine_serves_by_the_kernel() {
    if lab::skip_without(
        "a_child_without_an_engine_serves_by_the_kernel",
        &["python3"],
    ) {
        return;
    }
    let scene = start("child_that_polls.py");
    let Scene {
        world,
        outboard,
        _engine: engine,
        mut server,
        ..
    } = scene;
    engine.kill().expect("it was running");
    // Each connection forks a child whose parent's engine is gone.
    let echo = |world: &World| {
        let mut stream = world
            .on(Side::Client, || {
                let stream = TcpStream::connect_timeout(&address(), LIMIT)?;
                stream.set_read_timeout(Some(LIMIT))?;
                Ok(stream)
            })
            .expect("connects");
        stream.write_all(b"still served").expect("taken");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"still served");
    };
    for _ in 0..20 {
        echo(&world);
    }
    assert!(server.ended().expect("its state").is_none());
    // And by the next engine when there is one.
    let _engine = outboard.start_engine(&world, None).expect("another engine");
    server
        .wait_until(LIMIT, || {
            echo(&world);
            let rows = outboard.sockets().unwrap_or_default();
            rows.iter().any(|row| row["state"] == "LISTEN")
        })
        .expect("it attaches again");
    echo(&world);
}

#[test]
fn a_program_with_threads_may_fork_while_they_work() {
    if lab::skip_without(
        "a_program_with_threads_may_fork_while_they_work",
        &["python3"],
    ) {
        return;
    }
    let scene = start("threads_that_fork.py");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let mut stream = scene.connect(7000);
            let done = &done;
            scope.spawn(move || {
                // Its children may be told of these bytes, and read none of them.
                for round in 0u32.. {
                    let sent = format!("{round:08}");
                    stream.write_all(sent.as_bytes()).expect("taken");
                    let mut answer = [0; 8];
                    stream.read_exact(&mut answer).expect("an answer");
                    assert_eq!(answer, sent.as_bytes());
                    if done.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut stream = scene.connect(7000);
        stream.write_all(b"fork").expect("taken");
        let mut answer = [0; 5];
        let read = stream.read_exact(&mut answer);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        read.expect("an answer");
        assert_eq!(&answer, b"150 0");
    });
}

#[test]
fn a_child_is_known_to_the_engine_when_it_uses_a_socket() {
    let test = "a_child_is_known_to_the_engine_when_it_uses_a_socket";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let scene = start("quiet_children.py");
    let told = |what: &str| {
        let mut stream = scene.connect(7000);
        stream.write_all(what.as_bytes()).expect("taken");
        rest(&mut stream)
    };
    for what in ["names", "closes", "ends", "becomes nobody"] {
        assert_eq!(told(what), "0", "{what}");
        assert_eq!(scene.counted("sessions"), 1.0, "{what}");
    }
    assert_eq!(told("writes"), "child 0");
    assert_eq!(scene.counted("sessions"), 2.0);
    // The engine is within reach of everybody, and asked when it is wanted.
    assert_eq!(told("writes as nobody"), "child 0");
    assert_eq!(scene.counted("sessions"), 3.0);
    // Or it is not, and who gives up his rights is known before.
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(scene.world.scratch(), mode).expect("its mode");
    assert_eq!(told("writes as nobody"), "child 0");
    assert_eq!(scene.counted("sessions"), 4.0);
    assert_eq!(told("ends"), "0");
    assert_eq!(scene.counted("sessions"), 4.0);
}
