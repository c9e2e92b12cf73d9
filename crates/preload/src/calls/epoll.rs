//! Epoll sets with members of both kinds.
//!
//! The program's epoll descriptor stays a real one. What the kernel knows is registered there as
//! always; connections of the engine are in a ready set of `host` beside it. `epoll_wait` reports
//! from both ([`wait()`]).
//!
//! A listener is in both: the kernel's socket for the clients that the kernel serves, and the ready
//! set for those of the engine. A TCP socket that has not yet connected or listened is the
//! kernel's, and noted, so that it can move.
//!
//! After a fork several processes have a set: see [`family`].

mod control;
pub mod family;
mod inherited;
mod leaving;
mod opening;
mod wait;

pub use control::{NO_ROOM, Quiet, become_engines, control, made, make_room, move_back, quiet};
pub use inherited::{look, look_blindly};
pub use leaving::{note, show, unshow};
pub use opening::{all_open, opens_number};
pub use wait::wait;
