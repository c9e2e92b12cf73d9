//! Regions as memory files: what a host accepts, and that both sides see the same memory.
// miri has no memfd.
#![cfg(not(any(loom, miri)))]

use proptest::prelude::*;
use queue_pair::memfd::{self, MemfdError};
use queue_pair::{Area, ConnRef, Layout, OptionKind, Sizes, Submission, Versions, Violation};
use queue_pair::{bells, region};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

fn layout() -> Layout {
    let sizes = Sizes {
        submission_entries: 16,
        completion_entries: 32,
        positions: 600,
        send_len: 8192,
        receive_len: 4096,
    };
    Layout::new(sizes).unwrap()
}

fn violation(fd: &OwnedFd) -> Violation {
    match region::attach(fd) {
        Err(MemfdError::Violation(violation)) => violation,
        Err(other) => panic!("not a violation: {other}"),
        Ok(_) => panic!("accepted"),
    }
}

/// A memory file of a program's own.
fn theirs(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("theirs", flags).unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn part_of_a_programs_memory_file_is_an_area_if_it_cannot_shrink() {
    let fd = theirs(20_000, SealFlags::SHRINK);
    assert_eq!(memfd::least_size(&fd), Ok(20_000));
    for offset in [0, 1, 4_095, 4_096, 8_193] {
        let area = Area::of_file("theirs", &fd, offset, 5_000).unwrap();
        area.copy_in(4_990, b"0123456789").unwrap();
        assert!(area.copy_in(4_991, b"0123456789").is_err());
        let mut there = [0; 10];
        rustix::io::pread(&fd, &mut there, offset + 4_990).unwrap();
        assert_eq!(&there, b"0123456789");
    }
    // It grows, and what is known of it stays true.
    rustix::fs::ftruncate(&fd, 30_000).unwrap();
    assert_eq!(memfd::least_size(&fd), Ok(30_000));
    let refused = |fd: &OwnedFd| memfd::least_size(fd).unwrap_err();
    assert_eq!(refused(&theirs(1, SealFlags::GROW)), Errno::PERM);
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    assert_eq!(refused(&pipe), Errno::INVAL);
    let on_disk = std::fs::File::open("/proc/self/exe").unwrap();
    assert_eq!(refused(&on_disk.into()), Errno::INVAL);
}

#[test]
fn both_sides_see_one_memory() {
    let (fd, mut engine) = region::create(&layout()).unwrap();
    let mut host = region::attach(&fd).unwrap();
    assert_eq!(host.layout, engine.layout);
    drop(fd);

    let conn = ConnRef {
        index: 3,
        generation: 9,
    };
    let send = Submission::Send {
        conn,
        addr: 4096,
        len: 5,
        more: false,
        consumed: 0,
    };
    host.send.copy_in(4096, b"hello").unwrap();
    assert_eq!(host.submissions.post(&send), Ok(true));
    host.submissions.publish();
    assert_eq!(engine.submissions.take(), Ok(Some(send)));
    let mut out = [0; 5];
    engine.send.copy_out(4096, &mut out).unwrap();
    assert_eq!(&out, b"hello");

    host.armed.arm(7);
    host.armed.arm(63);
    assert_eq!(engine.sleepers.take(bells::ALL), 1 << 7 | 1 << 63);
    assert_eq!(engine.sleepers.take(bells::ALL), 0);
    engine.armed.arm(0);
    engine.armed.disarm(0);
    assert_eq!(host.sleepers.take(bells::ALL), 0);
}

#[test]
fn a_word_that_came_later_than_what_is_spoken_is_refused() {
    let conn = ConnRef {
        index: 3,
        generation: 9,
    };
    let words = [
        (Submission::Acquire { conn }, 0),
        (Submission::ShutdownRead { conn }, 7),
        (
            Submission::Post {
                conn,
                addr: 0,
                len: 1,
                from: 0,
            },
            7,
        ),
        (
            Submission::SendFile {
                conn,
                file: 1,
                offset: 0,
                len: 1,
                more: false,
                at: 0,
            },
            8,
        ),
        (Submission::ForgetFile { file: 1 }, 8),
        (Submission::LetSynGo { conn }, 9),
        (Submission::TakeError { conn }, 11),
        (Submission::NonBlocking { conn, on: true }, 11),
        (
            Submission::SetOption {
                conn,
                option: OptionKind::NoDelay,
                value: 1,
            },
            0,
        ),
        (
            Submission::SetOption {
                conn,
                option: OptionKind::NotSentLow,
                value: 1,
            },
            10,
        ),
    ];
    let Versions { oldest, newest } = Versions::SPOKEN;
    for spoken in oldest..=newest {
        for (word, since) in words {
            assert_eq!(word.since(), since);
            let (fd, mut engine) = region::create(&layout().of_version(spoken)).unwrap();
            let mut host = region::attach(&fd).unwrap();
            assert_eq!(host.submissions.post(&word), Ok(true));
            host.submissions.publish();
            let taken = match since <= spoken {
                true => Ok(Some(word)),
                false => Err(Violation::NotAgreedOn {
                    what: "submission",
                    since,
                    spoken,
                }),
            };
            assert_eq!(engine.take_submission(), taken);
        }
    }
}

#[test]
fn the_size_of_a_region_is_final() {
    let (fd, _engine) = region::create(&layout()).unwrap();
    assert!(rustix::fs::ftruncate(&fd, 0).is_err());
    assert!(rustix::fs::ftruncate(&fd, 1 << 30).is_err());
    assert!(rustix::fs::fcntl_add_seals(&fd, SealFlags::WRITE).is_err());
    assert_eq!(memfd::verify(&fd).unwrap(), layout().total_len);
}

#[test]
fn a_memory_that_could_shrink_is_refused() {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, layout().total_len).unwrap();
        rustix::fs::fcntl_add_seals(&fd, all - missing).unwrap();
        assert!(
            matches!(violation(&fd), Violation::Unsealed { found, wanted }
            if found & missing.bits() == 0 && wanted == all.bits())
        );
    }
    // A plain file has no seals at all.
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(matches!(memfd::verify(&file), Err(MemfdError::Io(_))));
}

