//! A program that ends without another look at its queue has sent all that it sent, as what it wrote by stdio is written.
//! The program is this one, begun anew.

mod together;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Instant;

use native::{Context, KernelSockets, Kind, Mode};
use together::{HANG, Scene};

/// By these the program is told to whom it connects, and how it ends.
const TO: &str = "ENDS_BY_EXIT_TO";
const HOW: &str = "ENDS_BY_EXIT_HOW";

const CONNECTIONS: usize = 3;

#[test]
fn what_is_staged_leaves_when_the_program_ends() {
    if let Ok(to) = std::env::var(TO) {
        return program(to.parse().unwrap());
    }
    if Scene::by_io_uring(1).is_none() {
        return;
    }
    for how in ["exit", "return"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut program = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "what_is_staged_leaves_when_the_program_ends",
                "--nocapture",
            ])
            .env(TO, listener.local_addr().unwrap().to_string())
            .env(HOW, how)
            .spawn()
            .unwrap();
        let mut accepted: Vec<TcpStream> = (0..CONNECTIONS)
            .map(|_| listener.accept().unwrap().0)
            .collect();
        // By what it says first it is known which is which.
        accepted.sort_by_cached_key(|mut stream| {
            stream.set_read_timeout(Some(HANG)).unwrap();
            let mut number = [0];
            stream.read_exact(&mut number).unwrap();
            number
        });
        for stream in &mut accepted {
            stream.write_all(b"?").unwrap();
        }
        let said: Vec<_> = accepted
            .iter_mut()
            .map(|stream| {
                let mut said = String::new();
                stream.read_to_string(&mut said).map(|_| said).unwrap()
            })
            .collect();
        assert_eq!(said, ["staged", "staged", ""], "by {how}");
        assert!(program.wait().unwrap().success());
    }
}

/// It is told of all of its connections, sends on two of them, and ends.
fn program(to: SocketAddr) {
    let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
    let context = context.with_kernel_sockets(KernelSockets::IoUring).unwrap();
    let mut scene = Scene {
        queue: context.queue().unwrap(),
        clients: Vec::new(),
        handles: Vec::new(),
    };
    for number in 0..CONNECTIONS {
        let handle = scene.queue.connect(to, &[], 0).unwrap();
        assert_eq!(scene.until(Kind::Open).error, 0);
        scene.handles.push(handle);
        assert_eq!(scene.queue.send(handle, &[number as u8], false), Ok(1));
    }
    let start = Instant::now();
    for handle in &scene.handles {
        while scene.queue.facts(*handle).unwrap().unread == 0 {
            assert!(start.elapsed() < HANG);
            std::thread::yield_now();
        }
    }
    let mut events = Vec::new();
    scene.queue.wait(&mut events, 1024, Some(HANG)).unwrap();
    let told = events.iter().filter(|event| event.kind == Kind::Receive);
    assert_eq!(told.count(), CONNECTIONS);
    for number in 0..CONNECTIONS {
        scene.receive(number);
    }
    for handle in &scene.handles[..2] {
        assert_eq!(scene.queue.send(*handle, b"staged", false), Ok(6));
    }
    if std::env::var(HOW).unwrap() == "exit" {
        std::process::exit(0);
    }
    // It is there when main returns.
    std::mem::forget(scene);
}
