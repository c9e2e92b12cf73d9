//! An unmodified proxy between two networks, with an engine on the interfaces of both.
#![forbid(unsafe_code)]

use lab::outboard::{Outboard, total};
use lab::world::{SECOND_ADDRESSES, SECOND_INTERFACES};
use lab::{Process, Side, World};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);
const REQUESTS: usize = 10;

/// A world with a second link, which joins the proxy with what is behind it.
fn two_networks() -> World {
    let world = World::new().unwrap();
    world.add_link(None).unwrap();
    world
}

/// A server by the kernel's TCP behind the proxy: each request has these bytes for an answer.
fn serve_behind(world: &World, bytes: &[u8]) {
    let listener = world
        .on(Side::Client, || {
            Ok(TcpListener::bind((SECOND_ADDRESSES[1], 81))?)
        })
        .unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    let answer = [head.as_bytes(), bytes].concat();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(REQUESTS) {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(&answer).unwrap();
        }
    });
}

fn configure(world: &World) -> PathBuf {
    let scratch = world.scratch();
    let path = scratch.join("proxy.conf");
    let text = format!(
        "user root; daemon off; worker_processes 1; error_log {scratch}/error.log; pid {scratch}/nginx.pid;\n\
         events {{}}\n\
         http {{ access_log off; client_body_temp_path {scratch}/body; proxy_temp_path {scratch}/proxied;\n\
         fastcgi_temp_path {scratch}/f; uwsgi_temp_path {scratch}/u; scgi_temp_path {scratch}/s;\n\
         server {{ listen 80; location / {{ proxy_pass http://{}:81; }} }} }}",
        SECOND_ADDRESSES[1],
        scratch = scratch.display(),
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn fetched(world: &World) -> Vec<u8> {
    world
        .on(Side::Client, || {
            let mut stream = TcpStream::connect((Side::Server.ipv4(), 80))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET / HTTP/1.0\r\nHost: test\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        })
        .unwrap()
}

#[test]
fn a_proxy_has_its_clients_by_one_interface_and_its_servers_by_another() {
    let name = "a_proxy_has_its_clients_by_one_interface_and_its_servers_by_another";
    if lab::skip_without(name, &["nginx"]) {
        return;
    }
    let world = two_networks();
    let large: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    serve_behind(&world, &large);
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine_told(&world, None, &["-i", SECOND_INTERFACES[0]]);
    let _engine = engine.unwrap();
    let nginx = outboard.on_engine(&world, "nginx");
    let nginx = nginx.arg("-c").arg(configure(&world));
    let mut proxy: Process = nginx.log(world.scratch().join("log")).start().unwrap();
    let taken = outboard.wait_until_taken(&mut proxy, PATIENCE, 80, || true);
    taken.unwrap();

    // One that stays, so that there is something to be looked at.
    let idle = world.on(Side::Client, || {
        let mut stream = TcpStream::connect((Side::Server.ipv4(), 80))?;
        stream.write_all(b"GET /")?;
        Ok(stream)
    });
    let _idle = idle.unwrap();
    for _ in 0..REQUESTS {
        let answer = fetched(&world);
        assert!(answer.ends_with(&large), "{} bytes", answer.len());
    }
    let stats = outboard.stats().unwrap();
    // Every connection to what is behind was the engine's, and every client.
    assert_eq!(total(&stats, "tcp_active_opens"), REQUESTS as f64);
    assert_eq!(total(&stats, "tcp_passive_opens"), 1.0 + REQUESTS as f64);
    let explain = outboard.command(&world, "explain");
    let explained = explain.arg(proxy.id().to_string()).output().unwrap();
    let left = |line: &str| line.contains("connection") && line.contains(" kernel ");
    assert!(!explained.lines().any(left), "{explained}");
    let shown = outboard.command(&world, "ss").arg("-i").output().unwrap();
    let by = format!("interface:{}", Side::Server.interface());
    assert!(shown.contains(&by), "{shown}");

    let checked = outboard.command(&world, "engine").args(["--check", "-i"]);
    let both = format!("{},{}", Side::Server.interface(), SECOND_INTERFACES[0]);
    let checked = checked.arg(both).output().unwrap();
    let named = format!("on {}, {},", Side::Server.interface(), SECOND_INTERFACES[0]);
    assert!(checked.contains(&named), "{checked}");
}

/// A listener and a connection that are bound to one of the interfaces.
const BOUND: &str = "import socket, sys, time\n\
    def bound():\n\
    \x20   one = socket.socket()\n\
    \x20   one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[1].encode())\n\
    \x20   return one\n\
    listener = bound()\n\
    listener.bind(('', 8080))\n\
    listener.listen()\n\
    connection = bound()\n\
    connection.connect((sys.argv[2], 81))\n\
    print('connected', flush=True)\n\
    time.sleep(1000)\n";

#[test]
fn what_is_bound_to_one_of_them_is_the_kernels_and_says_so() {
    let name = "what_is_bound_to_one_of_them_is_the_kernels_and_says_so";
    if lab::skip_without(name, &["python3"]) {
        return;
    }
    let world = two_networks();
    let behind = world.on(Side::Client, || {
        Ok(TcpListener::bind((SECOND_ADDRESSES[1], 81))?)
    });
    let _behind = behind.unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine_told(&world, None, &["-i", SECOND_INTERFACES[0]]);
    let _engine = engine.unwrap();
    let mut program = outboard
        .on_engine(&world, "python3")
        .args([
            "-c",
            BOUND,
            SECOND_INTERFACES[0],
            &SECOND_ADDRESSES[1].to_string(),
        ])
        .log(world.scratch().join("program.log"))
        .start()
        .unwrap();
    let log = world.scratch().join("program.log");
    let waited = program.wait_until(PATIENCE, || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("connected"))
    });
    waited.unwrap_or_else(|error| panic!("{error:#}\n{}", program.printed()));
    let explain = outboard.command(&world, "explain");
    let explained = explain.arg(program.id().to_string()).output().unwrap();
    let why = "it is bound to an interface, and the engine has several";
    assert_eq!(explained.matches(why).count(), 2, "{explained}");
    // By the kernel it is reached where it is bound, and there alone.
    let reaches = |address: Ipv4Addr| world.is_reached((address, 8080).into());
    assert!(reaches(SECOND_ADDRESSES[0]) && !reaches(Side::Server.ipv4()));
}
