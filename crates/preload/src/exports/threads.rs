//! Cancelling threads. In these functions of libc's a thread may end, so nothing is left to tidy up in
//! them.

use core::ffi::c_int;

use libc::pthread_t;

use crate::calls::cancel;
use crate::kernel::next::next_unwinding;

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    cancel::announce(thread);
    let cancelled = next_unwinding!(pthread_cancel(thread => pthread_t) -> c_int, libc::ENOSYS);
    cancel::wake();
    cancelled
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
    cancel::type_changes(kind);
    next_unwinding!(
        pthread_setcanceltype(kind => c_int, before => *mut c_int) -> c_int,
        libc::ENOSYS
    )
}
