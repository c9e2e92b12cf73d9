//! Control connections of a process that can have no more descriptors. Its limit is that of all its threads, so there is
//! one test here.
// miri has no sockets.
#![cfg(not(any(loom, miri)))]

use queue_pair::control::{Channel, Fds, Reply};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What there is room for still.
fn fill() -> Vec<OwnedFd> {
    std::iter::from_fn(|| eventfd(0, EventfdFlags::CLOEXEC).ok()).collect()
}

#[test]
fn descriptors_that_there_is_no_room_for_do_not_end_the_connection() {
    let (mut host, mut engine) = Channel::pair().unwrap();
    let reply = |waker| Reply::Waker { waker };
    let carried = || -> Fds {
        let fds = [(); 2].map(|()| eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        fds.into_iter().collect()
    };
    for waker in 0..3 {
        engine.send(&reply(waker), carried()).unwrap();
    }
    let before = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(64),
            maximum: before.maximum,
        },
    )
    .unwrap();
    let mut held = fill();
    let mut next = || {
        let (got, fds) = host.try_receive::<Reply>().unwrap().expect("a message");
        (got, fds.len())
    };
    assert_eq!(next(), (reply(0), 0));
    held.pop();
    assert_eq!(next(), (reply(1), 1));
    drop(held);
    assert_eq!(next(), (reply(2), 2));
}
