//! Doorbells and control connections: nobody can make the other side wait, nor grow.
// miri has no sockets.
#![cfg(not(any(loom, miri)))]

use queue_pair::control::{
    Channel, ChannelError, Fds, MAX_FDS, MAX_MESSAGE, MAX_UNSENT, Reply, Request, VERSION,
};
use queue_pair::doorbell::{self, Rung};
use queue_pair::{ConnRef, Violation};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn readable(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

#[test]
fn rings_are_heard() {
    let (ringer, mut bell) = doorbell::pair().unwrap();
    assert_eq!(bell.drain(), Rung::No);
    ringer.ring();
    bell.expect_no_rights();
    assert_eq!(bell.drain(), Rung::Yes);
    assert_eq!(bell.drain(), Rung::No);
    ringer.ring();
    assert!(readable(&bell));
    assert_eq!(bell.drain(), Rung::Yes);
    assert_eq!(bell.drain(), Rung::No);
    assert!(!readable(&bell));
    ringer.ring();
    ringer.ring_by_write();
    assert_eq!(bell.drain_by_read(), Rung::Yes);
    assert!(readable(&bell), "there is another ring");
    assert_eq!(bell.drain(), Rung::Yes);
    assert_eq!(bell.drain_by_read(), Rung::No);
    drop(ringer);
    assert_eq!(bell.drain(), Rung::Closed);
    assert_eq!(bell.drain_by_read(), Rung::Closed);
}

#[test]
fn ringing_never_waits() {
    let (ringer, bell) = doorbell::pair().unwrap();
    // The other side makes its end, and what it can reach of ours, blocking, and never drains.
    rustix::io::ioctl_fionbio(&bell, false).unwrap();
    rustix::io::ioctl_fionbio(&ringer, false).unwrap();
    for _ in 0..20_000 {
        ringer.ring();
    }
    let mut drains = 0;
    while bell.drain() == Rung::Yes {
        drains += 1;
    }
    assert!(drains >= 1, "what was full had been rung");
    // Nor does a bell that is gone raise SIGPIPE.
    drop(bell);
    ringer.ring();
}

#[test]
fn ringing_by_write_does_not_wait_either() {
    let (ringer, bell) = doorbell::pair().unwrap();
    for _ in 0..20_000 {
        ringer.ring_by_write();
    }
    assert_eq!(bell.drain_by_read(), Rung::Yes);
    drop(bell);
    ringer.ring_by_write();
}

#[test]
fn what_comes_with_a_ring_stays_where_it_is() {
    const MOST: usize = 253;
    let (ringer, bell) = doorbell::pair().unwrap();
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    let (reader, writer) = rustix::pipe::pipe_with(flags).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [writer.as_fd(); MOST];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let part = [IoSlice::new(&[1])];
    let sent = rustix::net::sendmsg(&ringer, &part, &mut control, SendFlags::DONTWAIT);
    assert_eq!(sent, Ok(1));
    drop(writer);
    let is_open = || rustix::io::read(&reader, &mut [0]) == Err(rustix::io::Errno::AGAIN);
    for _ in 0..2 {
        assert_eq!(bell.drain(), Rung::Rights);
        assert!(is_open() && readable(&bell));
    }
    drop(bell);
    assert!(!is_open());
}

/// A message of no bytes is else taken for the end of the other side.
#[test]
fn what_comes_with_nothing_or_behind_a_ring_is_found_too() {
    let (ringer, bell) = doorbell::pair().unwrap();
    ringer.ring();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [ringer.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let sent = rustix::net::sendmsg(&ringer, &[], &mut control, SendFlags::DONTWAIT);
    assert_eq!(sent, Ok(0));
    assert_eq!(bell.drain(), Rung::Yes);
    assert_eq!(bell.drain(), Rung::Rights);
}

/// A program of another language than Rust does not ignore SIGPIPE.
#[test]
fn a_bell_that_is_gone_raises_no_signal() {
    let (ringer, bell) = doorbell::pair().unwrap();
    drop(bell);
    // As an earlier engine made them.
    let (stream, _) = UnixStream::pair().unwrap();
    let earlier = doorbell::Ringer::from(OwnedFd::from(stream));
    // A signal that is ignored is kept all the same where it is blocked.
    let pending = || {
        // SAFETY: both sets are this thread's own, and are filled by the calls.
        unsafe {
            let mut set = MaybeUninit::uninit();
            assert_eq!(libc::sigpending(set.as_mut_ptr()), 0);
            libc::sigismember(set.as_ptr(), libc::SIGPIPE) == 1
        }
    };
    // SAFETY: as above; the mask is that of a thread which ends with the test.
    unsafe {
        let mut set = MaybeUninit::uninit();
        assert_eq!(libc::sigemptyset(set.as_mut_ptr()), 0);
        assert_eq!(libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE), 0);
        assert_eq!(
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()),
            0
        );
    }
    for ringer in [ringer, earlier] {
        ringer.ring();
        ringer.ring_by_write();
        assert!(!pending());
    }
}

