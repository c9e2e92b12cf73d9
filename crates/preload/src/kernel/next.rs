//! Functions of libc's behind names that are this library's.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function that the next library has under a name of ours, found at its first use.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<libc::c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Its address; null if no library has it.
    pub fn address(&self) -> *mut libc::c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: looks a name up.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// `next!(name(arguments: types…) -> result, missing)`: calls libc's function behind a name of ours.
/// Where libc has none, the result is `missing` and `errno` ENOSYS.
macro_rules! next {
    ($($call:tt)*) => { $crate::kernel::next::next_by!("C", $($call)*) };
}
/// As `next!`, for functions of libc's in which a thread may be cancelled: its stack is unwound from
/// there, through frames that must have nothing to tidy up.
macro_rules! next_unwinding {
    ($($call:tt)*) => { $crate::kernel::next::next_by!("C-unwind", $($call)*) };
}
/// The body of both, by the ABI of the call.
macro_rules! next_by {
    (
        $abi:literal,
        $name:ident($($argument:expr => $kind:ty),* $(,)?) -> $result:ty, $missing:expr
    ) => {{
        const NAME: &str = concat!(stringify!($name), "\0");
        static NEXT: $crate::kernel::next::Next = $crate::kernel::next::Next::new(
            match core::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has one end"),
            },
        );
        let address = NEXT.address();
        if address.is_null() {
            $crate::kernel::raw::set_errno(libc::ENOSYS);
            $missing
        } else {
            // SAFETY: libc's function of that name takes these types and returns that one; the
            // program vouches for the values, as it would to libc.
            unsafe {
                core::mem::transmute::<
                    *mut libc::c_void,
                    unsafe extern $abi fn($($kind),*) -> $result,
                >(address)($($argument),*)
            }
        }
    }};
}

unsafe extern "C" {
    static __libc_single_threaded: core::ffi::c_char;
}

/// Whether the process may have several threads: then one of them may be cancelled.
pub fn has_threads() -> bool {
    // SAFETY: a variable of libc's, which only it writes.
    unsafe { (&raw const __libc_single_threaded).read_volatile() == 0 }
}

pub(crate) use {next, next_by, next_unwinding};
