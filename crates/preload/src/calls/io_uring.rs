//! io_uring, which a program on the engine does without.
//!
//! What is queued on a ring goes to the kernel without a call that could be interposed, and the
//! kernel knows nothing of the engine's connections: a program that waits for one there waits
//! forever. So no ring is made, as on a kernel without io_uring, and programs fall back to epoll and
//! the calls that are interposed. A ring that the process was handed is left alone.

use crate::engine::{report, settings};

/// What `outboard explain` says of it.
const REFUSED: &str =
    "io_uring is refused: its calls do not pass through the engine; the program uses other calls";

/// Whether a ring that is to be made is refused: always, in a program on the engine.
pub fn is_refused() -> bool {
    let refused = settings::get().is_some();
    if refused {
        report::remark(REFUSED);
    }
    refused
}
