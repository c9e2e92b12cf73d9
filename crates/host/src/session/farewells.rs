//! How the engine hears of what was closed before there was a link to it.

use queue_pair::Submission;
use queue_pair::control::{Farewell, Fds, Request};

use crate::attachment::RUNS_WITHIN;
use crate::clock::monotonic_ns;
use crate::socket::Attachment;

/// Says to the engine of something that this process has inherited, and closed before it was attached, that it is closed.
pub(super) fn says(attachment: &Attachment, farewell: Farewell) {
    match farewell {
        Farewell::Connection(conn) => attachment.post_surely(Submission::Close {
            conn,
            abort: false,
            at: monotonic_ns(),
        }),
        Farewell::Listener(listener) => {
            let request = Request::Unlisten { listener };
            let _ = attachment.request(&request, Fds::new(), RUNS_WITHIN);
        }
    }
}
