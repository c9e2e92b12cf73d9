//! Regions whose pages go missing: given back by the host, or not to be had from the kernel.
// miri has no memfd.
#![cfg(not(any(loom, miri)))]

use std::process::Command;

use queue_pair::{EngineSide, Layout, Sizes, lost, region};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Bytes of each area.
const AREA: u64 = 1 << 16;

fn region() -> (OwnedFd, EngineSide) {
    let sizes = Sizes {
        submission_entries: 16,
        completion_entries: 16,
        positions: 16,
        send_len: AREA,
        receive_len: AREA,
    };
    region::create(&Layout::new(sizes).unwrap()).unwrap()
}

fn byte_at(engine: &EngineSide, offset: u64) -> u8 {
    let mut byte = [0xff];
    engine.send.copy_out(offset, &mut byte).unwrap();
    byte[0]
}

#[test]
fn pages_that_a_host_gives_back_are_zeros_and_nobody_is_hurt() {
    let (fd, engine) = region();
    let host = region::attach(&fd).unwrap();
    host.send.copy_in(0, &[7; AREA as usize]).unwrap();
    assert_eq!(byte_at(&engine, AREA - 1), 7);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&fd, hole, 0, engine.layout.total_len).unwrap();
    assert_eq!(byte_at(&engine, AREA - 1), 0);
    engine.receive.copy_in(0, b"still shared").unwrap();
    let mut seen = [0; 12];
    host.receive.copy_out(0, &mut seen).unwrap();
    assert_eq!(&seen, b"still shared");
    assert!(!engine.is_lost(), "the kernel had new pages to give");
}

#[test]
fn what_is_given_back_is_zeros_for_both_and_takes_no_memory() {
    let (fd, engine) = region();
    let host = region::attach(&fd).unwrap();
    let blocks = || rustix::fs::fstat(&fd).unwrap().st_blocks as u64 * 512;
    let before = blocks();
    assert_eq!(engine.receive.resident().unwrap(), 0);
    engine.receive.copy_in(0, &[7; AREA as usize]).unwrap();
    assert_eq!(host.receive.resident().unwrap(), AREA);
    assert_eq!(blocks(), before + AREA);
    engine.receive.give_back(4096, 8192).unwrap();
    assert_eq!(engine.receive.resident().unwrap(), AREA - 8192);
    assert_eq!(blocks(), before + AREA - 8192);
    let mut seen = [1; 3];
    host.receive.copy_out(4095, &mut seen).unwrap();
    assert_eq!(seen, [7, 0, 0]);
    // What does not consist of whole pages inside, stays.
    for (offset, len) in [(1, 4096), (0, 4095), (AREA, 4096), (u64::MAX - 4095, 4096)] {
        assert!(engine.receive.give_back(offset, len).is_err());
    }
    // It is used again, and shared as before.
    host.receive.copy_in(4096, b"again").unwrap();
    let mut seen = [0; 5];
    engine.receive.copy_out(4096, &mut seen).unwrap();
    assert_eq!(&seen, b"again");
    assert!(!engine.is_lost());
}

#[test]
fn a_page_that_the_kernel_does_not_give_is_zeros_and_told() {
    let (fd, engine) = region();
    let (_, other) = region();
    let host = region::attach(&fd).unwrap();
    host.send.copy_in(0, &[7; AREA as usize]).unwrap();
    let before = lost::pages_lost();
    lost::lose_pages(&fd).unwrap();
    assert!(!engine.is_lost(), "nobody has touched it");
    for offset in [0, 4095, 4096, AREA - 1] {
        assert_eq!(byte_at(&engine, offset), 0);
    }
    assert!(engine.is_lost());
    assert!(lost::pages_lost() >= before + 3, "pages, not accesses");
    engine.receive.copy_in(5, b"for nobody").unwrap();
    let mut kept = [0; 10];
    engine.receive.copy_out(5, &mut kept).unwrap();
    assert_eq!(&kept, b"for nobody", "the page stays");
    assert!(!other.is_lost());

    // Whoever comes next has nothing of it.
    drop(engine);
    let (_, next) = region();
    assert!(!next.is_lost());
}

/// A process that may have no more memory of its own.
#[test]
fn a_page_is_kept_for_when_there_is_none() {
    const CHILD: &str = "OUTBOARD_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let name = "a_page_is_kept_for_when_there_is_none";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .status()
            .unwrap();
        assert!(child.success(), "{child}");
        return;
    }
    let (fd, engine) = region();
    lost::lose_pages(&fd).unwrap();
    let before = getrlimit(Resource::Data);
    let mut none = before;
    none.current = Some(4096);
    setrlimit(Resource::Data, none).unwrap();
    let bytes = [0, 4096, 8192].map(|offset| byte_at(&engine, offset));
    setrlimit(Resource::Data, before).unwrap();
    assert_eq!(bytes, [0; 3]);
    assert!(engine.is_lost());
}

/// What is no region's is answered as before.
#[test]
fn other_faults_end_the_process() {
    const CHILD: &str = "OUTBOARD_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "other_faults_end_the_process", "--nocapture"])
            .env(CHILD, "1")
            .status()
            .unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&child);
        assert_eq!(signal, Some(7), "SIGBUS: {child}");
        return;
    }
    let (fd, engine) = region();
    drop((fd, engine));
    let empty = rustix::fs::memfd_create("empty", MemfdFlags::CLOEXEC).unwrap();
    // SAFETY: a new mapping disturbs nobody, and it is of one page; reading it raises a signal, or
    // gives a byte.
    unsafe {
        let page = rustix::mm::mmap(
            core::ptr::null_mut(),
            4096,
            ProtFlags::READ,
            MapFlags::SHARED,
            &empty,
            0,
        );
        let _ = page.unwrap().cast::<u8>().read_volatile();
    }
}
