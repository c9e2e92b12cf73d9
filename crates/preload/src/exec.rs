//! execve, by a program that hands its sockets to its successor.
//!
//! nginx does so when it changes its binary, and gives the successor an environment of its own
//! making, from which what this library needs is missing: the successor would serve from the kernel
//! without a word. So what is missing is put back, when a socket of the engine's goes along. Everything
//! else that is executed gets the environment that the program chose.
//!
//! A connection of the engine's goes along as a ticket ([`travel`](crate::travel)), which the new
//! program claims when it starts. If the engine gives none, the new program has a descriptor that is not
//! connected (ENOTCONN), and the engine is told so. What libc starts by calls within it (posix_spawn and
//! its kin) is the matter of [`spawn`](crate::spawn).

use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;

use host::Legacy;
use rustix::io::Errno;

use crate::raw::{errno, result, set_errno, sys};
use crate::table::Held;
use crate::travel::{CONNECTION, Departing};
use crate::{inside, session, start, table};

/// Why the new program's descriptor is of no use.
const PASSED: &str = "passed through exec: the new program cannot use it";

/// # Safety
/// As execve: a path, and two lists of strings that end with null.
pub unsafe fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> Errno {
    // SAFETY: as the caller promises.
    let extended = unsafe { extend(environment, &[]) };
    let environment = extended.as_ref().map_or(environment, |list| list.as_ptr());
    // SAFETY: as the caller promises.
    let passed = unsafe { Passed::tell(Some(path)) };
    let executed = outside(|| {
        // SAFETY: as the caller promises; the list that was extended lives on.
        result(unsafe { sys!(libc::SYS_execve, path, arguments, environment) })
    });
    match executed {
        Err(error) => {
            if let Some(passed) = passed {
                passed.take_back();
            }
            error
        }
        // It does not return when it succeeds.
        Ok(_) => Errno::NOEXEC,
    }
}

/// Calls `exec`, one of libc's ways to execute a program, with the environment that the program is to
/// have, and returns what it returns if that fails.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
pub unsafe fn with<T>(
    environment: *const *const c_char,
    exec: impl FnOnce(*const *const c_char) -> T,
) -> T {
    // SAFETY: as the caller promises.
    let extended = unsafe { extend(environment, &[]) };
    let environment = extended.as_ref().map_or(environment, |list| list.as_ptr());
    // SAFETY: there is no path.
    let passed = unsafe { Passed::tell(None) };
    let result = outside(|| exec(environment));
    if let Some(passed) = passed {
        let errno = errno();
        passed.take_back();
        set_errno(errno);
    }
    result
}

/// Makes a call that begins another program, which has this thread's signal mask: none is held back for
/// the locks of this library.
pub fn outside<T>(call: impl FnOnce() -> T) -> T {
    let depth = inside::sleeps();
    let result = call();
    if let Some(depth) = depth {
        inside::wakes(depth);
    }
    result
}

/// The connections of the engine's that stay open in the program that is executed.
struct Passed {
    departing: Departing,
    /// To tell of those that are lost.
    lost: Option<(Vec<c_int>, Legacy)>,
}

impl Passed {
    /// Has tickets stand for them, if there are any, and `path`, if it is known, can be executed:
    /// programs are looked for in many directories by trying.
    ///
    /// # Safety
    /// `path` is one for execve.
    unsafe fn tell(path: Option<*const c_char>) -> Option<Self> {
        let session = session::current()?;
        let mut fds = inherited(|held| held.stream().is_some()).peekable();
        fds.peek()?;
        if let Some(path) = path {
            let at = libc::AT_FDCWD;
            // SAFETY: as the caller promises.
            result(unsafe { sys!(libc::SYS_faccessat, at, path, libc::X_OK) }).ok()?;
        }
        let departing = Departing::begin(fds);
        let lost: Vec<_> = departing.without_ticket().collect();
        let lost = match lost[..] {
            [] => None,
            _ => session.legacy().map(|mut legacy| {
                for fd in &lost {
                    legacy.report(*fd, CONNECTION, PASSED);
                }
                (lost, legacy)
            }),
        };
        Some(Self { departing, lost })
    }

    /// The program stays, and has its connections.
    fn take_back(self) {
        self.departing.stay();
        if let Some((lost, mut legacy)) = self.lost {
            for fd in lost {
                legacy.report(fd, CONNECTION, "");
            }
        }
    }
}

/// The environment with what is missing, if it is to be added: if a socket of the engine's goes along,
/// those under the numbers in `more` among them.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
pub unsafe fn extend(
    environment: *const *const c_char,
    more: &[c_int],
) -> Option<Vec<*const c_char>> {
    let needed = start::settings().map(|settings| &settings.environment)?;
    if environment.is_null() || !hands_over(more) {
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

/// Whether a listening socket or connection of the engine's stays open in the program that is executed, or
/// is one of `more`.
fn hands_over(more: &[c_int]) -> bool {
    let ours = |held: &Held| held.listener().is_some() || held.stream().is_some();
    let mut named = more.iter().filter_map(|fd| table::get(*fd));
    named.any(|held| ours(&held)) || inherited(ours).next().is_some()
}

/// The descriptors that stay open in the program that is executed, of those that are `meant`.
pub fn inherited(meant: impl Fn(&Held) -> bool) -> impl Iterator<Item = c_int> {
    table::used(0, u32::MAX).filter(move |&fd| {
        // SAFETY: asks for a flag.
        let flags = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) });
        flags.is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize == 0)
            && table::get(fd).is_some_and(|held| meant(&held))
    })
}
