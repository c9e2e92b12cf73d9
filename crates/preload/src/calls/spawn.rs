//! Programs that libc starts by calls within it: posix_spawn, and system and popen, which are made of it
//! here where a connection of the engine's goes along.
//!
//! libc makes a child with a table of descriptors of its own and executes the program there, where nobody
//! else has a say. So for the time of the call the numbers that go along are tickets
//! ([`travel`](crate::calls::travel)): those that stay open, and those of which a file action makes another. What
//! this process does with such a number meanwhile goes by the table, as ever.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};
use core::mem::zeroed;
use core::ptr::{null, null_mut};
use std::ffi::CString;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use libc::{FILE, pid_t, posix_spawn_file_actions_t, sigset_t};
use rustix::io::Errno;

use crate::calls::departing::{Departing, Successor};
use crate::calls::enter::{Apart, Fate};
use crate::calls::epoll;
use crate::calls::exec;
use crate::engine::{report, session};
use crate::kernel::lock::lock;
use crate::kernel::raw::{result, set_errno, sys};
use crate::numbers;
use crate::numbers::table;

/// What a program that was started has not got.
const NOT_PASSED: &str = "a program that it has started has not got a connection with the engine: there was no ticket, or no descriptor left for one";

/// What it waits for in vain.
const NOT_NOTED: &str = "there were no descriptors or watches left for an epoll set that a program which it has started has, too: that one is not told there of connections with the engine";

/// Numbers of which file actions make others, by the place of the actions.
static SOURCES: Mutex<Vec<(usize, c_int)>> = Mutex::new(Vec::new());

/// Held while numbers of this process are tickets: a fork waits, or its child would keep copies.
static DEPARTING: Mutex<()> = Mutex::new(());

/// How long one who forks, or starts a program too, waits for another that does: for longer than for the engine's
/// tickets.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long it does so at a time.
const PAUSE: Duration = Duration::from_micros(100);

thread_local! {
    /// This thread starts a program, which a handler may interrupt.
    static DEPARTS: Cell<bool> = const { Cell::new(false) };
}

/// A stream that popen has made.
struct Stream {
    file: usize,
    fd: c_int,
    child: pid_t,
}

static STREAMS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());

/// Commands that system waits for.
struct Commands {
    running: u32,
    /// What SIGINT and SIGQUIT did before the first began.
    before: Option<[libc::sigaction; 2]>,
}

static COMMANDS: Mutex<Commands> = Mutex::new(Commands {
    running: 0,
    before: None,
});

/// Signals that a process ignores while it waits for a command.
const IGNORED: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// The status of a command whose shell could not be started, as if it had ended with 127.
const NOT_STARTED: c_int = 127 << 8;

unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// Keeps other threads from starting programs, for the time of a fork.
#[expect(dead_code, reason = "held, not used")]
pub struct Quiet(
    Alone,
    MutexGuard<'static, Vec<(usize, c_int)>>,
    MutexGuard<'static, Vec<Stream>>,
    MutexGuard<'static, Commands>,
);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(departing(), lock(&SOURCES), lock(&STREAMS), lock(&COMMANDS))
}

/// Nobody else has tickets in place of numbers while this is held, if there is something in it.
struct Alone(Option<MutexGuard<'static, ()>>);

impl Drop for Alone {
    fn drop(&mut self) {
        if self.0.is_some() {
            DEPARTS.set(false);
        }
    }
}

/// See [`Alone`]. Nobody is waited for for ever, nor does a handler wait for its own thread.
fn departing() -> Alone {
    let begin = Instant::now();
    while !DEPARTS.get() && begin.elapsed() < PATIENCE {
        let guard = match DEPARTING.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                host::pause(PAUSE);
                continue;
            }
        };
        DEPARTS.set(true);
        return Alone(Some(guard));
    }
    Alone(None)
}

/// File actions at this place make another number of `fd`.
pub fn will_duplicate(actions: *const posix_spawn_file_actions_t, fd: c_int) {
    if table::get(fd).is_some() {
        lock(&SOURCES).push((actions as usize, fd));
    }
}

/// File actions at this place are new, or gone.
pub fn forget(actions: *const posix_spawn_file_actions_t) {
    if session::current().is_some() {
        lock(&SOURCES).retain(|(place, _)| *place != actions as usize);
    }
}

/// Whether a program that is started now has connections of the engine's.
pub fn takes_along() -> bool {
    session::current().is_some()
        && numbers::staying_open(|held| held.stream().is_some())
            .next()
            .is_some()
}

