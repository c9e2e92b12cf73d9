//! What the calls do, by what they are about. The names by which programs make them are in
//! [`exports`](crate::exports).
//!
//! - Sockets: [`socket`], [`connect`] and [`fast_open`], [`listener`], [`accept`] and [`blocking`]
//! - Connections: [`stream`] reads, writes, and answers for options and addresses; [`control`] is fcntl and
//!   ioctl; [`stdio`] has libc's files on them
//! - Waiting for several: [`epoll`], [`poll`], [`select`]
//! - Processes: [`fork`] and [`vfork`]; [`exec`], [`spawn`] and [`enter`] start programs, with what is [`departing`]; by [`travel`]
//!   sockets go to others
//! - Signals and threads: [`actions`] is sigaction, [`cancel`] pthread_cancel
//! - [`io_uring`], which is refused

pub mod accept;
pub mod actions;
pub mod blocking;
pub mod cancel;
pub mod connect;
pub mod control;
pub mod departing;
pub mod enter;
pub mod epoll;
pub mod exec;
pub mod fast_open;
pub mod fork;
pub mod io_uring;
pub mod listener;
pub mod poll;
pub mod select;
pub mod socket;
pub mod spawn;
pub mod stdio;
pub mod stream;
pub mod travel;
pub mod vfork;
