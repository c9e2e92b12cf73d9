//! Start-up, in order.
//!
//! 1. The loader maps this library before the program's own. Its exported names are in use from
//!    here on: the loader's other libraries, and a memory allocator that reads a setting, may call
//!    `open`, `read` and `close` before anything below has run. The table of descriptors is all
//!    zeros, which says that nothing is ours, and needs no initialisation.
//! 2. [`initialise`] runs as a constructor, in one thread. It allocates once before anything else,
//!    so that an allocator which registers fork handlers of its own has done so: handlers that
//!    prepare a fork run in reverse order, and ours, which allocate, must run before the
//!    allocator's lock it.
//! 3. It reads the settings from the environment. Without `OUTBOARD_SOCKET` nothing is ever
//!    offloaded, and every socket stays the kernel's.
//! 4. It registers the fork handlers.
//! 5. It looks for sockets that were handed to the program: it shows listening ones to the engine, and
//!    claims connections.
//! 6. The program's `main`. The first `listen` or `connect` attaches ([`session`](crate::session)).
//! 7. [`finish`] runs as a destructor, when the program returns from `main` or calls `exit`.
//! 8. fork: the parent's prepare handler has the session hold still, the child's lets go of what
//!    is the parent's. exec: all that is ours is close-on-exec.

use core::ffi::c_int;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::wait;

/// What the environment says.
pub struct Settings {
    /// The engine's control socket.
    pub socket: PathBuf,
    /// The program's name, for the engine's lists.
    pub program: String,
    /// Refuse, rather than leave to the kernel, what cannot be offloaded.
    pub strict: bool,
    /// The variables without which a successor would not be on the engine.
    pub environment: Vec<CString>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings, once start-up is over; `None` before, and when there is no engine to go to.
pub fn settings() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// Whether what cannot be offloaded is refused.
pub fn strict() -> bool {
    settings().is_some_and(|settings| settings.strict)
}

/// Numbers that are left for what the program must not see, at the end of those that it may have.
const HIDDEN: u64 = 128;

/// Where numbers begin that are out of the program's way.
pub fn hidden_floor() -> c_int {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Where there is no limit to speak of, still within the table.
    let limit = limit.unwrap_or(u64::MAX).min(1 << 16);
    limit.saturating_sub(HIDDEN).max(limit / 2) as c_int
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = initialise;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = finish;

/// The program ends in order. The engine learns what was read last: it would take it for unread,
/// and reset connections that the kernel would close in order.
extern "C" fn finish() {
    // The child of a fork that has used no socket has read nothing.
    if crate::session::current().is_some_and(|session| !session.is_heir())
        && let Ok(sleep) = crate::wait::Sleep::begin()
    {
        drop(sleep);
    }
}

extern "C" fn initialise() {
    drop(std::hint::black_box(Box::new(0u8)));
    if let Some(socket) = std::env::var_os("OUTBOARD_SOCKET") {
        let program = std::env::args_os()
            .next()
            .map(PathBuf::from)
            .and_then(|path| {
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
            })
            .unwrap_or_default();
        let strict = std::env::var_os("OUTBOARD_STRICT").is_some_and(|value| value == "1");
        let variables = [
            "LD_PRELOAD",
            "OUTBOARD_SOCKET",
            "OUTBOARD_STRICT",
            host::PROFILE_VARIABLE,
        ];
        let environment = variables.into_iter().filter_map(|name| {
            let value = std::env::var_os(name)?.into_vec();
            CString::new([name.as_bytes(), b"=", &value].concat()).ok()
        });
        let _ = SETTINGS.set(Settings {
            socket: socket.into(),
            program,
            strict,
            environment: environment.collect(),
        });
    }
    crate::fork::register();
    if settings().is_some() {
        host::private_fds::set_floor(hidden_floor());
        host::sleep_by(host::Sleeps {
            poll: wait::poll,
            wait: wait::futex,
        });
        crate::travel::inherited();
    }
}
