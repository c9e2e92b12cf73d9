//! The kernel and libc, as the rest needs them. Nothing here knows of the engine.
//!
//! - [`raw`][]: system calls, and `errno`
//! - [`nap`][]: those in which a thread sleeps
//! - [`next`][]: libc's functions behind names of ours
//! - [`buffers`], [`address`], [`option`], [`deadline`]: what calls are given
//! - [`filter`][]: whether calls are filtered
//! - [`scratch`][]: what the kernel makes of an option
//! - [`epoll`][]: its sets
//! - [`lock`][]: locks

pub mod address;
pub mod buffers;
pub mod deadline;
pub mod epoll;
pub mod filter;
pub mod lock;
pub mod nap;
pub mod next;
pub mod option;
pub mod raw;
pub mod scratch;
