//! `outboard.h`: a C program that makes every call, on the engine and on the kernel, and the header
//! under the strictest compilers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lab::outboard::Outboard;
use lab::{Side, World};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

fn capi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/capi")
}

/// The static library, which `cargo build --workspace` makes beside the binary.
fn library() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_outboard")).parent()?;
    let library = built.join("liboutboard.a");
    if !library.is_file() {
        // Past the harness, which swallows what a test that passes prints.
        let said = "SKIPPED: liboutboard.a is not built: cargo build --workspace";
        let _ = writeln!(std::io::stderr(), "{said}");
        return None;
    }
    Some(library)
}

fn run(command: &mut Command) {
    let output = command.output().expect("a compiler");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// A program of the interface's folder, in `world`'s scratch folder.
fn compile(world: &World, library: &Path, source: &str) -> PathBuf {
    let program = world.scratch().join("program");
    run(Command::new("cc")
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
        ])
        .arg(capi().join("include"))
        .arg(capi().join(source))
        .arg(library)
        .arg("-o")
        .arg(&program)
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]));
    program
}

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
fn the_example_echoes_to_many_at_once() {
    let test = "the_example_echoes_to_many_at_once";
    let Some(library) = library() else { return };
    if lab::skip_without(test, &["cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let program = compile(&world, &library, "examples/echo.c");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let address = Side::Server.ipv4();
    let server = world
        .program(Side::Server, &program)
        .env("OUTBOARD_SOCKET", outboard.socket())
        .args([&address.to_string(), &PORT.to_string()])
        .start()
        .expect("a server");
    let at = SocketAddr::from((address, PORT));
    let start = Instant::now();
    while !outboard.takes(PORT) {
        assert!(start.elapsed() < HANG, "{}", server.printed());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::scope(|scope| {
        for client in 0..20_u8 {
            let world = &world;
            scope.spawn(move || {
                world.enter(Side::Client).expect("the client's side");
                let mut stream = TcpStream::connect(at).expect("a connection");
                let sent: Vec<u8> = (0..300_000_u32)
                    .map(|byte| (byte % 251) as u8 ^ client)
                    .collect();
                let mut copy = stream.try_clone().expect("a second descriptor");
                let all = sent.clone();
                let writer = std::thread::spawn(move || {
                    copy.write_all(&all).expect("room");
                    copy.shutdown(Shutdown::Write).expect("an end");
                });
                let mut back = Vec::new();
                stream.read_to_end(&mut back).expect("an echo");
                assert!(back == sent, "{} bytes came back", back.len());
                writer.join().expect("a writer");
            });
        }
    });
    server.kill().expect("an end");
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
