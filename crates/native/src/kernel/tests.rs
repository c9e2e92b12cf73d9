//! One connection of the kernel's.

use super::*;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

#[test]
fn more_that_follows_a_file_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut stream = Stream::new(socket.into());
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let waits = |stream: &Stream| rustix::net::sockopt::tcp_cork(stream.fd()).unwrap();
    let send = |stream: &mut Stream, more| stream.send_file(file.as_fd(), 0, 10, more);
    assert_eq!(send(&mut stream, true), Ok(10));
    assert!(waits(&stream));
    assert_eq!(send(&mut stream, true), Ok(10));
    assert!(waits(&stream));
    assert_eq!(stream.send(&[IoSlice::new(b"x")], false), Ok(1));
    assert!(!waits(&stream));
    // What the program has set stays.
    stream.set(Setting::Cork(true)).unwrap();
    assert_eq!(send(&mut stream, true), Ok(10));
    assert_eq!(send(&mut stream, false), Ok(10));
    assert!(waits(&stream));
    assert_eq!(stream.written(), 41);
}

#[test]
fn what_was_set_before_it_was_a_connection_stays_behind_a_file() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let corked = Setting::Cork(true);
    let mut stream = Stream::connect(None, at, |fd| corked.on_kernel(fd)).unwrap();
    let (_other, _) = listener.accept().unwrap();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    for more in [true, false] {
        assert_eq!(stream.send_file(file.as_fd(), 0, 10, more), Ok(10));
        assert_eq!(rustix::net::sockopt::tcp_cork(stream.fd()), Ok(true));
    }
}

#[test]
fn an_error_in_the_middle_of_a_send_is_told_by_the_next() {
    let (mut stream, other) = pair();
    let other = std::cell::Cell::new(Some(other));
    let parts = vec![IoSlice::new(b"x"); PARTS + 1];
    let sent = stream.send_in_turns(&parts, false, |fd, parts, _| {
        if parts.len() < PARTS {
            // The peer resets the connection before the second turn.
            let other = other.take().unwrap();
            rustix::net::sockopt::set_socket_linger(&other, Some(Duration::ZERO)).unwrap();
        }
        let mut none = SendAncillaryBuffer::default();
        rustix::net::sendmsg(fd, parts, &mut none, SendFlags::NOSIGNAL)
    });
    assert_eq!(sent, Ok(PARTS));
    let one = [IoSlice::new(b"x")];
    assert_eq!(stream.send(&one, false), Err(Errno::CONNRESET));
    assert_eq!(stream.send(&one, false), Err(Errno::PIPE));
}

/// Both ends of a connection; what the second sends is with the first at once.
fn pair() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    other.set_nodelay(true).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    (Stream::new(socket.into()), other)
}

/// Waits until what was sent, an end among it, is where it can be received.
fn has_come(other: &TcpStream) {
    while queue_pair::unacknowledged(other) != Ok(0) {
        std::thread::yield_now();
    }
}

#[test]
fn what_was_drained_is_not_asked_for_until_something_is_told() {
    let (mut stream, mut other) = pair();
    let out = [const { AtomicU8::new(0) }; 4];
    for again in [true, false] {
        other.write_all(b"one").unwrap();
        has_come(&other);
        assert_eq!(stream.receive(&out, true), Ok(3));
        assert_eq!(stream.receive(&out, false), Ok(3));
        other.write_all(b"four, five").unwrap();
        has_come(&other);
        if again {
            assert_eq!(stream.receive(&out, false), Err(Errno::AGAIN));
        } else {
            stream.told(Readiness::IN);
        }
        // Not all of it, so it is asked for the rest.
        for len in [4, 4, 2] {
            assert_eq!(stream.receive(&out, false), Ok(len));
        }
        stream.told(Readiness::OUT);
    }
    assert_eq!(stream.receive(&out, false), Err(Errno::AGAIN));
}

#[test]
fn an_end_that_was_told_is_not_waited_for() {
    let (mut stream, mut other) = pair();
    other.write_all(b"end").unwrap();
    other.shutdown(std::net::Shutdown::Write).unwrap();
    has_come(&other);
    stream.told(Readiness::IN | Readiness::RDHUP);
    let out = [const { AtomicU8::new(0) }; 4];
    assert_eq!(stream.receive(&out, false), Ok(3));
    assert_eq!(stream.receive(&out, false), Ok(0));
    // One that was found without having been told stays, too.
    let (mut stream, other) = pair();
    other.shutdown(std::net::Shutdown::Write).unwrap();
    has_come(&other);
    for _ in 0..3 {
        assert_eq!(stream.receive(&out, false), Ok(0));
    }
    let (mut stream, mut other) = pair();
    other.write_all(b"end").unwrap();
    has_come(&other);
    assert_eq!(stream.receive(&out, false), Ok(3));
    stream.shutdown(Shutdown::Read).unwrap();
    // And so it stays.
    assert_eq!(stream.receive(&out, false), Ok(0));
    assert_eq!(stream.receive(&out, false), Ok(0));
}

#[test]
fn what_stands_behind_urgent_data_is_asked_for() {
    let (mut stream, mut other) = pair();
    other.write_all(b"abc").unwrap();
    rustix::net::send(&other, b"!", SendFlags::OOB).unwrap();
    other.write_all(b"def").unwrap();
    has_come(&other);
    stream.told(Readiness::IN | URGENT);
    let out = [const { AtomicU8::new(0) }; 8];
    assert_eq!(stream.receive(&out, false), Ok(3));
    assert_eq!(stream.receive(&out, false), Ok(3));
}
