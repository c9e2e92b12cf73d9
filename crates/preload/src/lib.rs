//! The interposed socket calls that let an unmodified program run on the engine.
//!
//! Loaded ahead of libc (`LD_PRELOAD`), this shared object takes the place of the calls that have to
//! do with descriptors. The modules stand above each other, and none imports from one above it:
//!
//! 1. [`exports`]: the C names. Is the descriptor ours ([`numbers::table`])? If not, the system call, made at
//!    once, with no lock and no allocation.
//! 2. [`calls`]: what a call does: `connect` ([`calls::connect`]) and `listen` ([`calls::listener`]), which
//!    make a TCP socket a connection or a listener of the engine's; reading, writing and options
//!    ([`calls::stream`]); sets and polling ([`calls::epoll`], [`calls::poll`]); fork, exec and what travels.
//!    Here is what the kernel does around a protocol: waiting, flags, time limits, signals, errno.
//! 3. [`numbers`]: what number stands for what.
//! 4. [`objects`]: what numbers of ours stand for: a TCP socket ([`objects::tcp`]), which becomes a connection
//!    ([`objects::stream`]) or a listener ([`objects::listening`]), or an epoll set ([`objects::set`]).
//! 5. [`engine`]: settings, the session with the engine, what is said to it, and sleeping. Below is `host`:
//!    the engine's sockets themselves.
//! 6. [`thread`]: signals, and the locks of this library.
//! 7. [`kernel`]: system calls, and what they take.
//!
//! Of what all of it is made stands in its file ([`made_of`]), for who starts programs with it.
//!
//! No call by name leaves this library for the kernel: those names are its own. What Rust's
//! standard library and `rustix` do on our behalf comes back through `exports` or goes by number,
//! and finds descriptors that are not in the table. How it all starts is listed in [`start`].

mod calls;
mod engine;
mod exports;
mod kernel;
mod made_of;
mod numbers;
mod objects;
mod start;
mod thread;
