//! The process's one session with the engine.
//!
//! It begins with the first `listen` or `connect` that could be offloaded, so that programs which
//! never do either attach to nothing.

use std::sync::{Mutex, MutexGuard, OnceLock};

use host::Session;

use crate::engine::{early, settings};
use crate::kernel::lock::lock;
use crate::thread::inside;

static SESSION: OnceLock<Session> = OnceLock::new();

/// Held by the thread that begins it: a fork waits for that, or the child would wait for a thread that is not there.
static BEGINS: Mutex<()> = Mutex::new(());

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
    if let session @ Some(_) = SESSION.get() {
        return session;
    }
    let settings = settings::get()?;
    // A handler would wait for what is locked here.
    inside::enter();
    let mut begun = false;
    let begins = lock(&BEGINS);
    let session = SESSION.get_or_init(|| {
        begun = true;
        if let Some(prepare) = PREPARE.get() {
            prepare();
        }
        Session::unattached(&settings.socket, &settings.program)
    });
    drop(begins);
    inside::leave();
    if begun {
        for what in early::lines().drain(..) {
            session.remark(CALL, what);
        }
    }
    Some(session)
}

/// Nobody else begins the session, for the time of a fork.
pub struct Quiet(#[expect(dead_code, reason = "held, not used")] MutexGuard<'static, ()>);

/// See [`Quiet`].
pub fn quiet() -> Quiet {
    Quiet(lock(&BEGINS))
}

/// The session of the child of a fork that has not attached.
fn heir() -> Option<&'static Session> {
    SESSION.get().filter(|session| session.is_heir())
}

/// Whether this process has not come into what it inherits.
pub fn is_heir() -> bool {
    heir().is_some()
}

/// In the child of a fork: comes into what it inherits, before something is locked which another thread locks in order to
/// fork. Costs little anywhere else.
pub fn inherit() {
    if let Some(session) = heir() {
        // A handler would wait for what is locked here.
        inside::enter();
        session.attach_now();
        inside::leave();
    }
}

/// Takes in what the engine has said.
#[inline(always)]
pub fn pump() {
    if let Some(session) = SESSION.get() {
        session.pump();
    }
}
