//! Programs that are about to be executed, and that this library cannot be in: static ones, those of
//! another libc, those that the loader lets nothing into because they run with more rights.
//!
//! Their sockets are the kernel's, and nothing in them could say so. So it is said here, by the process that
//! executes or starts them; and if nothing is to be left to the kernel (`outboard run --strict`), they are
//! not executed.
//!
//! A program that is executed or started without the variables that name the engine is not meant for it. If nothing is
//! to be left to the kernel it is executed all the same, and this is said: a daemon may have cleaned its environment.

use core::ffi::{CStr, c_char, c_int};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use enterable::Program;
use host::{Explanation, LastWords};
use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags};
use rustix::process::{getegid, geteuid, getgid, getuid};

use crate::engine::settings;

/// What makes a program one of the engine's.
const VARIABLE: &[u8] = b"OUTBOARD_SOCKET=";

/// Where execvp looks if the environment does not say.
const PATHS: &str = "/bin:/usr/bin";

/// The bit of set-user-ID, and both of a set-group-ID that counts.
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2010;

/// What is said of a program that is executed or started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// This process becomes it.
    Executed,
    /// A new process is it.
    Started,
    /// It is not executed.
    Refused,
}

/// A program that this library cannot be in.
pub struct Apart {
    program: String,
    why: &'static str,
    /// Whoever executes it does not name the engine, so whether it could be in it was not looked at.
    is_unnamed: bool,
}

/// Why it is not in a program of which no more was looked at.
const UNNAMED: &str = "its environment does not name the engine (OUTBOARD_SOCKET)";

impl Apart {
    /// Of the program at `path`, if it is such a one, and meant for the engine.
    ///
    /// # Safety
    /// `environment` is null or a list of strings that ends with null.
    unsafe fn of_meant(path: Option<&CStr>, environment: *const *const c_char) -> Option<Self> {
        // SAFETY: as the caller promises.
        if settings::get().is_none() || !unsafe { is_meant_for_the_engine(environment) } {
            return None;
        }
        let path = Path::new(OsStr::from_bytes(path?.to_bytes()));
        let executed = enterable::executed(path).ok()?;
        let why = privileged(&executed).or_else(|| match enterable::look_at(&executed) {
            Ok(Program::Apart(why)) => Some(why),
            _ => None,
        })?;
        Some(Self {
            program: named(path),
            why,
            is_unnamed: false,
        })
    }

    /// Of the program at `path`, with the environment that it is to have, if it is such a one. Where nothing is to be left
    /// to the kernel, also of one that is not meant for the engine.
    ///
    /// # Safety
    /// `environment` is null or a list of strings that ends with null.
    pub unsafe fn of(path: Option<&CStr>, environment: *const *const c_char) -> Option<Self> {
        // SAFETY: as the caller promises.
        if !settings::are_strict() || unsafe { is_meant_for_the_engine(environment) } {
            // SAFETY: as above.
            return unsafe { Self::of_meant(path, environment) };
        }
        let path = Path::new(OsStr::from_bytes(path?.to_bytes()));
        enterable::executed(path).ok()?;
        Some(Self {
            program: named(path),
            why: UNNAMED,
            is_unnamed: true,
        })
    }

    /// Whether it must not be executed.
    pub fn is_refused(&self) -> bool {
        settings::are_strict() && !self.is_unnamed
    }

    /// What there is to say of it, and its kind.
    pub fn line(&self, fate: Fate) -> (&'static str, String) {
        let Self { program, why, .. } = self;
        match fate {
            Fate::Executed => (
                Explanation::EXECUTED,
                format!(
                    "{program} was executed without the library: {why}; its sockets are the kernel's"
                ),
            ),
            Fate::Started => (
                STARTED,
                format!(
                    "{program} was started without the library: {why}; its sockets are the kernel's"
                ),
            ),
            Fate::Refused => (
                STARTED,
                format!("{program} was not executed, because of --strict: {why}"),
            ),
        }
    }

    /// Tells the engine, of a program that this process does not become.
    pub fn tell(&self, fate: Fate) {
        let Some(mut engine) = last_words() else {
            return;
        };
        let (kind, line) = self.line(fate);
        engine.say([(Explanation::NO_DESCRIPTOR, kind, &*line)].into_iter());
    }
}

/// What a program at `path` is called: who has opened it calls it by a number.
fn named(path: &Path) -> String {
    let name = match path.starts_with("/proc/self/fd") {
        true => std::fs::read_link(path).unwrap_or_else(|_| path.into()),
        false => path.into(),
    };
    name.to_string_lossy().into_owned()
}

/// The kind of what is said of a program that is another process.
const STARTED: &str = "started program";

/// The means to say what this process says last.
pub fn last_words() -> Option<LastWords> {
    LastWords::to(&settings::get()?.socket)
}

/// The file that execvp and its kin execute for a name.
pub fn looked_for(name: &CStr) -> Option<CString> {
    if name.to_bytes().contains(&b'/') {
        return Some(name.to_owned());
    }
    let paths = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(PATHS));
    std::env::split_paths(&paths)
        .map(|directory| directory.join(OsStr::from_bytes(name.to_bytes())))
        .find(|file| {
            file.is_file()
                && rustix::fs::accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
        })
        .and_then(|file| CString::new(file.into_os_string().into_vec()).ok())
}

/// A path to the file behind a descriptor, or to `path` from there.
pub fn relative_to(fd: c_int, path: &CStr) -> Option<CString> {
    let path = path.to_bytes();
    if path.starts_with(b"/") || (fd == libc::AT_FDCWD && !path.is_empty()) {
        return CString::new(path).ok();
    }
    let begin = format!("/proc/self/fd/{fd}").into_bytes();
    let rest: &[u8] = if path.is_empty() { b"" } else { b"/" };
    CString::new([&begin, rest, path].concat()).ok()
}

/// # Safety
/// `environment` is null or a list of strings that ends with null.
unsafe fn is_meant_for_the_engine(environment: *const *const c_char) -> bool {
    if environment.is_null() {
        return false;
    }
    let mut next = environment;
    // SAFETY: as the caller promises.
    unsafe {
        while !(*next).is_null() {
            if CStr::from_ptr(*next).to_bytes().starts_with(VARIABLE) {
                return true;
            }
            next = next.add(1);
        }
    }
    false
}

/// The loader ignores LD_PRELOAD in a program that the kernel starts with more rights than its user has
/// (AT_SECURE). Root has them all.
fn privileged(path: &Path) -> Option<&'static str> {
    let about = rustix::fs::stat(path).ok()?;
    let no_suid = rustix::fs::statvfs(path)
        .is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID))
        || rustix::thread::no_new_privs().unwrap_or(false);
    let has = |bits| about.st_mode & bits == bits && !no_suid;
    let user = if has(SETUID) {
        about.st_uid
    } else {
        geteuid().as_raw()
    };
    let group = if has(SETGID) {
        about.st_gid
    } else {
        getegid().as_raw()
    };
    if user != getuid().as_raw() || group != getgid().as_raw() {
        return Some(
            "it runs with the rights of another user, and the loader interposes nothing there",
        );
    }
    let mut capabilities = [0u8; 64];
    let capable = !no_suid
        && !getuid().is_root()
        && rustix::fs::getxattr(path, "security.capability", &mut capabilities[..]).is_ok();
    capable.then_some("it has file capabilities, and the loader interposes nothing there")
}
