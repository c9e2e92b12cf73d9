//! libc's buffered files on connections of the engine's.
//!
//! stdio reads and writes by calls within libc that no name of ours takes the place of, and would
//! meet the placeholder behind the number. So a file on a connection is one whose reading and writing
//! are functions of ours (fopencookie). It still knows its number, which `fileno` tells.
//!
//! - `fdopen` on a TCP socket makes such a file.
//! - While one of the numbers 0, 1 and 2 is a connection, as in a server that is written for inetd or
//!   in a shell's redirection, the variable `stdin`, `stdout` or `stderr` holds such a file, made
//!   before. What was printed and not flushed moves along, because it belongs to the number.
//!
//! What a program has kept in a variable of its own before, as C++ does for `std::cout`, stays libc's
//! file, and its calls fail.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{FILE, off64_t, size_t, ssize_t};
use rustix::io::Errno;

use crate::raw::{libc_return, result, set_errno, sys};
use crate::{numbers, stream, table};

/// The beginning of libc's `struct _IO_FILE`, as <bits/types/struct_FILE.h> has it.
#[repr(C)]
struct Layout {
    flags: c_int,
    read: [*mut c_char; 3],
    write_base: *mut c_char,
    write_pointer: *mut c_char,
    write_end: *mut c_char,
    buffer: [*mut c_char; 2],
    backup: [*mut c_char; 3],
    markers: *mut c_void,
    chain: *mut c_void,
    number: c_int,
}

/// In `flags`: nothing is kept back.
const UNBUFFERED: c_int = 0x2;
/// In `flags`: lines are kept back until they end.
const LINES: c_int = 0x200;

type Read = unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t;
type Write = unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t;
type Seek = unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;

/// libc's `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: Read,
    write: Write,
    seek: Seek,
    close: Close,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn fileno(file: *mut FILE) -> c_int;
    fn fwide(file: *mut FILE, mode: c_int) -> c_int;
    fn __fpurge(file: *mut FILE);
    fn ftrylockfile(file: *mut FILE) -> c_int;
    fn funlockfile(file: *mut FILE);
    fn fwrite_unlocked(from: *const c_void, size: size_t, count: size_t, to: *mut FILE) -> size_t;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// Ours for the standard numbers, once there may be connections.
static OURS: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 3];
/// What the variables held before ours.
static BEFORE: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 3];

/// fdopen on a TCP socket of the program.
///
/// # Safety
/// `mode` is a string.
pub unsafe fn open(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: as the caller promises.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    // What follows a comma names a character set.
    let mode = mode.split(|byte| *byte == b',').next().unwrap_or_default();
    let both = mode.contains(&b'+');
    let mode = match (mode.first(), both) {
        (Some(b'r'), false) => c"r",
        (Some(b'w'), false) => c"w",
        (Some(b'a'), false) => c"a",
        (Some(b'r'), true) => c"r+",
        (Some(b'w'), true) => c"w+",
        (Some(b'a'), true) => c"a+",
        _ => {
            set_errno(libc::EINVAL);
            return core::ptr::null_mut();
        }
    };
    make(fd, mode)
}

fn make(fd: c_int, mode: &CStr) -> *mut FILE {
    let functions = Functions {
        read: read_through,
        write: write_through,
        seek: no_position,
        close: close_number,
    };
    // SAFETY: the functions are those that libc asks for; the cookie is a number, never followed.
    unsafe {
        let file = fopencookie(fd as usize as *mut c_void, mode.as_ptr(), functions);
        if !file.is_null() {
            // A file of functions has no number of its own. With this, `fileno` tells it.
            (*file.cast::<Layout>()).number = fd;
        }
        file
    }
}

/// There may be connections from now on: makes what the standard numbers would need. At a time when
/// memory can be allocated, which is not so for whoever calls dup2.
pub fn prepare() {
    for (number, mode) in [(0, c"r"), (1, c"w"), (2, c"w")] {
        if !OURS[number].load(Ordering::Relaxed).is_null() {
            continue;
        }
        let file = make(number as c_int, mode);
        if file.is_null() {
            continue;
        }
        if number == 2 {
            // SAFETY: a file of ours. With an orientation perror writes to it, and not to a
            // duplicate of its number.
            unsafe {
                fwide(file, -1);
                libc::setvbuf(file, core::ptr::null_mut(), libc::_IONBF, 0);
            }
        }
        OURS[number].store(file, Ordering::Release);
    }
}

/// A number has come to mean something else: if it is one of the standard ones, its variable holds
/// the right file afterwards.
#[inline(always)]
pub fn number_changed(fd: c_int) {
    if (0..3).contains(&fd) {
        set_standard(fd as usize);
    }
}

