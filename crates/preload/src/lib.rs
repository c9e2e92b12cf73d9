//! The interposed socket calls that let an unmodified program run on the engine.
//!
//! Loaded ahead of libc (`LD_PRELOAD`), this shared object takes the place of the calls that have to
//! do with descriptors. A call goes through three layers:
//!
//! 1. `exports`: the C names. Is the descriptor ours ([`table`])? If not, the system call, made at
//!    once, with no lock and no allocation.
//! 2. What a descriptor of ours stands for ([`description`]): a TCP socket ([`tcp`](objects::tcp)), which `connect`
//!    ([`connect`]) and `listen` ([`listener`]) make a connection ([`stream`]) or a listener of the
//!    engine's, or an epoll set ([`epoll`]) with such members. Here is what the kernel does around a
//!    protocol: waiting, flags, time limits, signals, errno.
//! 3. `host`: the engine's sockets themselves.
//!
//! No call by name leaves this library for the kernel: those names are its own. What Rust's
//! standard library and `rustix` do on our behalf comes back through `exports` or goes by number,
//! and finds descriptors that are not in the table. How it all starts is listed in [`start`].

mod accept;
mod actions;
mod address;
mod blocking;
mod buffers;
mod cancel;
mod connect;
mod control;
mod deadline;
mod description;
mod due;
mod early;
mod enter;
mod epoll;
mod exec;
mod exports;
mod fast_open;
mod fork;
mod forks;
mod handlers;
mod inside;
mod io_uring;
mod kernel_epoll;
mod listener;
mod lock;
mod nap;
mod next;
mod numbers;
mod objects;
mod option_value;
mod placeholder;
mod poll;
mod pool;
mod raw;
mod report;
mod scratch;
mod select;
mod session;
mod settings;
mod signals;
mod socket;
mod spawn;
mod special;
mod standard;
mod start;
mod stdio;
mod stream;
mod table;
mod travel;
mod wait;
