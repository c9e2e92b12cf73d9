//! What programs on the engine cannot have, and that the operator is told.

#[path = "told/executed.rs"]
mod executed;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Process, Program, Side, World};

const LIMIT: Duration = Duration::from_secs(60);
/// Why a socket stays with the kernel that could not be told of in its epoll set.
const NO_ROOM: &str = "there are no descriptors or watches left";
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/told")
        .join(name)
}

/// Waits until `outboard explain` has a line about `process` that `is_meant` accepts.
fn await_line(
    outboard: &Outboard,
    world: &World,
    process: &mut Process,
    is_meant: impl Fn(&str) -> bool,
) {
    let pid = process.id().to_string();
    let mut explained = String::new();
    let waited = process.wait_until(LIMIT, || {
        let explain = outboard.command(world, "explain").arg(&pid);
        explained = explain.output().unwrap_or_default();
        explained.lines().any(&is_meant)
    });
    let printed = process.printed();
    waited.unwrap_or_else(|error| panic!("{error:#}\n{explained}\n{printed}"));
}

#[test]
fn a_server_that_the_engine_never_takes_is_explained_where_it_is_awaited() {
    let test = "a_server_that_the_engine_never_takes_is_explained_where_it_is_awaited";
    if lab::skip_without(test, &["sleep"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let sleeping = world.program(lab::Side::Server, "sleep").arg("600");
    let mut sleeping = sleeping.start().expect("it starts");
    let limit = Duration::from_millis(50);
    let error = outboard
        .wait_until_taken(&mut sleeping, limit, 80, || true)
        .expect_err("it listens nowhere");
    let said = error.to_string();
    let pid = sleeping.id().to_string();
    let (before, explained) = said
        .split_once("outboard explain says: ")
        .expect("explained");
    assert!(before.contains("is not ready after"), "{said}");
    assert!(explained.contains(&pid), "{said}");
    sleeping.kill().expect("killed");
    engine.stop(LIMIT).expect("an end");
}

#[test]
fn io_uring_is_refused_and_this_is_said() {
    if lab::skip_without("io_uring_is_refused_and_this_is_said", &["python3"]) {
        return;
    }
    let refused = |line: &str| {
        line.contains("call")
            && line.ends_with(
                "io_uring is refused: its calls do not pass through the engine; \
                 the program uses other calls",
            )
    };
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let start = |program: Program, when: &str| {
        program
            .arg(script("without_io_uring.py"))
            .arg(when)
            .log(world.scratch().join(when))
            .start()
            .expect("python starts")
    };
    let strict = outboard
        .command(&world, "run")
        .args(["--strict", "--", "python3"]);
    let mut strict = start(strict, "after");
    await_line(&outboard, &world, &mut strict, refused);
    drop(strict);

    let mut program = start(outboard.on_engine(&world, "python3"), "before");
    await_line(&outboard, &world, &mut program, refused);
    let printed = program.printed();
    let answers: Vec<_> = printed.lines().collect();
    assert_eq!(
        answers,
        [
            "syscall -1 ENOSYS",
            "io_uring_setup ENOSYS",
            "io_uring_queue_init ENOSYS",
            "io_uring_queue_init_params ENOSYS",
            "io_uring_queue_init_mem ENOSYS",
        ]
    );

    // An engine that comes later is told too.
    engine.kill().expect("the engine is killed");
    let _engine = outboard
        .start_engine(&world, None)
        .expect("another engine starts");
    await_line(&outboard, &world, &mut program, refused);
}

#[test]
fn a_connection_that_is_lost_in_exec_is_told_of() {
    let test = "a_connection_that_is_lost_in_exec_is_told_of";
    if lab::skip_without(test, &["python3", "cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    // The kernel looks at what is in it, and refuses it.
    let no_program = world.scratch().join("no_program");
    std::fs::write(&no_program, "no program").expect("a file");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&no_program, executable).expect("its mode");
    let successor = static_program(&world);
    let mut program = outboard
        .on_engine(&world, "python3")
        .arg(script("passes_its_connection.py"))
        .args([&no_program, &successor])
        .log(world.scratch().join("program"))
        .start()
        .expect("python starts");
    let of_engine = |line: &str| line.contains("listener") && line.contains(" engine ");
    await_line(&outboard, &world, &mut program, of_engine);
    let address: SocketAddr = (Side::Server.ipv4(), 7000).into();
    let connect = || {
        world
            .on(Side::Client, || {
                Ok(TcpStream::connect_timeout(&address, LIMIT)?)
            })
            .expect("connects")
    };
    let mut kept = connect();
    let _passed = connect();

    // The attempt that fails leaves the connection where it was.
    program
        .wait_until(LIMIT, || {
            let stats = outboard.stats().unwrap_or_default();
            lab::outboard::total(&stats, "passed") == 1.0
        })
        .expect("it is passed");
    kept.write_all(b"x").expect("taken");
    let told = "passed to a program that has not taken it";
    await_line(&outboard, &world, &mut program, |line| {
        line.contains("1 connection ") && line.ends_with(told)
    });
    let explain = outboard.command(&world, "explain");
    let explained = explain.arg(program.id().to_string()).output();
    let explained = explained.expect("explained");
    let passed = explained.lines().filter(|line| line.ends_with(told));
    assert_eq!(passed.count(), 1, "not the one that was kept: {explained}");
}

/// A program without shared libraries, so that none is loaded ahead of them.
fn static_program(world: &World) -> PathBuf {
    let program = world.scratch().join("cannot_be_entered");
    let built = std::process::Command::new("cc")
        .args(["-static", "-o"])
        .args([&program, &script("cannot_be_entered.c")])
        .status();
    assert!(built.expect("cc runs").success(), "a static program");
    program
}

#[test]
fn a_wrapper_is_explained_with_what_it_has_started() {
    let name = "a_wrapper_is_explained_with_what_it_has_started";
    if lab::skip_without(name, &["python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let serve = format!(
        "nice python3 -m http.server 7000 --bind {}; true",
        lab::Side::Server.ipv4()
    );
    let mut wrapper = outboard
        .on_engine(&world, "sh")
        .args(["-c", &serve])
        .log(world.scratch().join("wrapper"))
        .start()
        .expect("a shell starts");
    let pid = wrapper.id().to_string();
    await_line(&outboard, &world, &mut wrapper, |line| {
        line.starts_with("process ") && line.ends_with(&format!("child of {pid}"))
    });
    await_line(&outboard, &world, &mut wrapper, |line| {
        line.contains("listener") && line.contains(" engine ") && line.contains("credit for")
    });
    let explain = outboard.command(&world, "explain").args(["--json", &pid]);
    let json = explain.output().expect("explained");
    let explained: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let family = explained.as_array().expect("processes");
    assert_eq!(family[0]["pid"].to_string(), pid);
    assert_eq!(family[0]["explanations"].as_array().map(Vec::len), Some(0));
    let child = family.last().expect("a child");
    let listener = &child["sockets"][0];
    assert_eq!(listener["state"], "LISTEN", "{json}");
    assert!(listener["local"].to_string().contains(":7000"), "{json}");
}

#[test]
fn what_an_option_means_for_a_socket_is_told() {
    if lab::skip_without("what_an_option_means_for_a_socket_is_told", &["python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let (own, peer) = (Side::Server.ipv4(), Side::Client.ipv4());
    let listener = world
        .on(Side::Client, || Ok(std::net::TcpListener::bind((peer, 0))?))
        .expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut program = outboard
        .on_engine(&world, "python3")
        .arg(script("options.py"))
        .args([own.to_string(), peer.to_string(), port.to_string()])
        .log(world.scratch().join("program"))
        .start()
        .expect("python starts");
    let told: [&[&str]; 7] = [
        &["7000", "engine"],
        &["7001", "kernel", "its program has set IP_MINTTL"],
        &["7002", "engine"],
        &["connection", "kernel", "its program has set SO_MARK"],
        &["1 connection", "engine"],
        &["call", "TCP_WINDOW_CLAMP has no effect"],
        &["call", "SO_ATTACH_REUSEPORT_CBPF is refused"],
    ];
    for words in told {
        await_line(&outboard, &world, &mut program, |line| {
            words.iter().all(|word| line.contains(word))
        });
    }
    for what in ["socket option SO_MARK", "receiving urgent data"] {
        await_line(&outboard, &world, &mut program, |line| {
            line.contains(&format!(" {what} is not supported"))
        });
    }
    let printed = program.printed();
    let answers: Vec<_> = printed.lines().collect();
    let refused = "ENOPROTOOPT";
    assert_eq!(
        answers,
        [
            "done", "done", "done", "done", refused, refused, refused, "EINVAL", "ENOTSUP"
        ]
    );
    drop(listener);
}

/// What is in a set already, and cannot be told of there by the engine, is told of by the kernel.
#[test]
fn without_descriptors_for_an_epoll_set_a_socket_is_the_kernels_and_this_is_said() {
    let test = "without_descriptors_for_an_epoll_set_a_socket_is_the_kernels_and_this_is_said";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let (own, peer) = (Side::Server.ipv4(), Side::Client.ipv4());
    let listener = world
        .on(Side::Client, || Ok(std::net::TcpListener::bind((peer, 0))?))
        .expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut program = outboard
        .on_engine(&world, "python3")
        .arg(script("without_descriptors.py"))
        .args([own.to_string(), peer.to_string(), port.to_string()])
        .log(world.scratch().join("program"))
        .start()
        .expect("python starts");
    let log = world.scratch().join("program");
    let mut await_said = |what: &str| {
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        let waited = program.wait_until(LIMIT, || said().lines().any(|line| line == what));
        waited.unwrap_or_else(|error| panic!("{what}: {error:#}\n{}", said()));
    };
    for number in 0..4 {
        await_said(&format!("{number} connects [4]"));
        await_said(&format!(
            "{number} is connected Transport endpoint is already connected"
        ));
    }
    for room in 0..4 {
        await_said(&format!("{room} listens"));
        let address = SocketAddr::from((own, 7000 + room));
        let client = world.on(Side::Client, || Ok(TcpStream::connect(address)?));
        let client = client.expect("connects");
        await_said(&format!("{room} accepts [1]"));
        drop(client);
    }
    await_said("done");
    let told = [
        ("connection", "no descriptors left"),
        ("7000", NO_ROOM),
        ("7001", "no descriptors left"),
    ];
    for (what, why) in told {
        await_line(&outboard, &world, &mut program, |line| {
            line.contains(what) && line.contains("kernel") && line.contains(why)
        });
    }
    // What was opened before stays, and each call of connect has opened one connection at most.
    let mut first = listener.accept().expect("it has connected").0;
    let mut bytes = [0; 11];
    first.read_exact(&mut bytes).expect("the same connection");
    assert_eq!(&bytes, b"still there");
    let others: Vec<_> = (0..4)
        .map(|_| listener.accept().expect("connected"))
        .collect();
    listener.set_nonblocking(true).expect("a socket");
    assert!(listener.accept().is_err(), "one more connection than calls");
    drop((first, others));
    let ended = program.wait(LIMIT).expect("it ends");
    assert!(ended.success(), "{}", program.printed());
}

#[test]
fn a_program_that_has_confined_itself_is_on_the_engine() {
    let name = "a_program_that_has_confined_itself_is_on_the_engine";
    if lab::skip_without(name, &["python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let own = Side::Server.ipv4();
    let directory = world.scratch().join("root");
    std::fs::create_dir(&directory).expect("a directory");
    for how in ["chroot", "fork", "filter", "killed"] {
        let mut program = outboard
            .on_engine(&world, "python3")
            .arg(script("confined.py"))
            .arg(own.to_string())
            .arg(how)
            .arg(&directory)
            .log(world.scratch().join(how))
            .start()
            .expect("python starts");
        await_line(&outboard, &world, &mut program, |line| {
            line.contains(&format!("listener {own}:7000")) && line.contains("engine")
        });
        if !["filter", "killed"].contains(&how) {
            await_line(&outboard, &world, &mut program, |line| {
                line.contains("it has changed its root directory")
            });
        }
        let address: SocketAddr = (own, 7000).into();
        let echoed = world.on(Side::Client, || {
            use std::io::Read;
            let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
            stream.set_read_timeout(Some(LIMIT))?;
            if how == "killed" {
                // Who serves it waits for the first byte, and then for more.
                std::thread::sleep(Duration::from_millis(200));
                stream.write_all(b"h")?;
                std::thread::sleep(Duration::from_millis(200));
                stream.write_all(b"ello")?;
            } else {
                stream.write_all(b"hello")?;
            }
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        assert_eq!(
            echoed.expect("an answer"),
            "hello",
            "{how}: {}",
            program.printed()
        );
    }
    let stats = outboard.stats().expect("the engine counts");
    assert_eq!(lab::outboard::total(&stats, "handed_over"), 4.0);
}
