//! The library is loaded as packetdrill loads it, and driven through its C interface.

mod epoll;
mod library;
mod pipes;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use library::{Loaded, REMOTE};
use wire::tcp::Flags;

const NONE: &[(u32, u32)] = &[];
const HOUR: Duration = Duration::from_secs(3600);
/// After so long, of real time, it hangs.
const HANG: Duration = Duration::from_secs(60);

fn loaded() -> Loaded {
    Loaded::new(c"ip=192.0.2.1,tcp_timestamps=0")
}

/// Returns when a thread sleeps, as the runner finds out.
fn await_sleep(thread: rustix::thread::Pid) {
    let status = format!("/proc/self/task/{}/status", thread.as_raw_nonzero());
    let limit = Instant::now() + HANG;
    let sleeps = || {
        std::fs::read_to_string(&status)
            .unwrap()
            .contains("S (sleeping)")
    };
    while !sleeps() {
        assert!(Instant::now() < limit, "it never sleeps");
        std::thread::yield_now();
    }
}

#[test]
fn a_handshake() {
    let library = loaded();
    let (fd, iss) = library.connection();
    library.send(Flags::PSH, 1, Some(iss + 1), b"hello", NONE);
    assert_eq!(library.read(fd, 100), b"hello");
    let (answer, _) = library.receive().expect("an ACK");
    assert_eq!(answer.segment.ack, Some(6));
    let info = library.info(fd);
    assert_eq!((info["tcpi_state"], info["tcpi_bytes_received"]), (1, 5));
}

#[test]
fn a_transfer_with_loss() {
    let library = loaded();
    let (fd, iss) = library.connection();
    let data: Vec<u8> = (0..10_000_u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(library.write(fd, &data), 10_000);
    let mut received = vec![None; 10_000];
    let mut take = |segment: &sim::script::datagram::Received| {
        let at = segment.segment.seq.wrapping_sub(iss + 1) as usize;
        for (place, byte) in received[at..].iter_mut().zip(&segment.payload) {
            *place = Some(*byte);
        }
        at
    };
    for number in 0..10 {
        let (segment, _) = library.receive().expect("the initial window");
        // The first and the last are lost.
        if number != 0 && number != 9 {
            take(&segment);
        }
    }
    // What is beyond the first hole is reported, and the hole is repaired at once.
    let before = library.time();
    let block = [(iss + 1001, iss + 9001)];
    library.send(Flags::NONE, 1, Some(iss + 1), &[], &block);
    let (repair, at) = library.receive().expect("a retransmission");
    assert_eq!(take(&repair), 0);
    assert!(at - before < 50_000, "after {} µs", at - before);
    // Nothing more is told: the last one needs a timer, to which time jumps.
    library.send(Flags::NONE, 1, Some(iss + 9001), &[], NONE);
    let (last, later) = library.receive().expect("a retransmission by a timer");
    assert_eq!(take(&last), 9000);
    assert!(later > at);
    library.send(Flags::NONE, 1, Some(iss + 10_001), &[], NONE);
    let received: Option<Vec<u8>> = received.into_iter().collect();
    assert_eq!(received.as_deref(), Some(data.as_slice()));
    assert_eq!(library.info(fd)["tcpi_bytes_acked"], 10_000);
}

#[test]
fn a_close() {
    let library = loaded();
    let (fd, iss) = library.connection();
    assert_eq!(library.close(fd), 0);
    let (fin, _) = library.receive().expect("a FIN");
    assert_eq!(fin.segment.flags, Flags::FIN | Flags::ACK);
    library.send(Flags::FIN, 1, Some(iss + 2), &[], NONE);
    let (last, _) = library.receive().expect("the last ACK");
    assert_eq!((last.segment.seq, last.segment.ack), (iss + 2, Some(2)));
    // Nothing follows, however long one waits.
    assert!(library.receive().is_none());
    assert_eq!(library.close(fd), -1);
}

#[test]
fn a_call_that_blocks_really_sleeps() {
    let library = loaded();
    let (fd, iss) = library.connection();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            tell.send(rustix::thread::gettid()).unwrap();
            let bytes = library.read(fd, 100);
            (bytes, library.time())
        });
        await_sleep(told.recv().unwrap());
        library.sleep(100_000);
        assert!(!reader.is_finished());
        let before = library.time();
        library.send(Flags::PSH, 1, Some(iss + 1), b"late", NONE);
        let (bytes, at) = reader.join().unwrap();
        assert_eq!(bytes, b"late");
        // The reader hears when its call ended, not when it asked.
        assert!((before..before + 1000).contains(&at), "{before} {at}");
    });
}

#[test]
fn an_hour_takes_no_time() {
    let library = loaded();
    let (_fd, _) = library.connection();
    let (started, before) = (Instant::now(), library.time());
    let micros = HOUR.as_micros() as u32;
    library.sleep(micros);
    assert!(library.time() - before >= i64::from(micros));
    assert!(started.elapsed() < HOUR, "it waited in real time");
    assert!(library.receive().is_none());
}

/// Threads that have called it may end when it has been closed.
#[test]
fn once_loaded_it_stays() {
    drop(loaded());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains("libpacketdrill_adapter.so"));
}

#[test]
fn an_active_open_that_is_refused() {
    let library = loaded();
    let fd = library.socket();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| library.connect(fd, REMOTE));
        let limit = Instant::now() + HANG;
        let syn = loop {
            assert!(Instant::now() < limit, "no SYN");
            if let Some((syn, _)) = library.receive() {
                break syn;
            }
            std::thread::yield_now();
        };
        assert_eq!(syn.segment.flags, Flags::SYN);
        assert_eq!(syn.dst.to_string(), REMOTE);
        // Nobody answers: it is sent again and again, and then given up.
        while library.receive().is_some() {}
        assert_eq!(caller.join().unwrap(), -1);
    });
}
