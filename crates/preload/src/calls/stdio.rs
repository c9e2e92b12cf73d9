//! libc's buffered files on connections of the engine's.
//!
//! stdio reads and writes by calls within libc that no name of ours takes the place of, and would
//! meet the placeholder behind the number. So a file on a connection is one whose reading and writing
//! are functions of ours (fopencookie). It still knows its number, which `fileno` tells.
//!
//! - `fdopen` on a TCP socket makes such a file.
//! - While one of the numbers 0, 1 and 2 is a connection, the variable `stdin`, `stdout` or `stderr`
//!   holds such a file ([`standard`](crate::numbers::standard)), made here before.

use core::ffi::{CStr, c_char, c_int, c_void};

use libc::{FILE, off64_t, size_t, ssize_t};
use rustix::io::Errno;

use crate::calls::stream;
use crate::kernel::lock::Small;
use crate::kernel::raw::{libc_return, result, set_errno, sys};
use crate::numbers;
use crate::numbers::standard::set_number;
use crate::numbers::{standard, table};
use crate::thread::inside;

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

/// The files that are such.
static FILES: Small<Vec<usize>> = Small::new(Vec::new());

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn fwide(file: *mut FILE, mode: c_int) -> c_int;
}

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
            set_number(file, fd);
            // A handler would wait for the lock.
            inside::enter();
            FILES.lock().push(file as usize);
            inside::leave();
        }
        file
    }
}

/// libc is about to close `file`: whether that is one of ours, which it is not afterwards.
pub fn forget(file: *mut FILE) -> bool {
    inside::enter();
    let mut files = FILES.lock();
    let known = files.iter().position(|it| *it == file as usize);
    if let Some(at) = known {
        files.swap_remove(at);
    }
    drop(files);
    inside::leave();
    known.is_some()
}

/// There may be connections from now on: makes what the standard numbers would need. At a time when
/// memory can be allocated, which is not so for whoever calls dup2.
pub fn prepare() {
    for (number, mode) in [(0, c"r"), (1, c"w"), (2, c"w")] {
        if standard::has_file(number) {
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
        standard::keep(number, file);
    }
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
