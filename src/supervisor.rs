//! What a supervisor such as systemd is told (sd_notify(3)): that a command is ready, and, where it
//! keeps a watchdog, that the engine still answers.

use crate::control::PATIENCE;
use queue_pair::control::{Channel, Fds, Reply, Request};
use sd_notify::NotifyState;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The engine is ready for programs; from now on it is watched.
pub fn engine_is_ready(socket: PathBuf) {
    tell(&[NotifyState::Ready]);
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

/// A command other than the engine serves.
pub fn is_ready() {
    tell(&[NotifyState::Ready]);
}

/// Asks the engine over its socket, as any program does, and says so as long as it answers: a worker
/// that hangs is a worker that does not answer.
fn watch(socket: &Path, pause: Duration) {
    let mut channel = None;
    loop {
        std::thread::sleep(pause);
        let open = channel.take().or_else(|| Channel::connect(socket).ok());
        let Some(mut open) = open else {
            continue;
        };
        let pid = std::process::id();
        let answer = open.request(&Request::Explain { pid }, Fds::new(), pause.min(PATIENCE));
        if let Ok((Reply::Explained(_), _)) = answer {
            tell(&[NotifyState::Watchdog]);
            channel = Some(open);
        }
    }
}

fn tell(what: &[NotifyState<'_>]) {
    // Without a supervisor there is nobody to tell, and that is no error; one that cannot be reached
    // will find out by itself.
    let _ = sd_notify::notify(false, what);
}
