//! Making an AF_XDP socket: the options in their order, the rings, and binding it to a queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::ring::{Consumer, Descriptor, Kind, Producer};
use super::umem::{Layout, Umem};
use super::{Bind, Config, OpenError};
use crate::interface::Interface;
use crate::syscalls::set_socket_option;

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17): frames that one system call may transmit.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Bytes in front of a frame that describe it to the kernel (`struct xsk_tx_metadata`).
pub(super) const TX_METADATA_SIZE: usize = 24;

/// A bound socket with its rings and its memory.
///
/// The order of the fields is the order in which they go: the socket before the memory it uses.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) receive: Consumer<Descriptor>,
    pub(super) transmit: Producer<Descriptor>,
    pub(super) umem: Umem,
    /// The kernel takes metadata in front of frames; whether it looks at it is to be
    /// [proven](super::proof).
    pub(super) transmit_metadata: bool,
    pub(super) zero_copy: bool,
    pub(super) scatter_gather: bool,
}

/// All of that, bound to nothing yet.
#[derive(Debug)]
pub(super) struct Unbound {
    fd: OwnedFd,
    fill: Producer<u64>,
    completion: Consumer<u64>,
    receive: Consumer<Descriptor>,
    transmit: Producer<Descriptor>,
    umem: Umem,
    metadata_taken: bool,
}

impl Unbound {
    /// Of a fresh AF_XDP socket.
    ///
    /// # Errors
    /// Why not, and the socket if it is as fresh as before.
    pub(super) fn of(
        fd: OwnedFd,
        interface: &Interface,
        config: &Config,
    ) -> Result<Self, (OpenError, Option<OwnedFd>)> {
        let frame = interface.mtu + wire::ethernet::MAX_HEADER_LEN;
        let layout = Layout::new(
            frame,
            TX_METADATA_SIZE,
            config.receive_frames,
            config.transmit_frames,
        );
        let umem = Umem::new(layout).map_err(|error| OpenError::Memory {
            bytes: layout.size(),
            error,
        });
        let registered = umem.and_then(|umem| {
            let metadata_taken = register(&fd, &umem)?;
            Ok((umem, metadata_taken))
        });
        match registered {
            Ok((umem, metadata_taken)) => {
                Self::with_rings(fd, umem, metadata_taken).map_err(|error| (error, None))
            }
            Err(error) => Err((error, Some(fd))),
        }
    }

    /// Of a socket with which this memory is registered.
    fn with_rings(fd: OwnedFd, umem: Umem, metadata_taken: bool) -> Result<Self, OpenError> {
        let layout = *umem.layout();
        // Twice the chunks: at the end of a batch the kernel shows what it received before it shows
        // what it took from the fill ring. Until then a chunk that is given back stands beside the
        // entry by which it came, and a ring of one entry a chunk would be full.
        let fill_entries = 2 * layout.receive_chunks;
        for (option, size) in [
            (libc::XDP_UMEM_FILL_RING, fill_entries),
            (libc::XDP_UMEM_COMPLETION_RING, layout.transmit_chunks()),
            (libc::XDP_RX_RING, layout.receive_chunks),
            (libc::XDP_TX_RING, layout.transmit_chunks()),
        ] {
            set_option(fd.as_fd(), option, &size).map_err(step("size a ring"))?;
        }
        // Copied frames are charged to the socket: let them all be under way at once. Both of
        // these only make it faster, and older kernels do not know the second.
        let _ = set_send_buffer(fd.as_fd(), 4 * layout.transmit_frames * layout.chunk_size);
        let budget = layout.transmit_chunks();
        let _ = set_option(fd.as_fd(), XDP_MAX_TX_SKB_BUDGET, &budget);

        let offsets: libc::xdp_mmap_offsets =
            get_option(fd.as_fd(), libc::XDP_MMAP_OFFSETS).map_err(step("ask for ring offsets"))?;
        let mut fill = Producer::map(fd.as_fd(), Kind::Fill, fill_entries, &offsets.fr)
            .map_err(step("map the fill ring"))?;
        let completion = Consumer::map(
            fd.as_fd(),
            Kind::Completion,
            layout.transmit_chunks(),
            &offsets.cr,
        )
        .map_err(step("map the completion ring"))?;
        let receive = Consumer::map(
            fd.as_fd(),
            Kind::Receive,
            layout.receive_chunks,
            &offsets.rx,
        )
        .map_err(step("map the receive ring"))?;
        let transmit = Producer::map(
            fd.as_fd(),
            Kind::Transmit,
            layout.transmit_chunks(),
            &offsets.tx,
        )
        .map_err(step("map the transmit ring"))?;

        for chunk in 0..u64::from(layout.receive_chunks) {
            let pushed = fill.push(chunk * u64::from(layout.chunk_size));
            debug_assert!(
                pushed,
                "the fill ring has two entries for every receive chunk"
            );
        }
        fill.publish();
        Ok(Self {
            fd,
            fill,
            completion,
            receive,
            transmit,
            umem,
            metadata_taken,
        })
    }

