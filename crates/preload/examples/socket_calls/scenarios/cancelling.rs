//! Threads that are cancelled in calls on what is the kernel's, and in what libc does for them.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::zeroed;
use std::sync::OnceLock;

use super::interruptions::{
    Start, Work, cancel, polls, receives, selects, start, started, waits_in_a_set,
};
use super::{Stage, splicing};
use crate::calls;

// A thread that is cancelled in these unwinds.
unsafe extern "C-unwind" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn openat(directory: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn recvmmsg(
        fd: c_int,
        messages: *mut libc::mmsghdr,
        count: u32,
        flags: c_int,
        timeout: *mut libc::timespec,
    ) -> c_int;
    fn sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: u32, flags: c_int) -> c_int;
    fn epoll_pwait2(
        set: c_int,
        events: *mut libc::epoll_event,
        most: c_int,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    fn freopen(path: *const c_char, mode: *const c_char, file: *mut libc::FILE) -> *mut libc::FILE;
    fn fclose(file: *mut libc::FILE) -> c_int;
    fn mkstemp(template: *mut c_char) -> c_int;
    fn splice(
        from: c_int,
        from_offset: *mut libc::off_t,
        to: c_int,
        to_offset: *mut libc::off_t,
        length: usize,
        flags: u32,
    ) -> isize;
}

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn pthread_self() -> libc::pthread_t;
}

/// A FIFO that nobody writes to: this process's own, since others may run beside it.
fn fifo() -> *const c_char {
    static PATH: OnceLock<CString> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let name = format!("socket_calls-{}.fifo", std::process::id());
        let path = std::env::temp_dir().join(name);
        CString::new(path.into_os_string().into_encoded_bytes()).unwrap()
    });
    path.as_ptr()
}

/// What a thread was started with.
fn given(work: *mut c_void) -> (c_int, c_int) {
    started();
    // SAFETY: the starter's work.
    let work = unsafe { &*work.cast::<Work>() };
    (work.fd, work.set)
}

/// What a thread returns that was not cancelled: −1 would look as if it was.
fn ended(result: c_int) -> *mut c_void {
    (result as usize).wrapping_add(2) as *mut c_void
}

extern "C-unwind" fn opens(work: *mut c_void) -> *mut c_void {
    given(work);
    // SAFETY: a string.
    ended(unsafe { open(fifo(), libc::O_RDONLY) })
}

extern "C-unwind" fn opens_at(work: *mut c_void) -> *mut c_void {
    given(work);
    // SAFETY: a string.
    ended(unsafe { openat(libc::AT_FDCWD, fifo(), libc::O_RDONLY) })
}

extern "C-unwind" fn opens_a_file(work: *mut c_void) -> *mut c_void {
    given(work);
    // SAFETY: two strings.
    unsafe { fopen(fifo(), c"r".as_ptr()).cast() }
}

extern "C-unwind" fn opens_a_file_again(work: *mut c_void) -> *mut c_void {
    given(work);
    // SAFETY: strings, and a file of its own.
    unsafe {
        let file = libc::fopen(c"/dev/null".as_ptr(), c"r".as_ptr());
        freopen(fifo(), c"r".as_ptr(), file).cast()
    }
}

extern "C-unwind" fn locks(work: *mut c_void) -> *mut c_void {
    let (fd, _) = given(work);
    // SAFETY: a whole lock.
    unsafe {
        let mut lock: libc::flock = zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        ended(fcntl(fd, libc::F_OFD_SETLKW, &raw mut lock))
    }
}

