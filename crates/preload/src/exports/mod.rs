//! The names that take the place of libc's.
//!
//! Each is thin: is the descriptor ours? If not, the system call, made at once. If so, the module
//! that knows. All follow libc's contract: −1 and `errno`.
//!
//! Functions that are variadic in C are written with fixed arguments here. The calling conventions
//! of x86-64 and AArch64 Linux pass the integers and pointers of a variadic call in the same
//! registers as those of an ordinary one, and what the caller did not pass is never looked at,
//! as in libc.

mod clone;
mod confine;
mod data;
mod descriptor;
mod events;
mod io_uring;
mod makers;
mod message;
mod option;
mod process;
mod signals;
mod socket;
mod spawn;
mod stdio;
mod syscall;
mod threads;

/// The system call, with the arguments that the program gave.
macro_rules! kernel {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        $crate::kernel::raw::libc_result(
            // SAFETY: the program vouches for these arguments, as it would to libc.
            unsafe { $crate::kernel::raw::sys!(libc::$number $(, $argument)*) }
        )
    };
}

/// Defines functions under the names that programs import.
macro_rules! exports {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty $body:block)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result $body
    )*};
}

/// As `exports!`, for calls that may wait: points at which a thread may be cancelled, before it has begun
/// or instead of waiting on. Each consists of an inner part, which tidies up, and an outer one, which has
/// nothing to tidy up when the thread ends there.
macro_rules! points {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty $body:block)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result {
            #[inline(always)]
            unsafe fn call($($argument: $kind),*) -> $result $body
            $crate::calls::cancel::call_begins();
            // SAFETY: as the program called it.
            let result = unsafe { call($($argument),*) };
            $crate::calls::cancel::call_ends();
            result
        }
    )*};
}

/// As `exports!`, for functions of libc's that may cancel a thread somewhere within, or not: the frames here have
/// nothing to tidy up then.
macro_rules! unwinding {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty $body:block)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result $body
    )*};
}

/// A call on a descriptor that is the kernel's alone, by libc's function, if it has one and a thread may be
/// cancelled in it, or else by the system call at once.
macro_rules! blocking {
    ($name:ident($($argument:expr => $kind:ty),* $(,)?) -> $result:ty, $kernel:expr) => {
        if $crate::kernel::next::has_threads() {
            $crate::kernel::next::next_unwinding!($name($($argument => $kind),*) -> $result, $kernel as $result)
        } else {
            $kernel as $result
        }
    };
}

use {blocking, exports, kernel, points, unwinding};
