//! packetdrill's shared-object interface (`--so_filename`, `--so_flags`) over outboard's TCP, so that
//! the public suites of Linux, FreeBSD and gVisor can be run against it. For tests only.
//!
//! The runner calls what [`packetdrill_interface_init`] hands it, packets are raw IP datagrams, and
//! the clock is virtual: it moves only when the runner sleeps or waits for a packet. A call that
//! blocks comes on a second thread, which really sleeps here, because the runner looks in /proc
//! whether it does.
//!
//! | file | what |
//! | --- | --- |
//! | `interface` | the C structure, and the only `unsafe` code |
//! | `host` | the sockets, the clock, and who waits for them |
//! | `numbers` | real descriptors for the runner, and what they stand for |
//! | `epoll` | who is interested in which sockets |
//! | `pipe` | pipes, for splice |
//! | `flags` | `--so_flags` |

mod epoll;
mod flags;
mod host;
mod interface;
mod numbers;
mod pipe;

pub use interface::{Interface, packetdrill_interface_init};
