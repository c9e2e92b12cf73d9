//! libc's buffered files, where they meet descriptors of ours.

use core::ffi::{c_char, c_int, c_void};
use libc::{DIR, FILE};

use super::{exports, unwinding};
use crate::calls::{cancel, epoll, spawn, stdio};
use crate::kernel::next::{next, next_unwinding};
use crate::kernel::raw::libc_return;
use crate::numbers::{closing, handed_out, standard};
use crate::thread::due;

/// The arguments that C does not name lie in registers and on the stack, and a `va_list` says where.
/// This makes one, as a C compiler would, and calls the function that takes it: the registers are
/// saved at 0x20, eight bytes each of the general ones and then sixteen of the others; `$named` are
/// the bytes of those that are named; `$last` puts the list's address in its place.
macro_rules! with_va_list {
    ($named:literal, $last:literal, $function:ident) => {
        core::arch::naked_asm!(
            "sub rsp, 0xd8",
            "mov [rsp + 0x30], rdx",
            "mov [rsp + 0x38], rcx",
            "mov [rsp + 0x40], r8",
            "mov [rsp + 0x48], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 0x50], xmm0",
            "movaps [rsp + 0x60], xmm1",
            "movaps [rsp + 0x70], xmm2",
            "movaps [rsp + 0x80], xmm3",
            "movaps [rsp + 0x90], xmm4",
            "movaps [rsp + 0xa0], xmm5",
            "movaps [rsp + 0xb0], xmm6",
            "movaps [rsp + 0xc0], xmm7",
            "2:",
            concat!("mov dword ptr [rsp], ", $named),
            "mov dword ptr [rsp + 4], 48",
            "lea rax, [rsp + 0xe0]",
            "mov [rsp + 8], rax",
            "lea rax, [rsp + 0x20]",
            "mov [rsp + 16], rax",
            $last,
            "call {function}",
            "add rsp, 0xd8",
            "ret",
            function = sym $function,
        )
    };
}

/// Runs `$close`, which closes `$file` within libc. Where that does not pass here, as it does for files on
/// sockets, the number's entry goes afterwards. A thread is cancelled in it only where nothing is held.
macro_rules! around_close {
    ($file:expr, $close:expr) => {{
        // SAFETY: the program gives an open file.
        let fd = unsafe { standard::number($file) };
        let was_standard = standard::forget($file);
        let by_itself = !stdio::forget($file);
        let result = match closing::begins(fd, by_itself) {
            None => $close,
            Some(closing) => {
                let withheld = due::Withheld::new();
                let result = $close;
                closing.ends();
                drop(withheld);
                result
            }
        };
        if was_standard {
            stdio::prepare();
        }
        // The functions of a file on a connection have ended because of it, if they have waited.
        cancel::call_ends();
        result
    }};
}

exports! {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if stdio::concerns(fd) {
            // SAFETY: the program gives a string.
            return unsafe { stdio::open(fd, mode) };
        }
        next!(fdopen(fd => c_int, mode => *const c_char) -> *mut FILE, core::ptr::null_mut())
    }

    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
        if spawn::takes_along() {
            // SAFETY: the program gives two strings.
            return unsafe { spawn::popen(command, mode) };
        }
        // libc starts it by itself, out of sight.
        epoll::all_open();
        file(next!(popen(command => *const c_char, mode => *const c_char) -> *mut FILE, core::ptr::null_mut()))
    }

    fn opendir(path: *const c_char) -> *mut DIR {
        let directory = next!(opendir(path => *const c_char) -> *mut DIR, core::ptr::null_mut());
        if !directory.is_null() {
            // SAFETY: it has just been opened.
            handed_out(unsafe { libc::dirfd(directory) });
        }
        directory
    }

    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
        if !stdio::concerns(fd) {
            return next!(
                vdprintf(fd => c_int, format => *const c_char, arguments => *mut c_void) -> c_int, -1
            );
        }
        let mut text = core::ptr::null_mut();
        // SAFETY: a format and its arguments, as the program gives them.
        let length = unsafe { vasprintf(&raw mut text, format, arguments) };
        // SAFETY: the text, if there is one, has that length, and is given back.
        unsafe { print_and_free(fd, text, length) }
    }

    fn __vdprintf_chk(
        fd: c_int, checks: c_int, format: *const c_char, arguments: *mut c_void,
    ) -> c_int {
        if !stdio::concerns(fd) {
            return next!(
                __vdprintf_chk(
                    fd => c_int, checks => c_int, format => *const c_char, arguments => *mut c_void
                ) -> c_int,
                -1
            );
        }
        let mut text = core::ptr::null_mut();
        // SAFETY: a format and its arguments, as the program gives them.
        let length = unsafe { __vasprintf_chk(&raw mut text, checks, format, arguments) };
        // SAFETY: the text, if there is one, has that length, and is given back.
        unsafe { print_and_free(fd, text, length) }
    }

    #[unsafe(naked)]
    fn dprintf(fd: c_int, format: *const c_char) -> c_int {
        with_va_list!("16", "mov rdx, rsp", vdprintf)
    }

    #[unsafe(naked)]
    fn __dprintf_chk(fd: c_int, checks: c_int, format: *const c_char) -> c_int {
        with_va_list!("24", "mov rcx, rsp", __vdprintf_chk)
    }
}

// libc may wait in these, and cancel a thread there.
unwinding! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
        file(next_unwinding!(fopen(path => *const c_char, mode => *const c_char) -> *mut FILE, core::ptr::null_mut()))
    }

    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
        file(next_unwinding!(fopen64(path => *const c_char, mode => *const c_char) -> *mut FILE, core::ptr::null_mut()))
    }

    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        file(around_close!(stream, next_unwinding!(
            freopen(path => *const c_char, mode => *const c_char, stream => *mut FILE) -> *mut FILE,
            core::ptr::null_mut()
        )))
    }

    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        file(around_close!(stream, next_unwinding!(
            freopen64(path => *const c_char, mode => *const c_char, stream => *mut FILE) -> *mut FILE,
            core::ptr::null_mut()
        )))
    }

    fn fclose(stream: *mut FILE) -> c_int {
        around_close!(stream, next_unwinding!(fclose(stream => *mut FILE) -> c_int, libc::EOF))
    }

    fn tmpfile() -> *mut FILE {
        file(next_unwinding!(tmpfile() -> *mut FILE, core::ptr::null_mut()))
    }

    fn tmpfile64() -> *mut FILE {
        file(next_unwinding!(tmpfile64() -> *mut FILE, core::ptr::null_mut()))
    }
}

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vasprintf_chk(
        text: *mut *mut c_char,
        checks: c_int,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

/// # Safety
/// `text` has `length` bytes and is libc's to free, or `length` is negative.
unsafe fn print_and_free(fd: c_int, text: *mut c_char, length: c_int) -> c_int {
    let Ok(bytes) = usize::try_from(length) else {
        return -1;
    };
    // SAFETY: as the caller promises.
    unsafe {
        let printed = stdio::print(fd, core::slice::from_raw_parts(text.cast(), bytes));
        libc::free(text.cast());
        libc_return(printed) as c_int
    }
}

/// libc has opened `file`: its number is nothing of ours.
fn file(file: *mut FILE) -> *mut FILE {
    if !file.is_null() {
        // SAFETY: it has just been opened.
        handed_out(unsafe { standard::number(file) });
    }
    file
}
