//! What interrupts a call: signals, cancellation, and processes that are made within.

use std::ffi::{c_int, c_void};
use std::mem::{size_of, zeroed};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use super::Stage;
use crate::calls;

pub type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

// A thread that is cancelled in these unwinds.
unsafe extern "C-unwind" {
    fn read(fd: c_int, buffer: *mut c_void, length: usize) -> isize;
    fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize;
    fn send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize;
    fn accept(fd: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> c_int;
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, milliseconds: c_int) -> c_int;
    fn select(
        count: c_int,
        read: *mut libc::fd_set,
        write: *mut libc::fd_set,
        except: *mut libc::fd_set,
        timeout: *mut libc::timeval,
    ) -> c_int;
    fn epoll_wait(set: c_int, events: *mut libc::epoll_event, most: c_int, limit: c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn _Fork() -> c_int;
}

const CANCELED: usize = usize::MAX;
const ASYNCHRONOUS: c_int = 1;

/// The thread that was started last, by the kernel's number.
static THREAD: AtomicI32 = AtomicI32::new(0);

/// What a thread works with.
#[repr(C)]
pub struct Work {
    pub fd: c_int,
    pub set: c_int,
}

pub fn started() {
    // SAFETY: asks for a number.
    THREAD.store(unsafe { libc::gettid() }, Ordering::SeqCst);
}

pub extern "C-unwind" fn receives(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; one byte of room.
    unsafe {
        let mut byte = 0u8;
        recv((*work.cast::<Work>()).fd, (&raw mut byte).cast(), 1, 0) as *mut c_void
    }
}

extern "C-unwind" fn reads(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; one byte of room.
    unsafe {
        let mut byte = 0u8;
        read((*work.cast::<Work>()).fd, (&raw mut byte).cast(), 1) as *mut c_void
    }
}

extern "C-unwind" fn sends(work: *mut c_void) -> *mut c_void {
    started();
    let bytes = [b'x'; 4096];
    loop {
        // SAFETY: the starter's work, and whole bytes.
        let sent = unsafe { send((*work.cast::<Work>()).fd, bytes.as_ptr().cast(), 4096, 0) };
        if sent < 0 {
            return sent as *mut c_void;
        }
    }
}

pub extern "C-unwind" fn polls(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; one entry.
    unsafe {
        let mut entry: libc::pollfd = zeroed();
        (entry.fd, entry.events) = ((*work.cast::<Work>()).fd, libc::POLLIN);
        poll(&raw mut entry, 1, -1) as usize as *mut c_void
    }
}

pub extern "C-unwind" fn selects(work: *mut c_void) -> *mut c_void {
    started();
    let none = std::ptr::null_mut();
    // SAFETY: the starter's work; a whole set.
    unsafe {
        let fd = (*work.cast::<Work>()).fd;
        let mut set: libc::fd_set = zeroed();
        libc::FD_SET(fd, &raw mut set);
        select(fd + 1, &raw mut set, none, none, none.cast()) as usize as *mut c_void
    }
}

pub extern "C-unwind" fn waits_in_a_set(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; room for an event.
    unsafe {
        let mut event: libc::epoll_event = zeroed();
        epoll_wait((*work.cast::<Work>()).set, &raw mut event, 1, -1) as usize as *mut c_void
    }
}

extern "C-unwind" fn accepts(work: *mut c_void) -> *mut c_void {
    started();
    let none = std::ptr::null_mut();
    // SAFETY: the starter's work; no address is asked for.
    unsafe { accept((*work.cast::<Work>()).fd, none, none.cast()) as usize as *mut c_void }
}

/// Looks without waiting, over and over, and may be cancelled at any instruction of it.
extern "C-unwind" fn looks_for_ever(work: *mut c_void) -> *mut c_void {
    started();
    // SAFETY: the starter's work; one byte of room.
    unsafe {
        let mut before = 0;
        pthread_setcanceltype(ASYNCHRONOUS, &raw mut before);
        let fd = (*work.cast::<Work>()).fd;
        loop {
            let mut byte = 0u8;
            recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT);
        }
    }
}

