//! execve, by a program that hands its sockets to its successor.
//!
//! nginx does so when it changes its binary, and gives the successor an environment of its own
//! making, from which what this library needs is missing: the successor would serve from the kernel
//! without a word. So what is missing is put back, when a socket of the engine's goes along. Everything
//! else that is executed gets the environment that the program chose.
//!
//! A connection of the engine's goes along as a ticket ([`travel`](crate::calls::travel)), which the new
//! program claims when it starts. If the engine gives none, the new program has a descriptor that is not
//! connected (ENOTCONN), and the engine is told so; so it is of a program that this library cannot be in
//! ([`enter`](crate::calls::enter)). What libc starts by calls within it (posix_spawn and
//! its kin) is the matter of [`spawn`](crate::calls::spawn).

use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;

use host::{Explanation, LastWords};
use rustix::io::Errno;

use crate::calls::departing::{Departing, Successor};
use crate::calls::enter::{self, Apart, Fate};
use crate::calls::epoll;
use crate::calls::travel::CONNECTION;
use crate::engine::{session, settings};
use crate::kernel::raw::{errno, result, set_errno, sys};
use crate::numbers;
use crate::numbers::table;
use crate::numbers::table::Held;
use crate::thread::inside;

/// Why the new program's descriptor is of no use.
const PASSED: &str = "passed through exec: the new program cannot use it";

/// Why the new program waits for it in vain.
const NOT_NOTED: &str = "passed through exec: there were no descriptors or watches left for an epoll set that it is in, and the new program is not told of it there";

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
    // SAFETY: as the caller promises; a null is the kernel's to refuse.
    let apart = unsafe {
        let program = (!path.is_null()).then(|| CStr::from_ptr(path));
        Apart::of(program, environment)
    };
    if let Some(apart) = apart.as_ref().filter(|apart| apart.is_refused()) {
        apart.tell(Fate::Refused);
        return Errno::ACCESS;
    }
    epoll::all_open();
    // SAFETY: as the caller promises.
    let passed = unsafe { Passed::tell(Some(path), apart) };
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

/// Calls `exec`, one of libc's ways to execute the program in this file, if that is known, with the
/// environment that the program is to have, and returns what it returns if that fails.
///
/// # Safety
/// `environment` is null or a list of strings that ends with null.
pub unsafe fn with(
    program: Option<CString>,
    environment: *const *const c_char,
    exec: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let extended = unsafe { extend(environment, &[]) };
    let environment = extended.as_ref().map_or(environment, |list| list.as_ptr());
    // SAFETY: as the caller promises.
    let apart = unsafe { Apart::of(program.as_deref(), environment) };
    if let Some(apart) = apart.as_ref().filter(|apart| apart.is_refused()) {
        apart.tell(Fate::Refused);
        set_errno(libc::EACCES);
        return -1;
    }
    epoll::all_open();
    // SAFETY: there is no path.
    let passed = unsafe { Passed::tell(None, apart) };
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

/// The connections of the engine's that stay open in the program that is executed, and what was said of it.
struct Passed {
    departing: Option<Departing>,
    said: Option<LastWords>,
}

impl Passed {
    /// Has tickets stand for the connections, if there are any, and says what the program cannot use, if
    /// `path`, if it is known, can be executed: programs are looked for in many directories by trying.
    ///
    /// # Safety
    /// `path` is one for execve.
    unsafe fn tell(path: Option<*const c_char>, apart: Option<Apart>) -> Option<Self> {
        let mut fds = session::current()
            .into_iter()
            .flat_map(|_| numbers::staying_open(|held| held.stream().is_some()))
            .peekable();
        if fds.peek().is_none() && apart.is_none() {
            return None;
        }
        if let Some(path) = path {
            let at = libc::AT_FDCWD;
            // SAFETY: as the caller promises.
            result(unsafe { sys!(libc::SYS_faccessat, at, path, libc::X_OK) }).ok()?;
        }
        let successor = match apart {
            Some(_) => Successor::Apart,
            None => Successor::Same,
        };
        let departing = fds
            .peek()
            .is_some()
            .then(|| Departing::begin(fds, successor));
        let apart = apart.map(|apart| apart.line(Fate::Executed));
        let apart = (apart.iter()).map(|(kind, line)| (Explanation::NO_DESCRIPTOR, *kind, &**line));
        let lost = departing.iter().flat_map(Departing::without_ticket);
        let lost = lost.map(|fd| (fd, CONNECTION, PASSED));
        let unnoted = departing.iter().flat_map(Departing::unnoted);
        let unnoted = unnoted.map(|fd| (fd, CONNECTION, NOT_NOTED));
        let lines: Vec<_> = apart.chain(lost).chain(unnoted).collect();
        let mut said = lines.first().and_then(|_| enter::last_words());
        if let Some(said) = &mut said {
            said.say(lines.into_iter());
        }
        Some(Self { departing, said })
    }

    /// The program stays, and has its connections.
    fn take_back(self) {
        if let Some(departing) = self.departing {
            departing.stay();
        }
        if let Some(mut said) = self.said {
            said.say([].into_iter());
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
    let needed = settings::get().map(|settings| &settings.environment)?;
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
    named.any(|held| ours(&held)) || numbers::staying_open(ours).next().is_some()
}