#[test]
fn messages_carry_descriptors() {
    let (mut host, mut engine) = Channel::pair().unwrap();
    assert!(engine.try_receive::<Request>().unwrap().is_none());
    let program = "nginx".to_owned();
    let attach = Request::Attach {
        version: VERSION,
        oldest: None,
        program,
        fork_token: None,
    };
    host.send(&attach, Fds::new()).unwrap();
    let (request, fds) = engine.try_receive::<Request>().unwrap().unwrap();
    assert_eq!(request, attach);
    assert!(fds.is_empty());

    let (ringer, bell) = doorbell::pair().unwrap();
    let attached = Reply::Attached {
        local: true,
        session: 4,
        engine: "default".into(),
        interface: 2,
        others: vec![3],
        version: None,
    };
    let fds: Fds = [OwnedFd::from(bell)].into_iter().collect();
    engine.send(&attached, fds).unwrap();
    let (reply, mut fds) = host.try_receive::<Reply>().unwrap().unwrap();
    assert_eq!(reply, attached);
    let bell = doorbell::Bell::from(fds.pop().unwrap());
    ringer.ring();
    assert_eq!(bell.drain(), Rung::Yes);
    assert!(
        rustix::io::fcntl_getfd(&bell)
            .unwrap()
            .contains(rustix::io::FdFlags::CLOEXEC)
    );

    drop(engine);
    assert!(matches!(
        host.try_receive::<Reply>(),
        Err(ChannelError::Closed)
    ));
}

#[test]
fn a_request_waits_for_its_answer_but_not_for_ever() {
    let (mut host, mut engine) = Channel::pair().unwrap();
    let server = std::thread::spawn(move || {
        loop {
            match engine.try_receive::<Request>() {
                Ok(Some((Request::Waker, _))) => {
                    engine.send(&Reply::Waker { waker: 1 }, Fds::new()).unwrap();
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let mut fds = [PollFd::new(&engine, PollFlags::IN)];
                    rustix::event::poll(&mut fds, None).unwrap();
                }
                Err(error) => return error,
            }
        }
    });
    let limit = Duration::from_secs(30);
    let (reply, _) = host.request(&Request::Waker, Fds::new(), limit).unwrap();
    assert_eq!(reply, Reply::Waker { waker: 1 });
    let short = Duration::from_millis(1);
    let answer = host.request(&Request::Shutdown, Fds::new(), short);
    assert!(matches!(answer, Err(ChannelError::TimedOut(limit)) if limit == short));
    drop(host);
    assert!(matches!(server.join().unwrap(), ChannelError::Closed));
}

#[test]
fn an_answer_that_is_late_is_not_taken_for_another() {
    let (mut host, mut engine) = Channel::pair().unwrap();
    let ask = |host: &mut Channel, limit| match host.request(&Request::Waker, Fds::new(), limit) {
        Ok((reply, _)) => Some(reply),
        Err(ChannelError::TimedOut(_)) => None,
        Err(error) => panic!("{error}"),
    };
    let late = |host: &mut Channel| host.take_late().unwrap().map(|(reply, _)| reply);
    let (none, limit) = (Duration::ZERO, Duration::from_secs(30));
    assert_eq!(ask(&mut host, none), None);
    // The engine is not asked again until it has answered.
    assert_eq!(ask(&mut host, none), None);
    assert!(engine.try_receive::<Request>().unwrap().is_some());
    assert!(engine.try_receive::<Request>().unwrap().is_none());
    assert!(host.is_owed() && late(&mut host).is_none());
    engine.send(&Reply::Waker { waker: 1 }, Fds::new()).unwrap();
    engine.send(&Reply::Waker { waker: 2 }, Fds::new()).unwrap();
    assert_eq!(ask(&mut host, limit), Some(Reply::Waker { waker: 2 }));
    assert_eq!(late(&mut host), Some(Reply::Waker { waker: 1 }));
    assert!(!host.is_owed() && late(&mut host).is_none());
    // One for which nobody has waited at all.
    host.request_blindly(&Request::Settle).unwrap();
    engine.send(&Reply::Done, Fds::new()).unwrap();
    engine.send(&Reply::Waker { waker: 3 }, Fds::new()).unwrap();
    assert_eq!(ask(&mut host, limit), Some(Reply::Waker { waker: 3 }));
    assert_eq!(late(&mut host), Some(Reply::Done));
    drop(engine);
    let ended = host.request(&Request::Waker, Fds::new(), limit);
    assert!(matches!(ended, Err(ChannelError::Closed)));
}