pub fn start(thread: Start, work: &mut Work) -> libc::pthread_t {
    THREAD.store(0, Ordering::SeqCst);
    // SAFETY: the work outlives the thread, which is joined. Unwinding stays within the thread.
    unsafe {
        let thread =
            std::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(thread);
        let mut id: libc::pthread_t = zeroed();
        let work = std::ptr::from_mut(work).cast();
        libc::pthread_create(&raw mut id, std::ptr::null(), thread, work);
        id
    }
}

/// Waits until the thread that was started last sleeps, or has ended without that, as its result then tells.
fn until_it_sleeps() {
    loop {
        let thread = THREAD.load(Ordering::SeqCst);
        let state = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        if thread != 0 && state.is_err() {
            return;
        }
        if thread != 0 && calls::is_asleep(&state.unwrap_or_default()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

pub fn cancel(stage: &mut Stage<'_>, name: &str, thread: Start, work: &mut Work, asleep: bool) {
    let id = start(thread, work);
    if asleep {
        until_it_sleeps();
    }
    // SAFETY: a thread that was started and not joined.
    let ended = unsafe {
        pthread_cancel(id);
        let mut ended = std::ptr::null_mut();
        libc::pthread_join(id, &raw mut ended);
        ended as usize
    };
    stage
        .transcript
        .note(format_args!("{name}: cancelled {}", ended == CANCELED));
}

pub fn cancelled(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: own descriptors and events.
    let set = unsafe {
        let set = libc::epoll_create1(0);
        let mut event: libc::epoll_event = zeroed();
        event.events = libc::EPOLLIN as u32;
        libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event);
        set
    };
    let mut work = Work { fd, set };
    for asleep in [true, false] {
        cancel(stage, "recv", receives, &mut work, asleep);
        cancel(stage, "poll", polls, &mut work, asleep);
        cancel(stage, "select", selects, &mut work, asleep);
        cancel(stage, "epoll_wait", waits_in_a_set, &mut work, asleep);
        cancel(stage, "read", reads, &mut work, asleep);
    }
    // A pipe is the kernel's alone.
    let mut pipe = [0; 2];
    // SAFETY: room for two numbers.
    unsafe { libc::pipe(pipe.as_mut_ptr()) };
    work.fd = pipe[0];
    cancel(stage, "read from a pipe", reads, &mut work, true);
    cancel(stage, "poll of a pipe", polls, &mut work, true);
    // Nothing was taken, and nothing is locked.
    stage.agent.tell("send after");
    calls::await_bytes(fd, 5);
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.send(fd, "works", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    work.fd = fd;
    cancel(stage, "send", sends, &mut work, true);
    for other in [set, pipe[0], pipe[1]] {
        // SAFETY: own descriptors.
        unsafe { libc::close(other) };
    }
}

pub fn cancelled_in_accept(stage: &mut Stage<'_>) {
    let (listener, address) = calls::listening(stage.here, 0);
    let mut work = Work {
        fd: listener,
        set: -1,
    };
    for asleep in [true, false] {
        cancel(stage, "accept", accepts, &mut work, asleep);
    }
    stage.agent.tell(&format!("connect {address}"));
    let none = std::ptr::null_mut::<libc::sockaddr>();
    // SAFETY: an own listener; no address is asked for.
    let fd = unsafe { libc::accept(listener, none, std::ptr::null_mut()) };
    stage.transcript.fd("accept", fd);
    stage.transcript.close(fd);
    stage.transcript.close(listener);
}

pub fn cancelled_anywhere(stage: &mut Stage<'_>, fd: c_int) {
    for _ in 0..50 {
        let mut work = Work { fd, set: -1 };
        let id = start(looks_for_ever, &mut work);
        while THREAD.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // SAFETY: a thread that was started and not joined.
        unsafe {
            pthread_cancel(id);
            libc::pthread_join(id, std::ptr::null_mut());
        }
    }
    stage.agent.tell("send after");
    calls::await_bytes(fd, 5);
    stage.transcript.recv(fd, 10, 0);
    stage.transcript.send(fd, "works", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
}

pub static HANDLED: AtomicU32 = AtomicU32::new(0);
pub static CONNECTION: AtomicI32 = AtomicI32::new(-1);

pub extern "C" fn counts(_signal: c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

pub extern "C" fn makes_calls(_signal: c_int) {
    let fd = CONNECTION.load(Ordering::SeqCst);
    let mut byte = 0u8;
    // SAFETY: an own descriptor; one byte.
    unsafe {
        libc::send(fd, c"h".as_ptr().cast(), 1, libc::MSG_DONTWAIT);
        libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT);
        let second = libc::dup(fd);
        libc::close(second);
    }
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

fn handle(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) {
    // SAFETY: a handler of the type that goes with the flags.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

pub fn every(microseconds: i64) {
    // SAFETY: a whole time.
    unsafe {
        let mut time: libc::itimerval = zeroed();
        time.it_interval.tv_usec = microseconds;
        time.it_value.tv_usec = microseconds;
        libc::setitimer(libc::ITIMER_REAL, &raw const time, std::ptr::null_mut());
    }
}

/// A handler makes the same calls on the same connection as what it interrupts, wherever that is.
pub fn calls_in_a_handler(stage: &mut Stage<'_>, fd: c_int) {
    CONNECTION.store(fd, Ordering::SeqCst);
    HANDLED.store(0, Ordering::SeqCst);
    handle(libc::SIGALRM, makes_calls, libc::SA_RESTART);
    every(100);
    while HANDLED.load(Ordering::SeqCst) < 1000 {
        let mut byte = 0u8;
        // SAFETY: an own descriptor; one byte; one entry.
        unsafe {
            libc::send(fd, c"m".as_ptr().cast(), 1, libc::MSG_DONTWAIT);
            libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT);
            let mut entry: libc::pollfd = zeroed();
            (entry.fd, entry.events) = (fd, libc::POLLIN);
            libc::poll(&raw mut entry, 1, 0);
        }
    }
    every(0);
    stage.transcript.note("a thousand times");
    stage.agent.tell("send after");
    calls::await_bytes(fd, 5);
    stage.transcript.recv(fd, 10, 0);
}

/// One handler lets calls go on, another one ends them: it matters which of them was called.
pub fn two_kinds(stage: &mut Stage<'_>, fd: c_int) {
    handle(libc::SIGUSR1, counts, libc::SA_RESTART);
    handle(libc::SIGUSR2, counts, 0);
    HANDLED.store(0, Ordering::SeqCst);
    let mut work = Work { fd, set: -1 };
    let id = start(receives, &mut work);
    until_it_sleeps();
    // SAFETY: a thread that was started and not joined.
    unsafe { libc::pthread_kill(id, libc::SIGUSR1) };
    while HANDLED.load(Ordering::SeqCst) < 1 {
        std::thread::yield_now();
    }
    until_it_sleeps();
    // SAFETY: as above.
    let ended = unsafe {
        libc::pthread_kill(id, libc::SIGUSR2);
        let mut ended = std::ptr::null_mut();
        libc::pthread_join(id, &raw mut ended);
        ended as isize
    };
    let handled = HANDLED.load(Ordering::SeqCst);
    stage
        .transcript
        .note(format_args!("{handled} handled, recv: {ended}"));
}

pub fn asked_for(stage: &mut Stage<'_>, _fd: c_int) {
    // SAFETY: handlers of the types that go with the flags.
    unsafe {
        let counts_at = counts as *const () as usize;
        handle(libc::SIGUSR1, counts, libc::SA_RESTART | libc::SA_RESETHAND);
        let mut action: libc::sigaction = zeroed();
        let asked = |action: &mut libc::sigaction| {
            libc::sigaction(libc::SIGUSR1, std::ptr::null(), action);
            // The kernel's own flag is of no interest.
            (
                action.sa_sigaction == counts_at,
                action.sa_flags & !0x0400_0000,
            )
        };
        let told = asked(&mut action);
        stage.transcript.note(format_args!("once: {told:x?}"));
        HANDLED.store(0, Ordering::SeqCst);
        libc::raise(libc::SIGUSR1);
        let told = (HANDLED.load(Ordering::SeqCst), asked(&mut action));
        stage.transcript.note(format_args!("raised: {told:x?}"));
        let before = libc::signal(libc::SIGUSR1, counts_at);
        let told = (before == libc::SIG_DFL, asked(&mut action));
        stage.transcript.note(format_args!("signal: {told:x?}"));
        libc::raise(libc::SIGUSR1);
        libc::raise(libc::SIGUSR1);
        let before = libc::signal(libc::SIGUSR1, libc::SIG_IGN);
        let told = (HANDLED.load(Ordering::SeqCst), before == counts_at);
        stage
            .transcript
            .note(format_args!("raised twice: {told:x?}"));
    }
}

/// What a child does with its connection: what it closes its parent has still. At last it tells that it is done, which
/// who waits for it finds when it goes on.
extern "C" fn reads_and_closes(numbers: *mut c_void) -> c_int {
    // SAFETY: what clone was given.
    let [fd, done] = unsafe { *numbers.cast::<[c_int; 2]>() };
    let mut bytes = [0u8; 32];
    // SAFETY: an own descriptor and whole bytes.
    unsafe {
        let said = libc::write(fd, c"child".as_ptr().cast(), 5);
        let read = libc::read(fd, bytes.as_mut_ptr().cast(), 32);
        let closed = libc::close(fd);
        // For one who does not wait to go on.
        libc::usleep(100_000);
        let told = libc::write(done, c"x".as_ptr().cast(), 1);
        c_int::from(said != 5 || read != 13 || closed != 0 || told != 1)
    }
}

/// `make` makes a child that [`reads_and_closes`], and returns when that has ended.
fn waits_for_its_child(
    stage: &mut Stage<'_>,
    fd: c_int,
    name: &str,
    make: impl FnOnce(*mut c_void) -> c_int,
) {
    stage.agent.tell("send for-the-child");
    calls::await_bytes(fd, 13);
    let (is_done, done) = std::io::pipe().expect("a pipe");
    let mut numbers = [fd, done.as_raw_fd()];
    let child = make((&raw mut numbers).cast());
    let mut polled = libc::pollfd {
        fd: is_done.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: an own entry.
    let waited = unsafe { libc::poll(&raw mut polled, 1, 0) } == 1;
    let mut status = 0;
    // SAFETY: an own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(format_args!(
        "{name}: {status}, waited for: {waited}, the agent got {got}"
    ));
}

unsafe extern "C" {
    fn vfork() -> c_int;
}

/// A child by vfork, which runs `main` and ends. What it leaves on the stack that it has with its parent lies below what
/// that one needs.
///
/// # Safety
/// As `main`, which does what the child of a vfork may do.
#[unsafe(naked)]
unsafe extern "C" fn by_vfork(
    main: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    std::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "sub rsp, 8",
        "mov rbx, rdi",
        "mov rbp, rsi",
        "call {vfork}",
        "test eax, eax",
        "jnz 2f",
        "mov rdi, rbp",
        "call rbx",
        "mov edi, eax",
        "call {exit}",
        "2:",
        "add rsp, 8",
        "pop rbp",
        "pop rbx",
        "ret",
        vfork = sym vfork,
        exit = sym libc::_exit,
    )
}

/// The next fork raises a signal in its parent, as soon as it is made.
static RAISES: AtomicBool = AtomicBool::new(false);

extern "C" fn raises() {
    if RAISES.swap(false, Ordering::Relaxed) {
        // SAFETY: there is a handler.
        unsafe { libc::raise(libc::SIGUSR2) };
    }
}

extern "C" fn forks(_: c_int) {
    // SAFETY: the child ends at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

/// As [`waits_for_its_child`], after a vfork during which a signal comes whose handler forks, too.
fn waits_beside_a_handler_that_forks(stage: &mut Stage<'_>, fd: c_int) {
    // SAFETY: handlers that may be called there; the child makes a few calls and ends.
    unsafe {
        libc::pthread_atfork(None, Some(raises), None);
        let before = libc::signal(libc::SIGUSR2, forks as *const () as libc::sighandler_t);
        RAISES.store(true, Ordering::Relaxed);
        let name = "vfork beside a handler that forks";
        waits_for_its_child(stage, fd, name, |numbers| {
            by_vfork(reads_and_closes, numbers)
        });
        // The kernel's vfork calls no handlers.
        RAISES.store(false, Ordering::Relaxed);
        libc::signal(libc::SIGUSR2, before);
    }
}

/// Children that are made by other ways than fork.
pub fn other_forks(stage: &mut Stage<'_>, fd: c_int) {
    let clone_flags = u64::from(libc::SIGCHLD as u32);
    let mut arguments = [0u64; 11];
    arguments[4] = clone_flags;
    let size = size_of::<[u64; 11]>();
    let ways: [(&str, &dyn Fn() -> i64); 4] = [
        // SAFETY: the child makes a few calls and ends.
        ("_Fork", &|| unsafe { _Fork() }.into()),
        // SAFETY: as above.
        ("fork by number", &|| unsafe {
            libc::syscall(libc::SYS_fork)
        }),
        // SAFETY: as above.
        ("clone by number", &|| unsafe {
            libc::syscall(libc::SYS_clone, clone_flags, 0usize, 0usize, 0usize, 0usize)
        }),
        // SAFETY: as above.
        ("clone3 by number", &|| unsafe {
            libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size)
        }),
    ];
    for (name, way) in ways {
        stage.agent.tell("send for-the-child");
        calls::await_bytes(fd, 13);
        let child = way();
        if child == 0 {
            let mut bytes = [0u8; 32];
            // SAFETY: an own descriptor and whole bytes.
            unsafe {
                let said = libc::write(fd, c"child".as_ptr().cast(), 5);
                let read = libc::read(fd, bytes.as_mut_ptr().cast(), 32);
                libc::_exit(if said == 5 && read == 13 { 0 } else { 1 });
            }
        }
        let mut status = 0;
        // SAFETY: an own child.
        unsafe { libc::waitpid(child as c_int, &raw mut status, 0) };
        let got = stage.agent.tell("receive 5");
        stage
            .transcript
            .note(format_args!("{name}: {status}, the agent got {got}"));
    }
    waits_for_its_child(stage, fd, "clone", |numbers| {
        let mut stack = vec![0u8; 1 << 20];
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child has a stack of its own, makes a few calls and ends.
        unsafe {
            let top = stack.as_mut_ptr().add(stack.len()).cast();
            libc::clone(reads_and_closes, top, flags, numbers)
        }
    });
    // SAFETY: the child makes a few calls and ends.
    waits_for_its_child(stage, fd, "vfork", |numbers| unsafe {
        by_vfork(reads_and_closes, numbers)
    });
    waits_beside_a_handler_that_forks(stage, fd);
    // A child of which nobody could be told: it may not have the connection, but it lives.
    // SAFETY: a fork: the child makes a few calls and ends.
    unsafe {
        let child = fork_by_hand();
        if child == 0 {
            let mut byte = 0u8;
            libc::send(fd, c"x".as_ptr().cast(), 0, libc::MSG_NOSIGNAL);
            libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT);
            libc::close(fd);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child as c_int, &raw mut status, 0);
        stage.transcript.note(format_args!("by hand: {status}"));
    }
    stage.transcript.send(fd, "parent", 0);
    let got = stage.agent.tell("receive 6");
    stage.transcript.note(got);
    // One made by a child that has used nothing yet: what it closes stays that child's.
    // SAFETY: forks: the children make a few calls and end.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let grandchild = fork_by_hand();
            if grandchild == 0 {
                libc::close(fd);
                libc::_exit(0);
            }
            libc::waitpid(grandchild as c_int, std::ptr::null_mut(), 0);
            let said = libc::send(fd, c"heir".as_ptr().cast(), 4, libc::MSG_NOSIGNAL);
            libc::_exit(i32::from(said != 4));
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        stage.transcript.note(format_args!("an heir: {status}"));
        if status == 0 {
            let got = stage.agent.tell("receive 4");
            stage.transcript.note(got);
        }
    }
}

/// A fork of which nobody is told.
unsafe fn fork_by_hand() -> i64 {
    let child: i64;
    // SAFETY: as the caller says.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_fork => child,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    child
}
