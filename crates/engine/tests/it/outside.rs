//! A process of another PID namespace, which has no number in the engine's: the kernel says 0 for it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netdev::syscalls::peer_credentials;
use queue_pair::control::{Channel, Fds, KNOCK, Reply, Request, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    socketpair,
};

use crate::world::World;

/// Set where this test is the engine.
const INSIDE: &str = "OUTBOARD_TEST_INSIDE";
/// Nothing takes longer, or it hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("descriptors")
}

/// What there is on a descriptor after at most so long.
fn ready(fd: impl AsFd, limit: Duration) -> PollFlags {
    let mut polls = [PollFd::new(&fd, PollFlags::IN)];
    let limit = Timespec::try_from(limit).expect("a time");
    poll(&mut polls, Some(&limit)).expect("polled");
    polls[0].revents()
}

fn ask(channel: &mut Channel, request: &Request) -> (Reply, Fds) {
    channel.send(request, Fds::new()).expect("sent");
    assert!(
        ready(&*channel, LIMIT).contains(PollFlags::IN),
        "{request:?}"
    );
    let reply = channel.try_receive::<Reply>().expect("open");
    reply.expect("whole")
}

/// The engine, for the one who is at the other end of standard input.
fn engine() {
    let mut world = World::new();
    let client = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .expect("a copy");
    assert_eq!(peer_credentials(&client).expect("known").pid, 0);
    world.desk.add_client(client).expect("room");
    let begin = Instant::now();
    while !ready(std::io::stdin().as_fd(), Duration::ZERO).contains(PollFlags::HUP) {
        assert!(begin.elapsed() < LIMIT, "it stays");
        world.attend();
        std::thread::sleep(Duration::from_millis(1));
    }
    world.attend();
    assert_eq!(world.worker.sessions(), 0);
}

#[test]
fn who_has_no_number_is_served_and_brings_no_connection_along() {
    if std::env::var_os(INSIDE).is_some() {
        return engine();
    }
    let may = Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no PID namespace can be made (root, and unshare of util-linux)");
        return;
    }
    let (ours, theirs) = pair();
    let test = "outside::who_has_no_number_is_served_and_brings_no_connection_along";
    let mut engine = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--"])
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "")
        .stdin(Stdio::from(theirs))
        .spawn()
        .expect("begun");
    let mut channel = Channel::new(ours);
    let request = Request::Attach {
        version: VERSION,
        oldest: None,
        program: "outside".to_owned(),
        fork_token: None,
    };
    let (reply, _fds) = ask(&mut channel, &request);
    assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
    let (reply, mut fds) = ask(&mut channel, &Request::Fork);
    assert!(matches!(reply, Reply::Forked { .. }), "{reply:?}");
    // Who has no number could be anybody who has none: what it brings is not taken for its own.
    let lifeline = fds.pop().expect("a lifeline");
    let (own, theirs) = pair();
    let brought = [theirs.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    assert!(along.push(SendAncillaryMessage::ScmRights(&brought)));
    let message = [IoSlice::new(&KNOCK)];
    rustix::net::sendmsg(&lifeline, &message, &mut along, SendFlags::DONTWAIT).expect("sent");
    drop(theirs);
    let (reply, _) = ask(&mut channel, &Request::Explain { pid: 0 });
    assert!(!matches!(reply, Reply::Error { .. }), "{reply:?}");
    drop(lifeline);
    let (reply, _) = ask(&mut channel, &Request::Engine);
    assert!(matches!(reply, Reply::Engine(_)), "{reply:?}");
    // It was closed.
    assert!(ready(&own, LIMIT).contains(PollFlags::HUP));
    drop(own);
    drop(channel);
    assert!(engine.wait().expect("waited for").success());
}
