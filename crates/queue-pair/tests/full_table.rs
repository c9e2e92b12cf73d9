//! The table of descriptors is full. Alone in its process, which all tests of a file share the table of.
// miri has no sockets.
#![cfg(not(any(loom, miri)))]

use queue_pair::doorbell;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::IoSlice;
use std::mem::MaybeUninit;

/// The kernel would close it in the call, which can take as long as whoever has sent it likes.
#[test]
fn what_comes_with_a_ring_is_not_closed_for_want_of_a_place() {
    let (ringer, bell) = doorbell::pair().unwrap();
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [writer.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let part = [IoSlice::new(&[1])];
    rustix::net::sendmsg(&ringer, &part, &mut control, SendFlags::DONTWAIT).unwrap();
    let next = writer.as_raw_fd();
    drop(writer);
    let before = getrlimit(Resource::Nofile);
    let full = Rlimit {
        current: Some(next as u64),
        ..before
    };
    setrlimit(Resource::Nofile, full).unwrap();
    assert_eq!(rustix::io::dup(&reader).unwrap_err(), Errno::MFILE);
    bell.drain();
    let read = rustix::io::read(&reader, &mut [0]);
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(read, Err(Errno::AGAIN), "it is open");
}
