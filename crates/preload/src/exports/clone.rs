//! clone, in its various forms.
//!
//! A child that shares its parent's memory, and not its descriptors, would change our table for both: what it closes
//! would be closed in the parent, too. So it gets memory of its own, as that of a vfork does.

use core::ffi::{c_int, c_void};

use libc::pid_t;

use super::exports;
use crate::calls::fork;
use crate::kernel::next::next;
use crate::kernel::raw::{errno, set_errno};
use crate::numbers::table;

/// Whoever is made with one of these has the same numbers: it is a thread to us.
pub(super) const SHARES_NUMBERS: c_int = libc::CLONE_THREAD | libc::CLONE_FILES;

/// What needs the same memory.
const WITH_MEMORY: c_int = libc::CLONE_VM | libc::CLONE_SIGHAND;

/// These flags, for a child with memory of its own. The kernel is not to have the parent [wait](crate::calls::vfork),
/// which meanwhile would hold what others of its threads need, and the child itself.
pub(super) fn with_own_memory(flags: u64) -> u64 {
    let flags = flags & !(libc::CLONE_VFORK as u64);
    match flags & libc::CLONE_VM as u64 {
        0 => flags,
        _ => flags & !(WITH_MEMORY as u64),
    }
}

/// Whether the parent waits until the child has executed a program, or ended.
pub(super) fn waits(flags: u64) -> bool {
    flags & libc::CLONE_VFORK as u64 != 0
}

/// The kernel takes no more arguments of clone3.
const MOST: usize = 4096;

/// A copy of the arguments of clone3, for a child with memory of its own, and the flags that they had.
///
/// # Safety
/// So many bytes are readable there, of which the first are the flags.
pub(super) unsafe fn copy(arguments: *const u64, size: usize) -> (Vec<u64>, u64) {
    let size = size.min(MOST);
    let mut copy = vec![0; size.div_ceil(size_of::<u64>()).max(1)];
    // SAFETY: as the caller promises; there is room for as many.
    unsafe {
        core::ptr::copy_nonoverlapping(arguments.cast::<u8>(), copy.as_mut_ptr().cast(), size);
    }
    let flags = copy[0];
    copy[0] = with_own_memory(flags);
    (copy, flags)
}

/// What a child runs.
type Main = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What that is, for a child that has just been made.
struct Begins {
    main: Main,
    argument: *mut c_void,
}

/// # Safety
/// Of what clone was given, in the memory of the child.
unsafe extern "C" fn begin(begins: *mut c_void) -> c_int {
    fork::child_begins();
    // SAFETY: as the caller promises.
    unsafe {
        let begins = &*begins.cast::<Begins>();
        (begins.main)(begins.argument)
    }
}

exports! {
    fn clone(
        main: Main, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent_id: *mut pid_t, thread_area: *mut c_void, child_id: *mut pid_t,
    ) -> c_int {
        let next = |main: Main, flags: c_int, argument: *mut c_void| {
            next!(
                clone(
                    main => Main, stack => *mut c_void, flags => c_int, argument => *mut c_void,
                    parent_id => *mut pid_t, thread_area => *mut c_void, child_id => *mut pid_t
                ) -> c_int,
                -1
            )
        };
        let is_thread = flags & libc::CLONE_VM != 0 && flags & SHARES_NUMBERS != 0;
        // With another thread area there is nothing here that a child could begin with.
        let is_strange = flags & libc::CLONE_SETTLS != 0 || stack.is_null();
        if is_thread || is_strange || table::used(0, u32::MAX).next().is_none() {
            return next(main, flags, argument);
        }
        // The child has a copy.
        let mut begins = Begins { main, argument };
        let flags = u64::from(flags as u32);
        let mut failed = 0;
        let made = fork::through_and_wait(waits(flags), || {
            let own = with_own_memory(flags) as c_int;
            let made = next(begin, own, (&raw mut begins).cast());
            failed = errno();
            made as isize
        });
        if made < 0 {
            set_errno(failed);
        }
        made as c_int
    }

    fn __clone(
        main: Main, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent_id: *mut pid_t, thread_area: *mut c_void, child_id: *mut pid_t,
    ) -> c_int {
        // SAFETY: as the program called it.
        unsafe { clone(main, stack, flags, argument, parent_id, thread_area, child_id) }
    }
}
