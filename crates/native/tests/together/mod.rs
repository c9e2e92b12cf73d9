//! A queue with connections of the kernel's, whose other ends are plain sockets.

#![allow(dead_code, reason = "each test uses a part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use native::{Context, Event, Handle, KernelSockets, Kind, Mode, Queue, Setting};

/// How long anything may take before it counts as a hang.
pub const HANG: Duration = Duration::from_secs(60);

pub struct Scene {
    pub queue: Queue,
    /// What has connected, and what was accepted, in the same order.
    pub clients: Vec<TcpStream>,
    pub handles: Vec<Handle>,
}

impl Scene {
    pub fn new(connections: usize, by: KernelSockets) -> Self {
        let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
        Self::of(&context.with_kernel_sockets(by).unwrap(), connections)
    }

    /// With io_uring, if this machine lets this process have it.
    pub fn by_io_uring(connections: usize) -> Option<Self> {
        let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
        match context.with_kernel_sockets(KernelSockets::IoUring) {
            Ok(context) => Some(Self::of(&context, connections)),
            Err(errno) => {
                let _ = writeln!(std::io::stderr(), "SKIPPED: io_uring is refused: {errno}");
                None
            }
        }
    }

    pub fn of(context: &Context, connections: usize) -> Self {
        let queue = context.queue().unwrap();
        let mut scene = Self {
            queue,
            clients: Vec::new(),
            handles: Vec::new(),
        };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = scene.queue.listen(any, 128, 0).unwrap();
        scene.queue.set(listener, Setting::NoDelay(true)).unwrap();
        let at = scene.queue.local(listener).unwrap();
        for number in 0..connections {
            let client = TcpStream::connect(at).unwrap();
            client.set_nodelay(true).unwrap();
            client.set_read_timeout(Some(HANG)).unwrap();
            assert_eq!(scene.until(Kind::Accept).handle, listener);
            let accepted = scene.queue.accept(listener, number as u64).unwrap();
            scene.clients.push(client);
            scene.handles.push(accepted);
        }
        scene
    }

    /// The next thing that happens.
    pub fn next(&mut self) -> Event {
        let mut events = Vec::new();
        self.queue.wait(&mut events, 1, Some(HANG)).unwrap();
        events.pop().expect("something happens")
    }

    /// The next of this kind. Others are forgotten.
    pub fn until(&mut self, kind: Kind) -> Event {
        loop {
            let event = self.next();
            if event.kind == kind {
                return event;
            }
        }
    }

    /// All clients say something, which the queue tells of at once, and it is received.
    pub fn tell_of_all(&mut self) {
        // What is known before it is none of it.
        self.queue.poll(&mut Vec::new(), 1024).unwrap();
        for client in &mut self.clients {
            client.write_all(b"?").unwrap();
        }
        let start = Instant::now();
        for handle in &self.handles {
            while self.queue.facts(*handle).unwrap().unread == 0 {
                assert!(start.elapsed() < HANG);
                std::thread::yield_now();
            }
        }
        let mut events = Vec::new();
        self.queue.wait(&mut events, 1024, Some(HANG)).unwrap();
        let told = events.iter().filter(|event| event.kind == Kind::Receive);
        assert_eq!(told.count(), self.clients.len());
        for number in 0..self.handles.len() {
            self.receive(number);
        }
    }

    /// Receives what a client has said.
    pub fn receive(&mut self, number: usize) {
        let mut byte = [0];
        let read = self.queue.recv(self.handles[number], &mut byte);
        assert_eq!((read, byte), (Ok(1), *b"?"));
    }

    /// Sends something on all connections, which their clients read.
    pub fn answer_all(&mut self) {
        for (number, handle) in self.handles.iter().enumerate() {
            let answer = [number as u8; 100];
            assert_eq!(self.queue.send(*handle, &answer, false), Ok(100));
        }
        self.queue.poll(&mut Vec::new(), 8).unwrap();
        for (number, client) in self.clients.iter_mut().enumerate() {
            expect(client, &[number as u8; 100]);
        }
    }
}

/// Reads as much as `expected`, and holds it against that.
pub fn expect(client: &mut TcpStream, expected: &[u8]) {
    let mut read = vec![0; expected.len()];
    client.read_exact(&mut read).unwrap();
    assert!(read == expected, "other bytes");
}

/// How the stream ends, from here on.
pub fn end_of(client: &mut TcpStream) -> Option<i32> {
    match client.read(&mut [0]) {
        Ok(0) => None,
        Ok(_) => panic!("there is more"),
        Err(error) => error.raw_os_error(),
    }
}
