//! System calls without libc.
//!
//! Every name that libc offers for these calls is one that this library exports, so a call by
//! name would come back to us. Numbers cannot be interposed.

use core::ffi::{c_int, c_long};
use rustix::io::Errno;

/// A value as the kernel takes it in a register: integers sign-extended, pointers as they are.
pub trait Argument {
    /// The register.
    fn register(self) -> usize;
}

macro_rules! integer_arguments {
    ($($integer:ty)*) => {$(
        impl Argument for $integer {
            #[inline(always)]
            fn register(self) -> usize {
                self as isize as usize
            }
        }
    )*};
}
integer_arguments!(c_int u32 i64 u64 usize isize);

impl<T> Argument for *const T {
    #[inline(always)]
    fn register(self) -> usize {
        self as usize
    }
}

impl<T> Argument for *mut T {
    #[inline(always)]
    fn register(self) -> usize {
        self as usize
    }
}

/// Makes a system call and returns what the kernel put in the result register.
///
/// # Safety
/// As the call itself: pointers must be what the kernel expects of that number, and the call
/// must not take away memory, descriptors or stacks that Rust code still relies on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn call(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller vouches for the call; the kernel clobbers rcx, r11 and nothing else.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Makes a system call and returns what the kernel put in the result register.
///
/// # Safety
/// As the call itself: pointers must be what the kernel expects of that number, and the call
/// must not take away memory, descriptors or stacks that Rust code still relies on.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn call(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller vouches for the call; the kernel preserves all but x0.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number as isize,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}

/// The registers of a call with fewer arguments than there can be.
#[inline(always)]
pub fn padded<const GIVEN: usize>(given: [usize; GIVEN]) -> [usize; 6] {
    let mut registers = [0; 6];
    registers[..GIVEN].copy_from_slice(&given);
    registers
}

/// `sys!(number, arguments…)`: the system call, its result as the kernel gave it.
macro_rules! sys {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::kernel::raw::call(
            $number,
            $crate::kernel::raw::padded([$($crate::kernel::raw::Argument::register($argument)),*]),
        )
    };
}
pub(crate) use sys;

/// What the kernel returned, as a result.
#[inline(always)]
pub fn result(value: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&value) {
        Err(Errno::from_raw_os_error(-value as i32))
    } else {
        Ok(value as usize)
    }
}

/// What the kernel returned, as libc's callers expect it: −1 and `errno`.
#[inline(always)]
pub fn libc_result(value: isize) -> isize {
    if (-4095..0).contains(&value) {
        set_errno(-value as c_int);
        -1
    } else {
        value
    }
}

/// A result of ours, as libc's callers expect it: −1 and `errno`.
#[inline(always)]
pub fn libc_return(result: Result<usize, Errno>) -> isize {
    match result {
        Ok(value) => value as isize,
        Err(error) => {
            set_errno(error.raw_os_error());
            -1
        }
    }
}

/// The calling thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: libc's errno location is valid for the calling thread at any time.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
#[cold]
pub fn set_errno(value: c_int) {
    // SAFETY: libc's errno location is valid for the calling thread at any time.
    unsafe { *libc::__errno_location() = value };
}
