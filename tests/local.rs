//! Connections within a machine on the engine (`local = true`): one unmodified program is both ends.
#![forbid(unsafe_code)]

use lab::outboard::{Outboard, total};
use lab::{Side, World};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_program_talks_to_itself_on_the_engine() {
    if lab::skip_without("a_program_talks_to_itself_on_the_engine", &["python3"]) {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard
        .start_engine_with(&world, "local = true\n")
        .unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/local/both_ends.py");
    let mut program = outboard
        .on_engine(&world, "python3")
        .arg(script)
        .arg(Side::Server.ipv4().to_string())
        .log(world.scratch().join("program.log"))
        .start()
        .unwrap();
    let said = |program: &lab::Process, word: &str| program.printed().contains(word);
    let log = world.scratch().join("program.log");
    let waited = program.wait_until(PATIENCE, || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("stays"))
    });
    waited.unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    assert!(said(&program, "refused"), "{}", program.printed());

    let stats = outboard.stats().unwrap();
    // Ten ways, one that was bound, one that was reset, one that stays; the one that was refused was the kernel's.
    let opens = total(&stats, "tcp_active_opens");
    assert_eq!(opens, 13.0, "{}", program.printed());
    assert_eq!(total(&stats, "tcp_passive_opens"), 13.0);
    assert!(total(&stats, "local_frames") > 100.0);

    let explained = outboard
        .command(&world, "explain")
        .arg(program.id().to_string())
        .output()
        .unwrap();
    assert!(explained.contains("2 local connections"), "{explained}");
    let shown = outboard.command(&world, "ss").output().unwrap();
    let within = shown.lines().filter(|line| line.ends_with(" local"));
    assert_eq!(within.count(), 2, "{shown}");

    // A program that is not on the engine reaches the same listener by the kernel.
    let answer = world
        .program(Side::Server, "python3")
        .args([
            "-c",
            "import socket; print(socket.create_connection(('127.0.0.1', 5005)).recv(100))",
        ])
        .output()
        .unwrap();
    assert!(answer.contains("by the kernel"), "{answer}");
    let after = outboard.stats().unwrap();
    assert_eq!(total(&after, "tcp_passive_opens"), 13.0);
}

/// An engine that does not run is no reason to wait, nor to lose what it has: the kernel listens, too.
#[test]
fn a_stopped_engine_leaves_local_connections_to_the_kernel() {
    if lab::skip_without(
        "a_stopped_engine_leaves_local_connections_to_the_kernel",
        &["python3"],
    ) {
        return;
    }
    let world = World::new().unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard
        .start_engine_with(&world, "local = true\n")
        .unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/local/stopped.py");
    let (log, asked) = (
        world.scratch().join("program.log"),
        world.scratch().join("speak"),
    );
    let mut program = outboard
        .on_engine(&world, "python3")
        .arg(script)
        .arg(&asked)
        .log(log.clone())
        .start()
        .unwrap();
    let mut done = 0;
    let mut ask = |times: u32| {
        std::fs::write(&asked, times.to_string()).unwrap();
        done += 1;
        let waited = program.wait_until(PATIENCE, || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            said.lines().filter(|line| *line == "done").count() >= done
        });
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    };
    let opened = || total(&outboard.stats().unwrap(), "tcp_active_opens");
    ask(5);
    assert_eq!(opened(), 6.0, "on the engine");
    // Twice: what it answers late must not be taken for an answer to something else.
    for round in 1..=2 {
        engine.signal(Signal::STOP).unwrap();
        ask(20);
        engine.signal(Signal::CONT).unwrap();
        ask(0);
        // Until its late answer is there, the kernel goes on.
        let before = opened();
        while opened() == before {
            ask(1);
        }
        assert!(
            opened() <= 6.0 + f64::from(round),
            "none while it was stopped"
        );
    }
    assert_eq!(total(&outboard.stats().unwrap(), "sessions"), 1.0);
}

/// nginx's configuration, everything in a directory of its name.
fn configure(world: &World, name: &str, http: &str) -> PathBuf {
    let directory = world.scratch().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let here = directory.display();
    let configuration = format!(
        "user root; worker_processes 2; pid {here}/pid; error_log {here}/error.log info; daemon off;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;\n\
         fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n\
         {http} }}\n",
    );
    let file = directory.join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    file
}

/// What comes of a request for the file, whose end is that of the connection.
fn fetched(world: &World) -> Vec<u8> {
    world
        .on(Side::Client, || {
            let mut stream = TcpStream::connect((Side::Server.ipv4(), 80))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /large HTTP/1.0\r\nHost: test\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        })
        .unwrap()
}

#[test]
fn nginx_reaches_its_upstream_through_the_engine() {
    if lab::skip_without("nginx_reaches_its_upstream_through_the_engine", &["nginx"]) {
        return;
    }
    let world = World::new().unwrap();
    let large: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let site = world.site(&[("large", &large)]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = "local = true\n";
    let _engine = outboard.start_engine_with(&world, engine).unwrap();
    let upstream = format!(
        "server {{ listen 127.0.0.1:8081; root {}; }}",
        site.display()
    );
    // So that connections are there to be looked at.
    let proxy = format!(
        "upstream up {{ server 127.0.0.1:8081; keepalive 4; }}\n\
         server {{ listen {}:80; location / {{ proxy_pass http://up; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; }} }}",
        Side::Server.ipv4()
    );
    let servers = [("upstream", upstream, 8081), ("proxy", proxy, 80)];
    let servers = servers.map(|(name, http, port)| {
        let configuration = configure(&world, name, &http);
        let nginx = outboard.on_engine(&world, "nginx");
        let nginx = nginx.arg("-c").arg(configuration);
        let log = world.scratch().join(format!("{name}.log"));
        let mut server = nginx.log(log).start().unwrap();
        let taken = outboard.wait_until_taken(&mut server, PATIENCE, port, || true);
        taken.unwrap();
        server
    });
    let count = |name: &str| total(&outboard.stats().unwrap(), name);
    const REQUESTS: usize = 20;
    for _ in 0..REQUESTS {
        let answer = fetched(&world);
        assert!(answer.ends_with(&large), "{} bytes", answer.len());
    }
    // Each opened by a proxy was accepted by the upstream; the others are the client's.
    let opened = count("tcp_active_opens");
    assert!((1.0..=REQUESTS as f64).contains(&opened), "{opened}");
    assert_eq!(count("tcp_passive_opens"), REQUESTS as f64 + opened);
    let bytes = count("local_frames") * 65_536.0;
    assert!(bytes > (REQUESTS * large.len()) as f64, "{bytes}");

    // Both ends of what is kept are the engine's, and nothing of the proxy's was left to the kernel.
    let shown = outboard.command(&world, "ss").output().unwrap();
    let within = shown.lines().filter(|line| line.ends_with(" local"));
    let within = within
        .filter(|line| line.contains("127.0.0.1:8081"))
        .count();
    assert!(within >= 2 && within % 2 == 0, "{shown}");
    for server in &servers {
        let explain = outboard.command(&world, "explain");
        let explained = explain.arg(server.id().to_string()).output().unwrap();
        assert!(explained.contains("local connection"), "{explained}");
        let mut lines = explained.lines();
        let left = |line: &str| line.contains("connection") && line.contains(" kernel ");
        assert!(!lines.any(left), "{explained}");
    }
}
