//! An engine with two workers on an interface with four receive queues, and an unmodified nginx with as many
//! workers on it.
#![forbid(unsafe_code)]

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(120);
/// Connections that leave no queue of four without one, but once in many millions.
const CONNECTIONS: usize = 64;
/// By how much one of nginx's workers may begin after another.
const LATE: Duration = Duration::from_millis(100);

fn address() -> SocketAddr {
    (Side::Server.ipv4(), 80).into()
}

/// A request on a connection, and its answer.
fn ask(stream: &mut TcpStream) {
    write!(stream, "GET /small HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        let mut some = [0; 1024];
        let length = stream.read(&mut some).expect("an answer");
        assert_ne!(length, 0, "it ends early");
        answer.extend_from_slice(&some[..length]);
    }
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect_timeout(&address(), PATIENCE).expect("somebody answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

struct Stage {
    // Before the world that they are in.
    nginx: Process,
    engine: Process,
    outboard: Outboard,
    world: World,
}

impl Stage {
    fn new() -> Self {
        let world = World::with_queues(4).expect("a private network");
        let site = world.site(&[("small", b"hello")]).expect("files");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let engine = outboard
            .start_engine_with(&world, "workers = 2\n")
            .expect("an engine");
        let directory = world.scratch().join("nginx");
        std::fs::create_dir_all(&directory).expect("a directory");
        let at = directory.display();
        let configuration = format!(
            "worker_processes 2; daemon off; user root; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; client_body_temp_path {at}/a; proxy_temp_path {at}/b;\n\
             fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d; scgi_temp_path {at}/e;\n\
             server {{ listen {}; root {}; keepalive_requests 1000000; }} }}\n",
            address(),
            site.display()
        );
        let file = directory.join("nginx.conf");
        std::fs::write(&file, configuration).expect("written");
        let mut nginx = outboard
            .on_engine(&world, "nginx")
            .arg("-c")
            .arg(&file)
            .log(directory.join("log"))
            .start()
            .expect("nginx");
        outboard
            .wait_until_taken(&mut nginx, PATIENCE, 80, || world.is_reached(address()))
            .expect("it listens");
        Self {
            nginx,
            engine,
            outboard,
            world,
        }
    }

    fn counted(&self, name: &str) -> f64 {
        total(&self.outboard.stats().expect("counters"), name)
    }

    /// The processes that have connections, by the engine's own word.
    fn servers(&self) -> Vec<String> {
        let sockets = self.outboard.sockets().expect("listed");
        let established = sockets.iter().filter(|row| row["state"] == "ESTABLISHED");
        let mut pids: Vec<String> = established
            .map(|socket| socket["pid"].to_string())
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    fn end(self) {
        self.nginx.stop(PATIENCE).expect("nginx ends");
        self.engine.stop(PATIENCE).expect("the engine ends");
    }
}

#[test]
fn a_server_spreads_over_the_workers_and_every_queue_reaches_it() {
    let test = "a_server_spreads_over_the_workers_and_every_queue_reaches_it";
    if lab::skip_without(test, &["nginx"]) {
        return;
    }
    let stage = Stage::new();
    let more = || {
        let clients = stage.world.on(Side::Client, || {
            let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
            clients.iter_mut().for_each(ask);
            clients.iter_mut().for_each(ask);
            Ok(clients)
        });
        clients.expect("answered")
    };
    let mut clients = more();
    // One of nginx's workers may have begun, and the other not yet.
    for _ in 0..4 {
        if stage.servers().len() == 1 {
            std::thread::sleep(LATE);
            clients.extend(more());
        }
    }
    assert_eq!(
        stage.counted("connections"),
        clients.len() as f64,
        "all of them"
    );
    assert_eq!(stage.servers().len(), 2, "both of nginx's workers");
    drop(clients);
    stage.end();
}

#[test]
fn a_reload_under_load_loses_nobody() {
    if lab::skip_without("a_reload_under_load_loses_nobody", &["nginx"]) {
        return;
    }
    let stage = Stage::new();
    let over = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            stage.world.on(Side::Client, || {
                let mut answered = 0;
                while !over.load(Ordering::Relaxed) {
                    ask(&mut connect());
                    answered += 1;
                }
                Ok(answered)
            })
        });
        for _ in 0..5 {
            let until = Instant::now() + Duration::from_millis(400);
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            stage.nginx.signal(Signal::HUP).expect("it is there");
        }
        over.store(true, Ordering::Relaxed);
        clients.join().expect("nobody is lost").expect("a network")
    });
    assert!(answered > 10, "{answered}");
    stage.end();
}

#[test]
fn what_a_program_opens_is_answered_on_any_queue() {
    let test = "what_a_program_opens_is_answered_on_any_queue";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let world = World::with_queues(4).expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard
        .start_engine_with(&world, "workers = 2\n")
        .expect("an engine");
    let listening = world.on(Side::Client, || {
        Ok(TcpListener::bind((Side::Client.ipv4(), 0))?)
    });
    let listening = listening.expect("a listener");
    let port = listening.local_addr().expect("bound").port();
    let program = format!(
        "import socket\nfor n in range({CONNECTIONS}):\n  s = socket.create_connection((\"{}\", {port}))\n  \
         s.sendall(b\"x\" * 3000)\n  assert s.recv(1) == b\"y\"\n  s.close()\n",
        Side::Client.ipv4()
    );
    let mut opens = outboard
        .on_engine(&world, "python3")
        .args(["-c", &program])
        .log(world.scratch().join("python.log"))
        .start()
        .expect("python");
    for _ in 0..CONNECTIONS {
        let (mut stream, _) = listening.accept().expect("a connection");
        stream.read_exact(&mut [0; 3000]).expect("all of it");
        stream.write_all(b"y").expect("sent");
    }
    let status = opens.wait(PATIENCE).expect("it ends");
    assert!(status.success(), "{status}");
    let counted = total(&outboard.stats().expect("counters"), "tcp_active_opens");
    assert_eq!(counted, CONNECTIONS as f64, "none is the kernel's");
    engine.stop(PATIENCE).expect("it ends");
}