    /// Binds it to a queue, which is tried so many times if the kernel has not let go of that yet.
    ///
    /// # Errors
    /// Why not, and what can be bound another time.
    pub(super) fn bind(
        self,
        interface: &Interface,
        config: &Config,
        tries: u32,
    ) -> Result<Socket, (OpenError, Box<Self>)> {
        let bound = bind(&self.fd, interface, config, tries).and_then(|scatter_gather| {
            let options: libc::xdp_options = get_option(self.fd.as_fd(), libc::XDP_OPTIONS)
                .map_err(step("ask whether frames are copied"))?;
            Ok((
                options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
                scatter_gather,
            ))
        });
        let (zero_copy, scatter_gather) = match bound {
            Ok(bound) => bound,
            Err(error) => return Err((error, Box::new(self))),
        };
        Ok(Socket {
            fd: self.fd,
            fill: self.fill,
            completion: self.completion,
            receive: self.receive,
            transmit: self.transmit,
            umem: self.umem,
            // Where frames are copied the kernel itself completes checksums, if it looks at the
            // request. A driver without copies might ignore it, and nothing would say so.
            transmit_metadata: self.metadata_taken && !zero_copy,
            zero_copy,
            scatter_gather,
        })
    }
}

impl Socket {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        get_option(self.fd.as_fd(), libc::XDP_STATISTICS)
    }

    /// Makes the kernel look at the transmit ring.
    pub(super) fn kick_transmit(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        let result = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Makes the kernel look at the fill ring.
    pub(super) fn kick_receive(&self) {
        // It answers with an error (EAGAIN, or nothing to read) also when it did what was asked.
        // SAFETY: no memory is passed.
        let _ = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }
}

fn step(doing: &'static str) -> impl Fn(io::Error) -> OpenError {
    move |error| OpenError::Step { doing, error }
}

/// An AF_XDP socket, bound to nothing. Needs CAP_NET_RAW.
///
/// # Errors
/// [`OpenError`], which says what to do.
pub fn new_socket() -> Result<OwnedFd, OpenError> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EPERM) => OpenError::NotPermitted,
            Some(libc::EAFNOSUPPORT) => OpenError::NoKernelSupport,
            _ => step("make an AF_XDP socket")(error),
        });
    }
    // SAFETY: a descriptor that was just made and that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Registers the UMEM; returns whether the kernel takes metadata in front of frames.