/// Starts the program in this file, if that is known, by `spawn`, which is given the environment that it is
/// to have. What `spawn` returns is an errno.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
pub unsafe fn with(
    program: Option<CString>,
    actions: *const posix_spawn_file_actions_t,
    environment: *const *const c_char,
    spawn: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let apart = unsafe { Apart::of(program.as_deref(), environment) };
    if let Some(apart) = apart.as_ref().filter(|apart| apart.is_refused()) {
        apart.tell(Fate::Refused);
        return libc::EACCES;
    }
    // SAFETY: as the caller promises.
    let started = unsafe { taking_along(actions, environment, spawn) };
    if let (0, Some(apart)) = (started, apart) {
        apart.tell(Fate::Started);
    }
    started
}

/// # Safety
/// As [`with`].
unsafe fn taking_along(
    actions: *const posix_spawn_file_actions_t,
    environment: *const *const c_char,
    spawn: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    if session::current().is_none() {
        return spawn(environment);
    }
    let named = named(actions);
    epoll::all_open();
    named.iter().copied().for_each(epoll::opens_number);
    // SAFETY: as the caller promises.
    let extended = unsafe { exec::extend(environment, &named) };
    let environment = extended.as_ref().map_or(environment, |list| list.as_ptr());
    let mut leaving: Vec<c_int> = numbers::staying_open(|held| held.stream().is_some()).collect();
    for fd in named {
        if !leaving.contains(&fd) && table::get(fd).is_some_and(|held| held.stream().is_some()) {
            leaving.push(fd);
        }
    }
    if leaving.is_empty() {
        return spawn(environment);
    }
    session::inherit();
    let _alone = departing();
    let departing = Departing::begin(leaving.into_iter(), Successor::Child);
    if departing.without_ticket().next().is_some() {
        report::remark(NOT_PASSED);
    }
    if departing.unnoted().next().is_some() {
        report::remark(NOT_NOTED);
    }
    let started = exec::outside(|| spawn(environment));
    departing.stay();
    started
}

/// The numbers of which these actions make others.
fn named(actions: *const posix_spawn_file_actions_t) -> Vec<c_int> {
    if actions.is_null() {
        return Vec::new();
    }
    let sources = lock(&SOURCES);
    let own = sources
        .iter()
        .filter(|(place, _)| *place == actions as usize);
    own.map(|(_, fd)| *fd).collect()
}

/// Starts `sh -c command`.
///
/// # Safety
/// `command` is a string; the others are null or what posix_spawn takes.
unsafe fn shell(
    command: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
) -> Result<pid_t, Errno> {
    let arguments = [
        c"sh".as_ptr().cast_mut(),
        c"-c".as_ptr().cast_mut(),
        command.cast_mut(),
        null_mut(),
    ];
    let mut child = 0;
    // SAFETY: as the caller promises; the lists end with null.
    let failed = unsafe {
        libc::posix_spawn(
            &raw mut child,
            c"/bin/sh".as_ptr(),
            actions,
            attributes,
            arguments.as_ptr(),
            environ,
        )
    };
    match failed {
        0 => Ok(child),
        errno => Err(Errno::from_raw_os_error(errno)),
    }
}

