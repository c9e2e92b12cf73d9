//! The process's one session with the engine.
//!
//! It begins with the first `listen` or `connect` that could be offloaded, so that programs which
//! never do either attach to nothing.

use std::sync::OnceLock;

use host::Session;

use crate::{report, settings, stdio};

static SESSION: OnceLock<Session> = OnceLock::new();

/// The session, if the process has one.
#[inline(always)]
pub fn current() -> Option<&'static Session> {
    SESSION.get()
}

/// The session, begun now if need be; `None` if there is no engine to go to. An engine that is not
/// there yet is found when it is.
pub fn begin() -> Option<&'static Session> {
    let settings = settings::get()?;
    let mut begun = false;
    let session = SESSION.get_or_init(|| {
        begun = true;
        stdio::prepare();
        Session::unattached(&settings.socket, &settings.program)
    });
    if begun {
        report::hand_over(session);
    }
    Some(session)
}

/// Takes in what the engine has said.
#[inline(always)]
pub fn pump() {
    if let Some(session) = SESSION.get() {
        session.pump();
    }
}
