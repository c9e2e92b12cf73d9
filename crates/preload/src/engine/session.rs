//! The process's one session with the engine.
//!
//! It begins with the first `listen` or `connect` that could be offloaded, so that programs which
//! never do either attach to nothing.

use std::sync::OnceLock;

use host::Session;

use crate::engine::{early, settings};

static SESSION: OnceLock<Session> = OnceLock::new();

/// What is to be done before it begins; see [`prepare_by`].
static PREPARE: OnceLock<fn()> = OnceLock::new();

/// The kind of a line about a call.
pub const CALL: &str = "call";

/// Has `prepare` called once, before there can be connections. What it makes is made of calls that themselves
/// need the session, and so it stands above and is told of here.
pub fn prepare_by(prepare: fn()) {
    let _ = PREPARE.set(prepare);
}

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
        if let Some(prepare) = PREPARE.get() {
            prepare();
        }
        Session::unattached(&settings.socket, &settings.program)
    });
    if begun {
        for what in early::lines().drain(..) {
            session.remark(CALL, what);
        }
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
