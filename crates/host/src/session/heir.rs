//! How the child of a fork comes into what it inherits.
//!
//! Its connections hang on its parent's engine, so it waits for that as for a slow kernel, and others that want the link
//! wait with it. To a thread that is about to fork it gives way: that one waits for the engine in its stead, and not
//! for longer than anybody does. The child of a fork that has waited in vain has nothing of what this process is to
//! inherit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use queue_pair::control::{Fds, Reply};
use rustix::io::Errno;

use super::{Bereft, CALL, Knock, LISTENS_WITHIN, Link, SessionCore};
use crate::attachment::{self, ANSWER_WITHIN, Control, RUNS_WITHIN, WHILE_IT_LIVES};
use crate::inheritance::{Inheritance, Kept};
use crate::lock::{lock, try_lock};
use crate::reserve;
use crate::socket::Attachment;

/// How long one waits for the engine before he looks whether a fork is ahead.
const TURN: Duration = Duration::from_millis(50);

/// What the engine has answered, and on which connection.
type Answer = (Control, (Reply, Fds));

impl SessionCore {
    /// Whether this process is the child of a fork and has not attached, whether or not a thread of its waits for that.
    pub(super) fn has_inherited(&self) -> bool {
        self.is_heir_by(&self.inherits)
    }

    /// For how long one waits who would wait for `limit` if nothing was inherited.
    pub(super) fn patience(link: &Link, limit: Duration) -> Duration {
        match &link.attachment {
            Some(parents) if !parents.sockets().is_empty() => WHILE_IT_LIVES,
            _ => LISTENS_WITHIN.max(limit),
        }
    }

    /// Comes into what this process inherits, or attaches as any other where there is nothing any more. `None`: the
    /// engine has not answered, and one may wait no longer. Nothing is lost then.
    pub(super) fn inherit(
        self: &Arc<Self>,
        link: &mut Link,
        may_wait: impl Fn() -> bool,
    ) -> Option<Result<Arc<Attachment>, Errno>> {
        self.is_heir.store(false, Ordering::Relaxed);
        loop {
            match self.ask_for_inheritance(link, TURN) {
                Err(Errno::TIMEDOUT) if may_wait() => {}
                Err(Errno::TIMEDOUT) => {
                    // Whoever asks next gives it up once more.
                    reserve::refill();
                    return None;
                }
                Err(_) if link.inheritance.is_none() => {
                    return Some(self.link_to_engine(link, RUNS_WITHIN));
                }
                Err(error) => return Some(self.linked(link, Err(error), TURN)),
                Ok((control, answer)) => {
                    let attachment =
                        Attachment::attached(control, answer, &self.nudges, &self.listeners);
                    return Some(self.linked(link, attachment, TURN));
                }
            }
        }
    }

    /// Goes on with that where it stands, and waits for one turn at most.
    ///
    /// # Errors
    /// `ETIMEDOUT`: the engine has not answered yet. Otherwise it is gone.
    fn ask_for_inheritance(&self, link: &mut Link, turn: Duration) -> Result<Answer, Errno> {
        if let Some(Inheritance::Promised(promise)) = &link.inheritance {
            link.inheritance = match promise.wait(turn) {
                Kept::NotYet => return Err(Errno::TIMEDOUT),
                Kept::Yes(given) => Some(Inheritance::Given(given)),
                Kept::Never => None,
            };
        }
        let Some(Inheritance::Given(given)) = &link.inheritance else {
            return Err(Errno::CONNRESET);
        };
        if link.knock.is_none() {
            // What it takes to attach, where there are no other descriptors.
            reserve::give_up(reserve::TO_ATTACH);
            let mut control = match attachment::connect(&self.path, turn) {
                // One that does not run hears nobody knock either.
                Err(Errno::TIMEDOUT) => return Err(Errno::TIMEDOUT),
                control => control.or_else(|_| given.knock())?,
            };
            Attachment::ask_to_attach(&mut control, &self.program, Some(given.token))
                .map_err(|_| Errno::CONNRESET)?;
            let asked = Instant::now();
            link.knock = Some(Knock { control, asked });
        }
        let knock = link.knock.as_ref();
        if !knock.is_some_and(|knock| attachment::answers_within(&knock.control, turn)) {
            return Err(Errno::TIMEDOUT);
        }
        // What comes along.
        reserve::give_up(reserve::TO_ATTACH - 1);
        let Knock { mut control, .. } = link.knock.take().ok_or(Errno::CONNRESET)?;
        match control.get_mut().take_late() {
            Ok(Some(answer)) => Ok((control, answer)),
            _ => Err(Errno::CONNRESET),
        }
    }

    /// Before a fork: what this process has not come into it cannot hand on. False: it waits for the engine in vain.
    /// `holds_none`: the calling thread has not locked the link itself.
    pub(crate) fn inherits_before_fork(self: &Arc<Self>, holds_none: bool) -> bool {
        if !self.inherits.load(Ordering::Relaxed) {
            return true;
        }
        let _waits = self.forks.waits();
        let link = match holds_none {
            true => Some(lock(&self.link)),
            false => try_lock(&self.link),
        };
        let Some(mut link) = link.filter(|_| self.has_inherited()) else {
            return true;
        };
        if link.inheritance.is_none() {
            drop(link);
            self.attachment();
            return true;
        }
        let begin = Instant::now();
        let has_waited = link.in_vain;
        // For listeners alone no longer than anybody.
        let limit = Self::patience(&link, RUNS_WITHIN).min(ANSWER_WITHIN);
        let answer = self.inherit(&mut link, || !has_waited && begin.elapsed() < limit);
        if answer.is_some() {
            return true;
        }
        // Whoever comes by next waits on.
        self.is_heir.store(true, Ordering::Relaxed);
        link.in_vain = true;
        let loses = link
            .attachment
            .as_ref()
            .is_some_and(|it| !it.sockets().is_empty());
        if loses {
            self.note_remark(CALL, Bereft::OfEngine.parents());
        }
        !loses
    }
}