#[test]
fn what_was_asked_in_passing_holds_nobody_up() {
    let (mut host, mut engine) = Channel::pair().unwrap();
    let ask = |host: &mut Channel, limit| match host.request(&Request::Waker, Fds::new(), limit) {
        Ok((reply, _)) => Some(reply),
        Err(ChannelError::TimedOut(_)) => None,
        Err(error) => panic!("{error}"),
    };
    let pass = |host: &mut Channel| {
        let unlisten = Request::Unlisten { listener: 1 };
        host.request_in_passing(&unlisten).unwrap()
    };
    let (none, limit) = (Duration::ZERO, Duration::from_secs(30));
    // Its answer need not have come for the next question, nor is it taken for the answer to that.
    assert!(pass(&mut host) && !host.is_owed());
    engine.send(&Reply::Done, Fds::new()).unwrap();
    engine.send(&Reply::Waker { waker: 1 }, Fds::new()).unwrap();
    assert_eq!(ask(&mut host, limit), Some(Reply::Waker { waker: 1 }));
    assert_eq!(host.take_late().unwrap().map(|(reply, _)| reply), None);
    // Before and after one that is late.
    assert!(pass(&mut host));
    assert_eq!(ask(&mut host, none), None);
    assert!(pass(&mut host) && host.is_owed());
    for reply in [Reply::Done, Reply::Waker { waker: 2 }, Reply::Done] {
        engine.send(&reply, Fds::new()).unwrap();
    }
    engine.send(&Reply::Waker { waker: 3 }, Fds::new()).unwrap();
    assert_eq!(ask(&mut host, limit), Some(Reply::Waker { waker: 3 }));
    let late = host.take_late().unwrap().map(|(reply, _)| reply);
    assert_eq!(late, Some(Reply::Waker { waker: 2 }));
    assert!(host.take_late().unwrap().is_none() && !host.is_owed());
    // An engine that does not run is not told without end, and answers of one that does are read.
    let told = (0..1000).take_while(|_| pass(&mut host)).count();
    assert!(told > 1 && told < 1000, "{told}");
    for _ in 0..told {
        engine.send(&Reply::Done, Fds::new()).unwrap();
    }
    assert!(pass(&mut host));
    drop(engine);
    assert!(matches!(
        host.request_in_passing(&Request::Settle),
        Err(ChannelError::Closed)
    ));
}

#[test]
fn who_says_more_than_the_engine_reads_may_ask_it_later() {
    let (mut host, mut engine) = Channel::pair().unwrap();
    let report = Request::Report {
        fd: 1,
        kind: "call".to_owned(),
        reason: "x".repeat(200),
    };
    let mut said = 0;
    while host.send(&report, Fds::new()).is_ok() {
        said += 1;
    }
    let ask = |host: &mut Channel, limit| host.request(&Request::Settle, Fds::new(), limit);
    let asked = ask(&mut host, Duration::from_millis(1));
    assert!(matches!(asked, Err(ChannelError::TimedOut(_))), "{asked:?}");
    let reader = std::thread::spawn(move || {
        let mut heard = 0;
        loop {
            match engine.try_receive::<Request>().unwrap() {
                Some((Request::Settle, _)) => {
                    engine.send(&Reply::Done, Fds::new()).unwrap();
                    return heard;
                }
                Some(_) => heard += 1,
                None => std::thread::yield_now(),
            }
        }
    });
    let (reply, _) = ask(&mut host, Duration::from_secs(30)).unwrap();
    assert_eq!(reply, Reply::Done);
    assert_eq!(reader.join().unwrap(), said);
}

