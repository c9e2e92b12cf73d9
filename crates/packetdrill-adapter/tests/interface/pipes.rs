//! pipe and splice.

use libc::SPLICE_F_NONBLOCK;
use wire::tcp::Flags;

use crate::{NONE, loaded};

#[test]
fn bytes_go_through_a_pipe_from_one_end_to_the_other() {
    let library = loaded();
    let [from, to] = library.pipe();
    assert_eq!(library.write(to, b"hello"), 5);
    assert_eq!(library.read(from, 3), b"hel");
    assert_eq!(library.read(from, 8), b"lo");
    // The end of it.
    assert_eq!(library.close(to), 0);
    assert_eq!(library.read(from, 8), b"");
}

#[test]
fn what_arrives_is_spliced_back() {
    let library = loaded();
    let (fd, iss) = library.connection();
    let [from, to] = library.pipe();
    library.send(Flags::PSH, 1, Some(iss + 1), b"hello", NONE);
    assert_eq!(library.splice(fd, to, 4, 0), 4);
    assert_eq!(library.splice(fd, to, 100, 0), 1);
    let (acknowledgement, _) = library.receive().expect("an ACK");
    assert_eq!(acknowledgement.segment.ack, Some(6));
    assert_eq!(library.splice(from, fd, 100, 0), 5);
    let (echo, _) = library.receive().expect("the echo");
    assert_eq!(echo.payload, b"hello");
}

#[test]
fn what_cannot_be_spliced_is_refused() {
    let library = loaded();
    let (fd, _) = library.connection();
    let [from, to] = library.pipe();
    let refused = |from, to, flags| library.splice(from, to, 10, flags);
    assert_eq!(refused(fd, fd, 0), -libc::EINVAL as isize);
    assert_eq!(refused(from, to, 0), -libc::EINVAL as isize);
    assert_eq!(refused(-1, to, 0), -libc::EBADF as isize);
    // An empty pipe, one that is full, and one that nobody reads.
    assert_eq!(refused(from, fd, SPLICE_F_NONBLOCK), -libc::EAGAIN as isize);
    assert_eq!(library.write(to, &[0; 65_536]), 65_536);
    assert_eq!(refused(fd, to, SPLICE_F_NONBLOCK), -libc::EAGAIN as isize);
    assert_eq!(library.close(from), 0);
    assert_eq!(refused(fd, to, 0), -libc::EPIPE as isize);
}
