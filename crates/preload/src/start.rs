//! Start-up, in order.
//!
//! 1. The loader maps this library before the program's own. Its exported names are in use from
//!    here on: the loader's other libraries, and a memory allocator that reads a setting, may call
//!    `open`, `read` and `close` before anything below has run. The table of descriptors is all
//!    zeros, which says that nothing is ours, and needs no initialisation.
//! 2. [`initialise`] runs as a constructor, in one thread. It allocates once before anything else,
//!    so that an allocator which registers fork handlers of its own has done so: handlers that
//!    prepare a fork run in reverse order, and ours, which allocate, must run before the
//!    allocator's lock it.
//! 3. It reads the [settings] from the environment. Without `OUTBOARD_SOCKET` nothing is ever
//!    offloaded, and every socket stays the kernel's.
//! 4. It registers the fork handlers.
//! 5. It looks for sockets that were handed to the program: it shows listening ones to the engine, and
//!    claims connections.
//! 6. The program's `main`. The first `listen` or `connect` attaches ([`session`]).
//! 7. [`finish`] runs as a destructor, when the program returns from `main` or calls `exit`.
//! 8. fork: the parent's prepare handler has the session hold still, the child's lets go of what
//!    is the parent's. exec: all that is ours is close-on-exec.

use crate::calls::{fork, stdio, travel};
use crate::engine::{session, settings, wait};
use crate::numbers::placeholder;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = initialise;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = finish;

/// The program ends in order. The engine learns what was read last: it would take it for unread,
/// and reset connections that the kernel would close in order.
extern "C" fn finish() {
    // The child of a fork that has used no socket has read nothing.
    if session::current().is_some_and(|session| !session.is_heir())
        && let Ok(sleep) = wait::Sleep::begin()
    {
        drop(sleep);
    }
}

extern "C" fn initialise() {
    drop(std::hint::black_box(Box::new(0u8)));
    settings::read();
    fork::register();
    if settings::get().is_some() {
        session::prepare_by(stdio::prepare);
        host::private_fds::set_floor(placeholder::hidden_floor());
        host::sleep_by(host::Sleeps {
            poll: wait::poll,
            wait: wait::futex,
        });
        travel::inherited();
    }
}