/// Waits until a child has ended: its status.
fn wait(child: pid_t) -> Result<c_int, Errno> {
    let mut status: c_int = 0;
    loop {
        // SAFETY: room for a status, and none for what the child has used.
        let waited =
            result(unsafe { sys!(libc::SYS_wait4, child, &raw mut status, 0usize, 0usize) });
        match waited {
            Ok(_) => return Ok(status),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// system. The caller is not cancelled while it waits.
///
/// # Safety
/// `command` is a string.
pub unsafe fn system(command: *const c_char) -> c_int {
    // SAFETY: signal sets, actions and attributes of this function's own, made before they are used.
    unsafe {
        let mut set: sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let mut mask: sigset_t = zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut mask);
        let before = ignore();

        let mut attributes: libc::posix_spawnattr_t = zeroed();
        libc::posix_spawnattr_init(&raw mut attributes);
        libc::sigemptyset(&raw mut set);
        for (signal, before) in IGNORED.into_iter().zip(before) {
            if before.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        libc::posix_spawnattr_setflags(&raw mut attributes, flags as _);
        libc::posix_spawnattr_setsigmask(&raw mut attributes, &raw const mask);
        libc::posix_spawnattr_setsigdefault(&raw mut attributes, &raw const set);
        let started = shell(command, null(), &raw const attributes);
        libc::posix_spawnattr_destroy(&raw mut attributes);
        let ended = started.map_or(Ok(NOT_STARTED), wait);

        heed();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut());
        ended.unwrap_or_else(|error| {
            set_errno(error.raw_os_error());
            -1
        })
    }
}

/// The process ignores SIGINT and SIGQUIT from now on: what they did before.
fn ignore() -> [libc::sigaction; 2] {
    let mut commands = lock(&COMMANDS);
    commands.running += 1;
    *commands.before.get_or_insert_with(|| {
        // SAFETY: actions of this function's own; all zeros is one, with nothing set.
        IGNORED.map(|signal| unsafe {
            let mut ignoring: libc::sigaction = zeroed();
            ignoring.sa_sigaction = libc::SIG_IGN;
            let mut before: libc::sigaction = zeroed();
            libc::sigaction(signal, &raw const ignoring, &raw mut before);
            before
        })
    })
}

/// The inverse of [`ignore`].
fn heed() {
    let mut commands = lock(&COMMANDS);
    commands.running -= 1;
    if commands.running > 0 {
        return;
    }
    if let Some(before) = commands.before.take() {
        for (signal, before) in IGNORED.into_iter().zip(before) {
            // SAFETY: what was there.
            unsafe { libc::sigaction(signal, &raw const before, null_mut()) };
        }
    }
}

/// popen.
///
/// # Safety
/// Two strings.
pub unsafe fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: as the caller promises.
    match unsafe { try_popen(command, CStr::from_ptr(mode).to_bytes()) } {
        Ok(file) => file,
        Err(error) => {
            set_errno(error.raw_os_error());
            null_mut()
        }
    }
}

/// # Safety
/// `command` is a string.
unsafe fn try_popen(command: *const c_char, mode: &[u8]) -> Result<*mut FILE, Errno> {
    let has = |wanted: u8| mode.contains(&wanted);
    let reads = has(b'r');
    if reads == has(b'w') || mode.iter().any(|byte| !b"rwe".contains(byte)) {
        return Err(Errno::INVAL);
    }
    let (here, there) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map(|(read, write)| if reads { (read, write) } else { (write, read) })?;
    let standard = c_int::from(reads);
    let others: Vec<c_int> = lock(&STREAMS).iter().map(|stream| stream.fd).collect();
    // SAFETY: actions of this function's own, made before they are used, and a string.
    let started = unsafe {
        let mut actions: posix_spawn_file_actions_t = zeroed();
        libc::posix_spawn_file_actions_init(&raw mut actions);
        // As POSIX has it: the child has none of the streams of earlier calls.
        for fd in others {
            libc::posix_spawn_file_actions_addclose(&raw mut actions, fd);
        }
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, there.as_raw_fd(), standard);
        let started = shell(command, &raw const actions, null());
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        started
    };
    let child = started?;
    if !has(b'e') {
        rustix::io::fcntl_setfd(&here, rustix::io::FdFlags::empty())?;
    }
    let fd = here.into_raw_fd();
    let mode = if reads { c"r" } else { c"w" };
    // SAFETY: a new number, which is the file's from here on.
    let file = unsafe { libc::fdopen(fd, mode.as_ptr()) };
    let mut streams = lock(&STREAMS);
    streams.retain(|stream| stream.file != file as usize);
    streams.push(Stream {
        file: file as usize,
        fd,
        child,
    });
    Ok(file)
}

/// pclose; `None`: the stream is none of those that were made here.
///
/// # Safety
/// `file` is one that popen has returned.
pub unsafe fn pclose(file: *mut FILE) -> Option<c_int> {
    let mut streams = lock(&STREAMS);
    let at = streams
        .iter()
        .position(|stream| stream.file == file as usize)?;
    let Stream { child, .. } = streams.swap_remove(at);
    drop(streams);
    // SAFETY: as the caller promises.
    unsafe { libc::fclose(file) };
    Some(wait(child).unwrap_or_else(|error| {
        set_errno(error.raw_os_error());
        -1
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }

    /// libc's PTHREAD_CANCEL_DISABLE.
    const NEVER: c_int = 1;

    /// fork and posix_spawn are no places where a thread may be cancelled.
    #[test]
    fn who_waits_for_another_that_starts_a_program_is_not_cancelled() {
        let alone = departing();
        let waits = std::thread::spawn(|| {
            // SAFETY: of this thread, which goes on to its end.
            unsafe { libc::pthread_cancel(libc::pthread_self()) };
            let alone = departing();
            // SAFETY: as above.
            unsafe { pthread_setcancelstate(NEVER, null_mut()) };
            alone.0.is_some()
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(alone);
        assert!(waits.join().is_ok_and(|has_it| has_it));
    }
}