#[test]
fn a_header_that_lies_is_refused() {
    // At each offset of the header, what is written there, and what comes of it.
    let page = memfd::create("test", 4096).unwrap();
    assert_eq!(
        violation(&page),
        Violation::WrongVersion {
            found: 0,
            wanted: queue_pair::control::VERSION
        }
    );
    let empty = memfd::create("test", 0).unwrap();
    let field = "total_len";
    assert_eq!(
        violation(&empty),
        Violation::ImpossibleSize { field, found: 0 }
    );

    let lie = |at: u64, word: u64| {
        let (fd, _engine) = region::create(&layout()).unwrap();
        rustix::io::pwrite(&fd, &word.to_ne_bytes(), at).unwrap();
        violation(&fd)
    };
    assert_eq!(lie(0, 5), Violation::WrongMagic { found: 5 });
    assert_eq!(
        lie(8, 1),
        Violation::WrongVersion {
            found: 1,
            wanted: queue_pair::control::VERSION
        }
    );
    let field = "submission_entries";
    assert_eq!(lie(16, 12), Violation::ImpossibleSize { field, found: 12 });
    assert_eq!(
        lie(16, 1 << 40),
        Violation::ImpossibleSize { field, found: 0 }
    );
    let field = "send_len";
    assert_eq!(
        lie(40, u64::MAX),
        Violation::ImpossibleSize {
            field,
            found: u64::MAX
        }
    );
    let field = "submission_at";
    assert_eq!(
        lie(64, 0),
        Violation::WrongLayout {
            field,
            found: 0,
            wanted: 4096
        }
    );
    // Honest in itself, but larger than the memory.
    assert!(matches!(
        lie(48, 1 << 20),
        Violation::WrongLayout {
            field: "total_len",
            ..
        }
    ));
}

/// After a fork the child has no mapping: it cannot become a second producer by accident.
#[test]
fn children_do_not_inherit_the_hosts_mapping() {
    let (fd, engine) = region::create(&layout()).unwrap();
    let host = region::attach(&fd).unwrap();
    let at = |area: &queue_pair::Area| area.slice(0, 1).unwrap().as_ptr() as usize;
    // "dc": do not copy on fork (proc_pid_smaps(5)).
    assert!(flags_of_mapping(at(&host.send)).contains(&"dc".to_string()));
    assert!(!flags_of_mapping(at(&engine.send)).contains(&"dc".to_string()));
}

/// The VmFlags of the mapping that holds `address`.
fn flags_of_mapping(address: usize) -> Vec<String> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in smaps.lines() {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        if let Some((from, to)) = range {
            let hex = |s| usize::from_str_radix(s, 16).ok();
            if let (Some(from), Some(to)) = (hex(from), hex(to)) {
                inside = (from..to).contains(&address);
            }
        }
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("no mapping at {address:#x}");
}

#[test]
fn a_file_is_read_straight_into_an_area() {
    let (fd, engine) = region::create(&layout()).unwrap();
    let host = region::attach(&fd).unwrap();
    let file = memfd::create("file", 3000).unwrap();
    rustix::io::pwrite(&file, b"outboard", 2992).unwrap();
    let place = host.send.slice(100, 4000).unwrap();
    assert_eq!(queue_pair::read_in(place, &file, Some(2992)), Ok(8));
    let mut out = [0; 8];
    engine.send.copy_out(100, &mut out).unwrap();
    assert_eq!(&out, b"outboard");
    assert_eq!(queue_pair::read_in(place, &file, Some(3000)), Ok(0));
    assert_eq!(queue_pair::read_in(place, &file, None), Ok(3000));
    assert_eq!(queue_pair::read_in(place, &file, None), Ok(0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever sizes are possible, nothing overlaps and all is inside.
    #[test]
    fn layouts_do_not_overlap(
        submission in 0..20u32, completion in 0..20u32, send in 0..40u64, receive in 0..40u64,
        odd in 0..2u64,
    ) {
        let sizes = Sizes {
            submission_entries: 1 << submission,
            completion_entries: 1 << completion,
            positions: 600,
            send_len: send * 4096,
            receive_len: receive * 4096 + odd,
        };
        let possible = (1..=16).contains(&submission) && (1..=16).contains(&completion)
            && send > 0 && receive > 0 && odd == 0;
        let layout = Layout::new(sizes);
        prop_assert_eq!(layout.is_ok(), possible);
        let Ok(layout) = layout else { return Ok(()) };
        prop_assert!(layout.submission_at >= 4096);
        prop_assert!(layout.submission_at + (32 << submission) <= layout.completion_at);
        prop_assert!(layout.completion_at + (32 << completion) <= layout.send_at);
        prop_assert!(layout.send_at + sizes.send_len <= layout.receive_at);
        prop_assert!(layout.receive_at + sizes.receive_len <= layout.total_len);
    }
}
