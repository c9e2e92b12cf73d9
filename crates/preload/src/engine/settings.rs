//! What the environment says of the engine.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// See the [module](self).
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
pub fn get() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// Whether what cannot be offloaded is refused.
pub fn are_strict() -> bool {
    get().is_some_and(|settings| settings.strict)
}

/// Reads the environment, once, at start-up.
pub fn read() {
    let Some(socket) = std::env::var_os("OUTBOARD_SOCKET") else {
        return;
    };
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