#[test]
fn whoever_does_not_read_is_cut_off() {
    let (_host, mut engine) = Channel::pair().unwrap();
    let message = "x".repeat(8000);
    let error = (0..10_000)
        .find_map(|_| {
            engine
                .send(
                    &Reply::Error {
                        errno: 5,
                        message: message.clone(),
                    },
                    Fds::new(),
                )
                .err()
        })
        .expect("a bound");
    assert!(matches!(
        error,
        ChannelError::Violation(Violation::TooManyUnread { limit: MAX_UNSENT })
    ));
}

#[test]
fn what_waits_is_sent_when_there_is_room() {
    let (mut host, mut engine) = Channel::pair().unwrap();
    let mut sent = 0;
    while !engine.has_unsent() {
        let message = "x".repeat(50_000);
        engine
            .send(
                &Reply::Error {
                    errno: sent,
                    message,
                },
                Fds::new(),
            )
            .unwrap();
        sent += 1;
    }
    for expected in 0..sent {
        engine.flush().unwrap();
        let (reply, _) = host.try_receive::<Reply>().unwrap().unwrap();
        assert!(matches!(reply, Reply::Error { errno, .. } if errno == expected));
    }
    assert!(!engine.has_unsent());
}

/// A raw socket beside a channel, to say what no channel would.
fn raw() -> (OwnedFd, Channel) {
    let kind = SocketType::SEQPACKET;
    let (raw, other) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    (raw, Channel::new(other))
}

fn said(bytes: &[u8]) -> ChannelError {
    let (raw, mut channel) = raw();
    rustix::net::send(&raw, bytes, SendFlags::empty()).unwrap();
    channel.try_receive::<Request>().unwrap_err()
}

#[test]
fn nonsense_is_a_violation() {
    for nonsense in [
        b"\0\x01\x02".as_slice(),
        b"{",
        b"{\"Attach\":{}}",
        b"{\"Unlisten\":{\"listener\":-1}}",
        b"{\"Unlisten\":{\"listener\":1,\"more\":2}}",
        b"\"Nonsense\"",
        &b"[".repeat(60_000),
    ] {
        let error = said(nonsense);
        assert!(
            matches!(error, ChannelError::Violation(Violation::Unintelligible { len, .. }) if len == nonsense.len()),
            "{error:?}",
        );
    }
    let error = said(&vec![b' '; MAX_MESSAGE + 1]);
    let limit = MAX_MESSAGE;
    assert!(
        matches!(error, ChannelError::Violation(Violation::MessageTooLong { limit: l }) if l == limit)
    );
}

#[test]
fn too_many_descriptors_are_a_violation_and_closed() {
    let (raw, mut channel) = raw();
    let (_kept, counted) = doorbell::pair().unwrap();
    for count in [MAX_FDS + 1, 200] {
        let copies: Vec<BorrowedFd<'_>> = (0..count).map(|_| counted.as_fd()).collect();
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(count))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&copies)));
        let bytes = b"\"Waker\"";
        let iov = [IoSlice::new(bytes)];
        rustix::net::sendmsg(&raw, &iov, &mut ancillary, SendFlags::empty()).unwrap();
        let error = channel.try_receive::<Request>().unwrap_err();
        assert!(
            matches!(
                error,
                ChannelError::Violation(Violation::TooManyDescriptors { limit: MAX_FDS })
            ),
            "{error:?}",
        );
    }
    // With the last copy closed, the other end hears of it: none leaked.
    drop(counted);
    assert!(readable(&_kept), "a descriptor leaked");
}

#[test]
fn messages_look_like_this() {
    let json = |request: &Request| serde_json::to_string(request).unwrap();
    assert_eq!(json(&Request::Waker), r#""Waker""#);
    let conn = ConnRef {
        index: 1,
        generation: 2,
    };
    assert_eq!(
        json(&Request::Info { conn }),
        r#"{"Info":{"conn":{"index":1,"generation":2}}}"#
    );
    let addr = "[::]:80".parse().unwrap();
    assert_eq!(
        json(&Request::Listen {
            addr,
            v6only: true,
            backlog: 511,
            pinned: false,
        }),
        r#"{"Listen":{"addr":"[::]:80","v6only":true,"backlog":511}}"#,
        "as before version 14"
    );
}