#[cold]
fn set_standard(number: usize) {
    let ours = OURS[number].load(Ordering::Acquire);
    if ours.is_null() {
        // There are no connections yet, or the program has closed this file and goes on without.
        return;
    }
    let fd = number as c_int;
    let variable = variable(number);
    let now = variable.load(Ordering::Relaxed);
    let is_connection = stream::of(fd).is_some();
    // SAFETY: whatever the variable holds is a file.
    if is_connection && now != ours && !now.is_null() && unsafe { fileno(now) } == fd {
        carry(now, ours);
        BEFORE[number].store(now, Ordering::Relaxed);
        variable.store(ours, Ordering::Release);
    } else if !is_connection && now == ours {
        let before = BEFORE[number].load(Ordering::Relaxed);
        carry(ours, before);
        variable.store(before, Ordering::Release);
    }
}

/// Moves what was printed and not flushed, and the manner of buffering.
fn carry(from: *mut FILE, to: *mut FILE) {
    // SAFETY: both are files of libc's, whose beginning is as described; the lock keeps others away,
    // and is not waited for: this may be a signal handler, and its thread the one that has it.
    unsafe {
        if ftrylockfile(from) != 0 {
            return;
        }
        let layout = from.cast::<Layout>();
        let manner = |file: *mut FILE| (*file.cast::<Layout>()).flags & (UNBUFFERED | LINES);
        if manner(from) != manner(to) {
            let mode = match manner(from) {
                0 => libc::_IOFBF,
                LINES => libc::_IOLBF,
                _ => libc::_IONBF,
            };
            libc::setvbuf(to, core::ptr::null_mut(), mode, 0);
        }
        let pending =
            ((*layout).write_pointer as usize).wrapping_sub((*layout).write_base as usize);
        if pending > 0 && pending < isize::MAX as usize && ftrylockfile(to) == 0 {
            fwrite_unlocked((*layout).write_base.cast(), 1, pending, to);
            __fpurge(from);
            funlockfile(to);
        }
        funlockfile(from);
    }
}

/// libc closes `file`, or opens it anew: it is none of ours afterwards. True if it was one for a
/// standard number, of which there is none until [`prepare`].
pub fn forget(file: *mut FILE) -> bool {
    (0..3).any(|number| {
        let none = core::ptr::null_mut();
        let known = OURS[number]
            .compare_exchange(file, none, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if known {
            let before = BEFORE[number].load(Ordering::Relaxed);
            let _ = variable(number).compare_exchange(
                file,
                before,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        known
    })
}

/// libc's variable for a standard number.
fn variable(number: usize) -> &'static AtomicPtr<FILE> {
    // SAFETY: libc's variables live for ever, and are aligned; whoever else writes them is the
    // program, which must not do so while it calls here.
    unsafe {
        AtomicPtr::from_ptr(match number {
            0 => &raw mut stdin,
            1 => &raw mut stdout,
            _ => &raw mut stderr,
        })
    }
}

/// The number of `file`; negative if it has none.
///
/// # Safety
/// `file` is an open file.
pub unsafe fn number(file: *mut FILE) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fileno(file) }
}

unsafe extern "C" fn read_through(
    cookie: *mut c_void,
    buffer: *mut c_char,
    room: size_t,
) -> ssize_t {
    let fd = cookie as usize as c_int;
    // SAFETY: libc gives `room` writable bytes.
    libc_return(unsafe {
        match stream::of(fd) {
            Some(stream) => stream.receive_into(buffer.cast(), room, 0),
            None => result(sys!(libc::SYS_read, fd, buffer, room)),
        }
    })
}

/// As libc's own: all of it, or as much as went before an error.
unsafe extern "C" fn write_through(
    cookie: *mut c_void,
    buffer: *const c_char,
    length: size_t,
) -> ssize_t {
    // SAFETY: libc gives `length` readable bytes.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast(), length) };
    let (written, outcome) = write_all(cookie as usize as c_int, bytes);
    if let Err(error) = outcome {
        set_errno(error.raw_os_error());
    }
    written as ssize_t
}

/// Writes `bytes`: how many went, and what stopped the others.
fn write_all(fd: c_int, bytes: &[u8]) -> (usize, Result<(), Errno>) {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        // SAFETY: the slice is whole.
        let more = unsafe {
            match stream::of(fd) {
                Some(stream) => stream.send_from(rest.as_ptr().cast(), rest.len(), 0),
                None => result(sys!(libc::SYS_write, fd, rest.as_ptr(), rest.len())),
            }
        };
        match more {
            Ok(more) => written += more,
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

unsafe extern "C" fn no_position(_: *mut c_void, _: *mut off64_t, _: c_int) -> c_int {
    set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C" fn close_number(cookie: *mut c_void) -> c_int {
    libc_return(numbers::close(cookie as usize as c_int)) as c_int
}

/// vdprintf to a socket of the program, of a text that is made already.
pub fn print(fd: c_int, text: &[u8]) -> Result<usize, Errno> {
    match write_all(fd, text) {
        (written, Ok(())) => Ok(written),
        (_, Err(error)) => Err(error),
    }
}

/// Whether a file on `fd` must be one of ours, now or when it will be connected.
pub fn concerns(fd: c_int) -> bool {
    table::get(fd).is_some_and(|held| held.tcp().is_some())
}