/// A message of one byte.
fn message(part: &mut libc::iovec, byte: &mut u8) -> libc::mmsghdr {
    *part = libc::iovec {
        iov_base: std::ptr::from_mut(byte).cast(),
        iov_len: 1,
    };
    // SAFETY: made of integers and pointers.
    let mut message: libc::mmsghdr = unsafe { zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}

extern "C-unwind" fn receives_messages(work: *mut c_void) -> *mut c_void {
    let (fd, _) = given(work);
    // SAFETY: room for a message.
    unsafe {
        let (mut part, mut byte) = (zeroed(), 0);
        let mut one = message(&mut part, &mut byte);
        ended(recvmmsg(fd, &raw mut one, 1, 0, std::ptr::null_mut()))
    }
}

extern "C-unwind" fn sends_messages(work: *mut c_void) -> *mut c_void {
    let (fd, _) = given(work);
    // SAFETY: a whole message.
    unsafe {
        let (mut part, mut byte) = (zeroed(), 0);
        let mut one = message(&mut part, &mut byte);
        while sendmmsg(fd, &raw mut one, 1, 0) > 0 {}
        ended(0)
    }
}

extern "C-unwind" fn waits_to_the_nanosecond(work: *mut c_void) -> *mut c_void {
    let (_, set) = given(work);
    // SAFETY: room for an event.
    unsafe {
        let mut event: libc::epoll_event = zeroed();
        let none = std::ptr::null();
        ended(epoll_pwait2(set, &raw mut event, 1, none, none.cast()))
    }
}

extern "C-unwind" fn closes_a_file(work: *mut c_void) -> *mut c_void {
    let (fd, _) = given(work);
    // SAFETY: a file of its own.
    unsafe {
        let file = libc::fdopen(fd, c"w".as_ptr());
        libc::fputs(c"more".as_ptr(), file);
        ended(fclose(file))
    }
}

/// It is cancelled before: whatever may wait ends it.
extern "C-unwind" fn makes_a_file_at_last(work: *mut c_void) -> *mut c_void {
    let (fd, _) = given(work);
    let mut name = *b"socket_calls.XXXXXX\0";
    // SAFETY: itself, an own descriptor, and a string with room.
    unsafe {
        pthread_cancel(pthread_self());
        // Not so this.
        fcntl(fd, libc::F_GETFL);
        ended(mkstemp(name.as_mut_ptr().cast()))
    }
}

pub fn in_files(stage: &mut Stage<'_>) {
    // SAFETY: a string.
    unsafe {
        libc::unlink(fifo());
        libc::mkfifo(fifo(), 0o600);
    }
    let mut work = Work { fd: -1, set: -1 };
    let ways: [(&str, Start); 4] = [
        ("open", opens),
        ("openat", opens_at),
        ("fopen", opens_a_file),
        ("freopen", opens_a_file_again),
    ];
    for (name, way) in ways {
        for asleep in [true, false] {
            cancel(stage, name, way, &mut work, asleep);
        }
    }
    // SAFETY: own descriptors, a whole lock, and strings.
    let holder = unsafe {
        libc::unlink(fifo());
        work.fd = libc::memfd_create(c"locked".as_ptr(), 0);
        let path = format!("/proc/self/fd/{}\0", work.fd);
        let holder = libc::open(path.as_ptr().cast(), libc::O_RDWR);
        let mut lock: libc::flock = zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        libc::fcntl(holder, libc::F_OFD_SETLK, &raw mut lock);
        holder
    };
    for asleep in [true, false] {
        cancel(stage, "F_OFD_SETLKW", locks, &mut work, asleep);
    }
    cancel(stage, "mkstemp", makes_a_file_at_last, &mut work, false);
    for fd in [holder, work.fd] {
        // SAFETY: own descriptors.
        unsafe { libc::close(fd) };
    }
}

pub fn in_pipes(stage: &mut Stage<'_>) {
    // SAFETY: room for two numbers, and own descriptors.
    let (pair, pipe) = unsafe {
        let (mut pair, mut pipe) = ([0; 2], [0; 2]);
        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
        libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK);
        while libc::write(pipe[1], [0u8; 4096].as_ptr().cast(), 4096) > 0 {}
        libc::fcntl(pipe[1], libc::F_SETFL, 0);
        (pair, pipe)
    };
    let mut work = Work {
        fd: pair[0],
        set: -1,
    };
    for asleep in [true, false] {
        cancel(stage, "recvmmsg", receives_messages, &mut work, asleep);
        cancel(stage, "sendmmsg", sends_messages, &mut work, asleep);
    }
    work.fd = pipe[1];
    cancel(stage, "fclose", closes_a_file, &mut work, true);
    for fd in [pair[0], pair[1], pipe[0]] {
        // SAFETY: own descriptors.
        unsafe { libc::close(fd) };
    }
}

extern "C-unwind" fn splices_into_a_pipe(work: *mut c_void) -> *mut c_void {
    let (from, to) = given(work);
    let none = std::ptr::null_mut();
    // SAFETY: no positions.
    ended(unsafe { splice(from, none, to, none, 100, 0) } as c_int)
}

extern "C-unwind" fn splices_out_of_a_pipe(work: *mut c_void) -> *mut c_void {
    let (to, from) = given(work);
    let none = std::ptr::null_mut();
    // SAFETY: no positions.
    ended(unsafe { splice(from, none, to, none, 100, 0) } as c_int)
}