fn register(fd: &OwnedFd, umem: &Umem) -> Result<bool, OpenError> {
    let layout = umem.layout();
    let attempt = |metadata: bool| {
        let registration = libc::xdp_umem_reg {
            addr: umem.base_address(),
            len: layout.size() as u64,
            chunk_size: layout.chunk_size,
            headroom: 0,
            flags: if metadata {
                libc::XDP_UMEM_TX_METADATA_LEN
            } else {
                0
            },
            tx_metadata_len: if metadata { TX_METADATA_SIZE as u32 } else { 0 },
        };
        set_option(fd.as_fd(), libc::XDP_UMEM_REG, &registration).map(|()| metadata)
    };
    // Once there is metadata, the kernel wants room for it in front of every buffer, also of those
    // that continue a frame. Ours follow one another without a gap.
    let result = match attempt(layout.chunks_per_frame == 1) {
        // Before Linux 6.11 the flag, before 6.8 the length is unknown.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => attempt(false),
        other => other,
    };
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::EPERM) => OpenError::Locked {
            bytes: layout.size(),
        },
        _ => OpenError::Memory {
            bytes: layout.size(),
            error,
        },
    })
}

/// How often a queue that the kernel has not let go of yet is tried by who may wait, and the pause between: a second
/// in all.
pub(super) const RELEASE_TRIES: u32 = 100;
const RELEASE_TRY: Duration = Duration::from_millis(10);

/// Binds the socket; returns whether it takes frames in several buffers.
fn bind(
    fd: &OwnedFd,
    interface: &Interface,
    config: &Config,
    tries: u32,
) -> Result<bool, OpenError> {
    let mode = match config.bind {
        Bind::Auto => 0,
        Bind::Copy => libc::XDP_COPY,
        Bind::ZeroCopy => libc::XDP_ZEROCOPY,
    };
    let once = |flags: u16| {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface.index,
            sxdp_queue_id: config.queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: the address is a sockaddr_xdp of the length given, alive during the call.
        let result = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // The kernel lets go of a queue a moment after its owner was killed: who is restarted at once
    // finds it busy with nobody.
    // Tries are counted and not time: a machine that stands still lets go of nothing meanwhile.
    let attempt = |flags: u16| {
        for _ in 1..tries {
            match once(flags) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(RELEASE_TRY);
                }
                result => return result,
            }
        }
        once(flags)
    };
    let plain = mode | libc::XDP_USE_NEED_WAKEUP;
    let result = match attempt(plain | libc::XDP_USE_SG) {
        // Frames in several buffers came with Linux 6.6, and not to every driver.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
            attempt(plain).map(|()| false)
        }
        other => other.map(|()| true),
    };
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => OpenError::QueueBusy {
            interface: interface.name.clone(),
            queue: config.queue,
        },
        Some(libc::EOPNOTSUPP) if config.bind == Bind::ZeroCopy => OpenError::NoZeroCopy {
            interface: interface.name.clone(),
            driver: interface.driver.clone(),
        },
        Some(libc::ENETDOWN) => OpenError::Down(interface.name.clone()),
        _ => step("bind the AF_XDP socket to the queue")(error),
    })
}

fn set_option<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    set_socket_option(fd, libc::SOL_XDP, option, value)
}

fn set_send_buffer(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    // The kernel doubles what it is told.
    let bytes = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    set_socket_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
        .or_else(|_| set_socket_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
}

/// Structures of integers that the kernel fills in; a kernel older than the structure fills less.
trait Answer {}
impl Answer for libc::xdp_mmap_offsets {}
impl Answer for libc::xdp_options {}
impl Answer for libc::xdp_statistics {}

fn get_option<T: Answer>(fd: BorrowedFd<'_>, option: libc::c_int) -> io::Result<T> {
    // SAFETY: the implementors of Answer are integers only, for which zeros are valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a value that is ours alone.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_with_which_no_memory_is_registered_is_given_back() {
        let interface = Interface {
            name: "none".to_owned(),
            index: 0,
            mac: [0; 6],
            mtu: 1500,
            driver: String::new(),
            receive_queues: 1,
        };
        let config = Config {
            receive_frames: 2,
            transmit_frames: 2,
            ..Config::default()
        };
        // It takes none.
        let other = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let fd = OwnedFd::from(other);
        let number = fd.as_raw_fd();
        let made = Unbound::of(fd, &interface, &config);
        let (_, unused) = made.expect_err("it is no AF_XDP socket");
        assert_eq!(unused.map(|fd| fd.as_raw_fd()), Some(number));
    }
}
