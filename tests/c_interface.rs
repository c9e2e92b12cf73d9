//! `outboard.h`: a C program that makes every call, on the engine and on the kernel, and the header
//! under the strictest compilers.

mod native_programs;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::outboard::Outboard;
use lab::{Side, World};
use native_programs::{capi, compile, library, run};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

fn echo(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("an option");
    let mut bytes = [0; 1 << 16];
    loop {
        match stream.read(&mut bytes).expect("bytes to echo") {
            0 => break,
            read => stream.write_all(&bytes[..read]).expect("an echo"),
        }
    }
    stream.shutdown(Shutdown::Write).expect("an end");
}

/// Runs the program on the server's side against an echo on the client's.
fn converse(world: &World, program: &Path, socket: &Path, how: &str, mode: &str, offloaded: bool) {
    let address = match how {
        "listen" => Side::Server.ipv4(),
        _ => Side::Client.ipv4(),
    };
    let at = SocketAddr::from((address, PORT));
    let offloaded = if offloaded { "1" } else { "0" };
    let output = std::thread::scope(|scope| {
        let (bound, listens) = std::sync::mpsc::channel();
        scope.spawn(move || {
            world.enter(Side::Client).expect("the client's side");
            if how == "connect" {
                let listener = TcpListener::bind(at).expect("a port");
                bound.send(()).expect("a test");
                return echo(listener.accept().expect("a client").0);
            }
            bound.send(()).expect("a test");
            let start = Instant::now();
            loop {
                match TcpStream::connect(at) {
                    Ok(stream) => return echo(stream),
                    Err(error) => assert!(start.elapsed() < HANG, "{error}"),
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        listens.recv().expect("a client");
        world
            .program(Side::Server, program)
            .env("OUTBOARD_SOCKET", socket)
            .args([
                how,
                mode,
                &address.to_string(),
                &PORT.to_string(),
                offloaded,
            ])
            .output()
            .expect("all as outboard.h says")
    });
    assert_eq!(output.trim().lines().last(), Some("all as outboard.h says"));
}

#[test]
fn every_call_does_the_same_on_the_engine_and_on_the_kernel() {
    let test = "every_call_does_the_same_on_the_engine_and_on_the_kernel";
    let Some(library) = library() else { return };
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let program = compile(&world, &library, "tests/conformance.c");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let socket = outboard.socket();
    let converse = |how, mode, offloaded| converse(&world, &program, socket, how, mode, offloaded);
    // There is no engine yet.
    converse("listen", "any", false);
    converse("connect", "any", false);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    for how in ["listen", "connect"] {
        converse(how, "engine", true);
        converse(how, "any", true);
        converse(how, "kernel", false);
    }
    engine.stop(HANG).expect("an end");
}

#[test]
fn the_header_compiles_as_strict_c_and_cpp() {
    let test = "the_header_compiles_as_strict_c_and_cpp";
    if lab::skip_without(test, &["cc", "c++"]) {
        return;
    }
    let scratch = std::env::temp_dir().join(format!("outboard-header-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a folder");
    let source = "#include <outboard.h>\nint main(void) { return (int)sizeof(ob_event) - 32; }\n";
    for (compiler, standard, name) in [("cc", "-std=c99", "h.c"), ("c++", "-std=c++17", "h.cpp")] {
        let file = scratch.join(name);
        std::fs::write(&file, source).expect("a file");
        run(Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c"])
            .arg("-I")
            .arg(capi().join("include"))
            .arg(&file)
            .arg("-o")
            .arg(scratch.join("h.o")));
    }
    std::fs::remove_dir_all(&scratch).expect("an empty place");
}
