//! An actor's line to the stage: messages over a socket of its own.

use differ::outcome::Reply;
use differ::program::{ACTORS, Actor, Call};
use differ::setting::{CONTROL_NUMBERS, MESSAGE};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};

/// The line of one actor.
pub struct Control {
    socket: BorrowedFd<'static>,
    buffer: Vec<u8>,
}

/// Opens the lines of all actors that there may be: those that come later, by fork or as threads,
/// find theirs open.
pub fn connect_all(path: &str) {
    let address = SocketAddrUnix::new(path).expect("a path that fits");
    for actor in 0..ACTORS {
        let socket = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)
            .expect("a socket for control");
        net::connect(&socket, &address).expect("the stage listens");
        let number = CONTROL_NUMBERS + actor as i32;
        let kept = rustix::io::fcntl_dupfd_cloexec(&socket, number).expect("a number is free");
        assert_eq!(std::os::fd::AsRawFd::as_raw_fd(&kept), number, "in order");
        // An exec keeps them.
        rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).expect("an own descriptor");
        // They are closed by the end of the process.
        std::mem::forget(kept);
    }
}

impl Control {
    /// That of `actor`.
    pub fn of(actor: Actor) -> Self {
        // SAFETY: `connect_all` made it, in this process or in an ancestor, and nobody closes it.
        let socket = unsafe { BorrowedFd::borrow_raw(CONTROL_NUMBERS + i32::from(actor)) };
        Self {
            socket,
            buffer: vec![0; MESSAGE],
        }
    }

    /// The next call to make, and the number of its step; `None` when the stage is gone.
    pub fn command(&mut self) -> Option<(usize, Call)> {
        loop {
            match net::recv(
                self.socket.as_fd(),
                &mut self.buffer[..],
                RecvFlags::empty(),
            ) {
                Ok((0, _)) => return None,
                Ok((read, _)) => {
                    return serde_json::from_slice(&self.buffer[..read]).ok();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Tells the stage. Without one there is nobody to tell of a failure.
    pub fn reply(&self, reply: &Reply) {
        let message = serde_json::to_vec(reply).expect("plain values");
        while let Err(rustix::io::Errno::INTR) =
            net::send(self.socket.as_fd(), &message, SendFlags::NOSIGNAL)
        {}
    }
}
