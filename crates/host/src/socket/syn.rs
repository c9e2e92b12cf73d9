//! TCP Fast Open (RFC 7413): a connection that is being opened, and whose SYN may carry data.
//!
//! The engine says at once whether the SYN waits for data, which it does where a cookie is known. Then the
//! connection has its name before it is open, so that it can be sent on, shut and closed: closed before
//! anything was written, it has never been there.

use std::sync::Arc;
use std::time::Duration;

use queue_pair::{ConnRef, Submission};
use rustix::io::Errno;

use super::{Attachment, Phase, Socket, SocketCore, Syn};
use crate::lock::lock;

/// The first version of the protocol in which a SYN that waits can be let go without data.
const LETS_GO_SINCE: u32 = 9;

impl SocketCore {
    /// The SYN waits for data, and has room for so many bytes. Called by the pumping thread, as what follows.
    pub(crate) fn syn_waits(&self, attachment: &Arc<Attachment>, conn: ConnRef, room: u16) {
        let mut state = lock(&self.state);
        if let Some(block) = state.take_connect_block() {
            lock(&attachment.pool).give_back(block);
        }
        state.syn = Syn::Ordinary;
        let at = state.posting_time();
        if state.closed {
            let abort = true;
            attachment.post_surely(Submission::Close { conn, abort, at });
        } else if state.write_shut {
            attachment.post_surely(Submission::Shutdown { conn, at });
        } else {
            state.syn = Syn::Waits(room);
        }
        self.link_to(&mut state, attachment, conn);
        let news = self.refresh(&state);
        drop(state);
        self.happened(news);
    }

    /// The SYN is under way, and waits for nothing.
    pub(crate) fn syn_leaves(&self) {
        lock(&self.state).syn = Syn::Ordinary;
    }

    /// Whether it is still being opened.
    pub(crate) fn is_opening(&self) -> bool {
        lock(&self.state).phase == Phase::Connecting
    }
}

impl Socket {
    /// Whether the SYN waits for data: then what is written leaves with it, as far as there is room.
    pub fn holds_syn(&self) -> bool {
        matches!(lock(&self.core.state).syn, Syn::Waits(_))
    }

    /// Lets a SYN go that waits for data, without any. False: none waits, or the engine knows no other way
    /// than to write.
    pub fn let_syn_go(&self) -> bool {
        let mut state = self.attach_and_lock();
        let (Syn::Waits(_), Some(link)) = (state.syn, &state.link) else {
            return false;
        };
        if !link.attachment.speaks(LETS_GO_SINCE) {
            return false;
        }
        let conn = link.conn;
        link.attachment.post_surely(Submission::LetSynGo { conn });
        state.syn = Syn::Ordinary;
        self.core.refresh(&state);
        true
    }

    /// Waits until the engine has said whether the SYN waits for data, at most so long; whether it does.
    pub fn await_syn(&self, limit: Duration) -> bool {
        let state = || lock(&self.core.state).syn;
        loop {
            let told = || (state() != Syn::Asked).then_some(());
            match self.wait_for_engine(limit, told) {
                // The answer is on its way: a signal does not end it.
                Err(Errno::INTR) => {}
                _ => return self.holds_syn(),
            }
        }
    }
}