/// It waits for the pipe, into which nothing goes, or from which nothing comes.
pub fn beside_a_pipe(stage: &mut Stage<'_>, fd: c_int) {
    let [empty, full] = [splicing::pipe(0), splicing::pipe(libc::O_NONBLOCK)];
    // SAFETY: own descriptors, and whole bytes.
    unsafe {
        while libc::write(full[1], [0u8; 4096].as_ptr().cast(), 4096) > 0 {}
        libc::fcntl(full[1], libc::F_SETFL, 0);
    }
    stage.agent.tell("send stays");
    calls::await_bytes(fd, 5);
    let mut work = Work { fd, set: full[1] };
    cancel(stage, "splice", splices_into_a_pipe, &mut work, true);
    work.set = empty[0];
    cancel(stage, "splice", splices_out_of_a_pipe, &mut work, true);
    stage.transcript.recv(fd, 10, 0);
    splicing::close(empty);
    splicing::close(full);
}

/// More than waits to be sent.
const MUCH: usize = 32 << 20;

extern "C-unwind" fn closes_a_full_file(work: *mut c_void) -> *mut c_void {
    let (fd, _) = given(work);
    // libc may write from it until the program ends.
    let room = Box::leak(vec![0u8; MUCH].into_boxed_slice());
    // SAFETY: a file of its own, with so much room.
    unsafe {
        let file = libc::fdopen(fd, c"w".as_ptr());
        libc::setvbuf(file, room.as_mut_ptr().cast(), libc::_IOFBF, MUCH);
        for _ in 0..MUCH / 4096 - 1 {
            libc::fwrite([b'x'; 4096].as_ptr().cast(), 1, 4096, file);
        }
        ended(fclose(file))
    }
}

pub fn in_a_file_on_a_connection(stage: &mut Stage<'_>, fd: c_int) {
    let mut work = Work {
        // SAFETY: an own descriptor. It stays: libc may try to write there at the end.
        fd: unsafe { libc::dup(fd) },
        set: -1,
    };
    cancel(stage, "fclose", closes_a_full_file, &mut work, true);
    stage.agent.tell("reset");
}

/// A set with nothing of the engine's in it, in which several wait.
pub fn in_a_set(stage: &mut Stage<'_>) {
    // SAFETY: room for two numbers, and own descriptors and events.
    let (set, pipe) = unsafe {
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        let set = libc::epoll_create1(0);
        let mut event: libc::epoll_event = zeroed();
        event.events = libc::EPOLLIN as u32;
        libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, pipe[0], &raw mut event);
        (set, pipe)
    };
    let others = [(); 3].map(|()| {
        std::thread::spawn(move || {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: room for an event.
            unsafe { libc::epoll_wait(set, &raw mut event, 1, calls::HANG) }
        })
    });
    let mut work = Work { fd: -1, set };
    for asleep in [true, false].repeat(20) {
        cancel(stage, "epoll_wait", waits_in_a_set, &mut work, asleep);
        let precisely = waits_to_the_nanosecond;
        cancel(stage, "epoll_pwait2", precisely, &mut work, asleep);
    }
    // Who is not cancelled waits on.
    // SAFETY: an own descriptor and a byte.
    unsafe { libc::write(pipe[1], c"x".as_ptr().cast(), 1) };
    for other in others {
        let found = other.join().expect("it ends");
        stage.transcript.note(format_args!("another found {found}"));
    }
    for fd in [set, pipe[0], pipe[1]] {
        // SAFETY: own descriptors.
        unsafe { libc::close(fd) };
    }
}

/// On a connection on which others wait in the same calls.
pub fn beside_others(stage: &mut Stage<'_>, fd: c_int) {
    let ways: [(&str, Start); 3] = [("recv", receives), ("poll", polls), ("select", selects)];
    let mut work = Work { fd, set: -1 };
    let others = ways.map(|(_, way)| [(); 2].map(|()| start(way, &mut work)));
    for (name, way) in ways {
        cancel(stage, name, way, &mut work, true);
    }
    stage.agent.tell("close");
    for (other, (name, _)) in others.into_iter().zip(ways) {
        for one in other {
            let mut ended = std::ptr::null_mut();
            // SAFETY: a thread that was started and not joined.
            unsafe { libc::pthread_join(one, &raw mut ended) };
            let ended = ended as isize;
            stage
                .transcript
                .note(format_args!("another {name}: {ended}"));
        }
    }
}
