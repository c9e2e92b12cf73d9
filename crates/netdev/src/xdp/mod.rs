//! AF_XDP: frames between a queue of a driver and memory of this process.
//!
//! A socket has a piece of memory (`umem`) and four rings (`ring`) on which chunks of it travel
//! between this process and the kernel: empty ones go in through the *fill* ring and come back
//! with a frame through the *receive* ring; written ones go in through the *transmit* ring and
//! come back through the *completion* ring. What arrives at all is what the
//! [steering](crate::steering) program redirects.

mod device;
mod proof;
mod queue;
mod ring;
mod socket;
mod stock;
mod umem;

use std::io;

pub use device::XdpDevice;
pub use socket::new_socket;
pub use stock::Stock;

use crate::Offloads;

/// How the socket shares frames with the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bind {
    /// Without copies where the driver can, with copies elsewhere.
    #[default]
    Auto,
    /// With copies.
    Copy,
    /// Without copies, or not at all.
    ZeroCopy,
}

/// What to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The first receive queue, from 0.
    pub queue: u32,
    /// Chunks for received frames of each queue, rounded up to a power of two. A burst longer than this, while
    /// nobody calls [`receive`](crate::Device::receive), is lost and counted.
    pub receive_frames: u32,
    /// Frames that can be under way out at once, rounded up to a power of two.
    pub transmit_frames: u32,
    /// Whether frames are copied.
    pub bind: Bind,
    /// What to switch on, where it is possible.
    pub offloads: Offloads,
}

/// Most frames, in each direction, that can be configured.
pub const MAX_FRAMES: u32 = 1 << 16;

impl Default for Config {
    fn default() -> Self {
        Self {
            queue: 0,
            receive_frames: 4096,
            transmit_frames: 2048,
            bind: Bind::Auto,
            offloads: Offloads::ALL,
        }
    }
}

/// Why a device could not be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel has no AF_XDP.
    #[error("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)")]
    NoKernelSupport,
    /// Not allowed.
    #[error("not permitted to open an AF_XDP socket: run as root, or grant CAP_NET_RAW")]
    NotPermitted,
    /// The sockets that were made for it are used up, and this process may make none.
    #[error(
        "there is no socket left for it: whoever makes them has not made others yet, or is gone"
    )]
    NoneLeft,
    /// The queue does not exist.
    #[error("{interface} has no receive queue {queue}: it has {queues}, numbered from 0")]
    NoSuchQueue {
        /// The interface.
        interface: String,
        /// What was asked for.
        queue: u32,
        /// How many there are.
        queues: u32,
    },
    /// Somebody else has the queue.
    #[error(
        "another AF_XDP socket is bound to queue {queue} of {interface}: stop its owner, or use another queue"
    )]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// The driver copies.
    #[error("{interface} (driver {driver}) cannot do AF_XDP without copies: leave it to choose")]
    NoZeroCopy {
        /// The interface.
        interface: String,
        /// Its driver.
        driver: String,
    },
    /// The interface is down.
    #[error("{0} is down: ip link set {0} up")]
    Down(String),
    /// A limit is out of range.
    #[error("{0} frames: must be from 1 to {MAX_FRAMES}")]
    Frames(u32),
    /// The limit on locked memory.
    #[error(
        "{} KiB of packet memory exceed the limit on locked memory: run as root, grant CAP_IPC_LOCK, \
         raise it (ulimit -l, LimitMEMLOCK=), or configure fewer frames", .bytes / 1024
    )]
    Locked {
        /// How much was asked for.
        bytes: usize,
    },
    /// No memory.
    #[error("cannot get {} KiB of packet memory: {error}", .bytes / 1024)]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// What the kernel said.
        error: io::Error,
    },
    /// Something else.
    #[error("cannot {doing}: {error}")]
    Step {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}
