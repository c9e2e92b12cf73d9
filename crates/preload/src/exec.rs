//! execve, by a program that hands its listening sockets to its successor.
//!
//! nginx does so when it changes its binary, and gives the successor an environment of its own
//! making, from which what this library needs is missing: the successor would serve from the kernel
//! without a word. So what is missing is put back, when a listening socket goes along. Everything
//! else that is executed gets the environment that the program chose.

use core::ffi::{CStr, c_char};
use std::ffi::CString;

use rustix::io::Errno;

use crate::raw::{result, sys};
use crate::{start, table};

/// # Safety
/// As execve: a path, and two lists of strings that end with null.
pub unsafe fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> Errno {
    // SAFETY: as the caller promises.
    let extended = unsafe { extend(environment) };
    let environment = extended.as_ref().map_or(environment, |list| list.as_ptr());
    // SAFETY: as the caller promises; the list that was extended lives on.
    match result(unsafe { sys!(libc::SYS_execve, path, arguments, environment) }) {
        Err(error) => error,
        // It does not return when it succeeds.
        Ok(_) => Errno::NOEXEC,
    }
}

/// The environment with what is missing, if it is to be added.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
unsafe fn extend(environment: *const *const c_char) -> Option<Vec<*const c_char>> {
    let needed = start::settings().map(|settings| &settings.environment)?;
    if !hands_over_listeners() || environment.is_null() {
        return None;
    }
    let mut list = Vec::new();
    // SAFETY: as the caller promises.
    unsafe {
        let mut next = environment;
        while !(*next).is_null() {
            list.push(*next);
            next = next.add(1);
        }
    }
    let given = |variable: &CString| {
        let name = variable
            .to_bytes()
            .split(|byte| *byte == b'=')
            .next()
            .unwrap_or_default();
        list.iter().any(|one| {
            // SAFETY: as the caller promises.
            let one = unsafe { CStr::from_ptr(*one) }.to_bytes();
            one.strip_prefix(name)
                .is_some_and(|rest| rest.first() == Some(&b'='))
        })
    };
    let missing: Vec<_> = needed
        .iter()
        .filter(|variable| !given(variable))
        .map(|variable| variable.as_ptr())
        .collect();
    list.extend(missing);
    list.push(core::ptr::null());
    Some(list)
}

/// Whether a listening socket of the engine's stays open in the program that is executed.
fn hands_over_listeners() -> bool {
    table::used(0, u32::MAX).any(|fd| {
        // SAFETY: asks for a flag.
        let flags = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) });
        flags.is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize == 0)
            && table::get(fd).is_some_and(|held| held.listener().is_some())
    })
}
