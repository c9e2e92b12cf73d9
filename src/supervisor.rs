//! What a supervisor such as systemd is told (sd_notify(3)): that a command is ready, what it does in a
//! few words (`systemctl status` shows them), that it stops; and, where it keeps a watchdog, that the
//! engine still answers.

use crate::control::PATIENCE;
use queue_pair::control::{Channel, Fds, Reply, Request};
use sd_notify::NotifyState;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// How often a supervisor is asked for more time while the engine's connections end, and for how much.
const ASKED_EVERY: Duration = Duration::from_secs(10);
const MORE_TIME: Duration = Duration::from_secs(30);

/// The engine is ready for programs; from now on it is watched, and a byte on `stop` says that it ends.
pub fn engine_is_ready(what: &str, socket: PathBuf, stop: UnixStream) {
    is_ready(what);
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let of_engine = socket.clone();
    let waiting = std::thread::Builder::new()
        .name("stopping".into())
        .spawn(move || await_the_end(stop, &of_engine));
    if waiting.is_err() {
        // It ends all the same, within the time that the unit allows.
        crate::closed_pipe::remark(format_args!("outboard: systemd is not told of the end"));
    }
    let mut period = 0;
    if !sd_notify::watchdog_enabled(false, &mut period) {
        return;
    }
    // Twice in the time that the supervisor waits, as sd_watchdog_enabled(3) asks for.
    let pause = Duration::from_micros(period / 2);
    let watching = std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(move || watch(&socket, pause));
    if watching.is_err() {
        // Without a watch the supervisor would take the engine for dead.
        crate::closed_pipe::remark(format_args!("outboard: no thread for the watchdog"));
    }
}

/// A command serves: what, in words.
pub fn is_ready(what: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&in_one_line(what))]);
}

/// A command was told to stop. It may take so long, also where its unit allows less.
pub fn is_stopping(what: &str, longest: Duration) {
    // It says that it may take longer; the unit's own limit holds as well.
    let longest = longest + Duration::from_secs(5);
    let longest = u32::try_from(longest.as_micros()).unwrap_or(u32::MAX);
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status(&in_one_line(what)),
        NotifyState::ExtendTimeoutUsec(longest),
    ]);
}

/// Each line is a notice of its own, and a directory may be called anything.
fn in_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The engine ends; said once, and not later than this returns.
pub fn engine_is_stopping() {
    static SAID: Once = Once::new();
    let what = "its connections have time to end (drain_seconds)";
    SAID.call_once(|| is_stopping(what, MORE_TIME));
}

/// Waits until the engine is told to stop, and says so. Its connections have as long to end as its
/// configuration says, which may be more than its unit does; as long as it answers, it asks for time.
fn await_the_end(mut stop: UnixStream, socket: &Path) {
    if stop.read_exact(&mut [0]).is_err() {
        return;
    }
    engine_is_stopping();
    let mut channel = None;
    loop {
        std::thread::sleep(ASKED_EVERY);
        if answers(&mut channel, socket, PATIENCE) {
            let more = u32::try_from(MORE_TIME.as_micros()).unwrap_or(u32::MAX);
            tell(&[NotifyState::ExtendTimeoutUsec(more)]);
        }
    }
}

/// Says so, again and again, as long as the engine answers.
fn watch(socket: &Path, pause: Duration) {
    let mut channel = None;
    loop {
        std::thread::sleep(pause);
        if answers(&mut channel, socket, pause.min(PATIENCE)) {
            tell(&[NotifyState::Watchdog]);
        }
    }
}

/// Asks the engine over its socket, as any program does: a worker that hangs is a worker that does not
/// answer. A connection that has answered is kept for the next time.
fn answers(channel: &mut Option<Channel>, socket: &Path, patience: Duration) -> bool {
    let open = channel.take().or_else(|| Channel::connect(socket).ok());
    let Some(mut open) = open else {
        return false;
    };
    let pid = std::process::id();
    let answer = open.request(&Request::Explain { pid }, Fds::new(), patience);
    let answers = matches!(answer, Ok((Reply::Explained(_), _)));
    if answers {
        *channel = Some(open);
    }
    answers
}

fn tell(what: &[NotifyState<'_>]) {
    // Without a supervisor there is nobody to tell, and that is no error; one that cannot be reached
    // will find out by itself.
    let _ = sd_notify::notify(false, what);
}
