//! The variables `stdin`, `stdout` and `stderr`.
//!
//! While one of the numbers 0, 1 and 2 is a connection, as in a server that is written for inetd or in a
//! shell's redirection, its variable holds a file of ours ([`stdio`](crate::calls::stdio)). What was printed and not
//! flushed moves along, because it belongs to the number.
//!
//! What a program has kept in a variable of its own before, as C++ does for `std::cout`, stays libc's
//! file, and its calls fail.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{FILE, size_t};

use crate::numbers::table;

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

unsafe extern "C" {
    fn fileno(file: *mut FILE) -> c_int;
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

/// Whether there is a file of ours for a standard number.
pub fn has_file(number: usize) -> bool {
    !OURS[number].load(Ordering::Relaxed).is_null()
}

/// There may be connections from now on: this is the file for that number.
pub fn keep(number: usize, file: *mut FILE) {
    OURS[number].store(file, Ordering::Release);
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
    let is_connection = table::get(fd).is_some_and(|held| held.stream().is_some());
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
/// standard number, of which there is none until [`keep`].
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

/// Makes `fd` what [`number`] tells of `file`.
///
/// # Safety
/// `file` is an open file, which nobody else has yet.
pub unsafe fn set_number(file: *mut FILE, fd: c_int) {
    // SAFETY: as the caller promises; its beginning is as described.
    unsafe { (*file.cast::<Layout>()).number = fd };
}
