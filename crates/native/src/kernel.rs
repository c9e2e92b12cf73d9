//! A connection of the kernel's, with what the engine's have besides.
//!
//! How many bytes the peer has acknowledged the kernel tells when it is asked (SIOCOUTQ), and when to
//! ask by timestamps on the socket's error queue (SO_TIMESTAMPING with SOF_TIMESTAMPING_TX_ACK). They
//! are switched on with the first asynchronous send, so that who does not need them does not pay. The
//! kernel drops them while the receive buffer is full, so they are not the only occasion to ask.

mod parts;
mod staged;

use std::io::IoSlice;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use host::{Errno, Readiness, Shutdown};
use nix::sys::socket::{TimestampingFlag, sockopt};
use queue_pair::Area;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
};

use crate::options::Setting;
use crate::sends::Back;
use crate::stage::{Stage, Staged};
use parts::AsBytes;
pub(crate) use staged::SMALL;

/// SOF_TIMESTAMPING_TX_ACK: a timestamp when all of a send is acknowledged.
const TX_ACK: u32 = 1 << 9;

/// SOF_TIMESTAMPING_TX_SCHED: a timestamp when the last of a send leaves the TCP.
const TX_SCHED: u32 = 1 << 8;

/// EPOLLPRI: there are urgent data.
pub(crate) const URGENT: Readiness = Readiness(0x002);

/// The kernel takes so many parts in one call.
const PARTS: usize = 1024;

/// The most that one view shows, in bytes.
const VIEW: usize = 64 * 1024;

/// How long a peer may take nothing of what a closed connection has left, in milliseconds: about as long as the
/// engine's orphans wait.
const LEFT_OVER_MS: u32 = 60_000;

/// So many notifications are taken at a look.
const NOTIFICATIONS: usize = 256;

/// Whether this address is this machine's.
///
/// # Errors
/// `EADDRNOTAVAIL`: it is not. What else may be wrong shows where it is used.
pub(crate) fn can_bind(local: SocketAddr) -> Result<(), Errno> {
    let family = match local {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let mut any_port = local;
    any_port.set_port(0);
    let flags = SocketFlags::CLOEXEC;
    let bound = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
        .and_then(|socket| rustix::net::bind(&socket, &any_port));
    bound.or_else(|errno| match errno {
        Errno::ADDRNOTAVAIL => Err(errno),
        _ => Ok(()),
    })
}

/// Ports below this are not everybody's, whatever the kernel is set to.
const PRIVILEGED: u16 = 1024;

/// A socket that has a port which not everybody may have, if `local` names such a one and the kernel gives it: with it
/// the program shows that it may. Who may not have it hears so where the port is used.
///
/// # Errors
/// `EADDRINUSE`: others have it.
pub(crate) fn right_to(local: SocketAddr) -> Result<Option<Arc<OwnedFd>>, Errno> {
    let port = local.port();
    if port == 0 || port >= *FIRST_OF_EVERYBODY {
        return Ok(None);
    }
    let family = match local {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let bound = rustix::net::socket_with(family, SocketType::STREAM, flags, None).and_then(|it| {
        // As a connection of the kernel's from there: more of them have that port, to other peers.
        rustix::net::sockopt::set_socket_reuseaddr(&it, true)?;
        rustix::net::bind(&it, &local)?;
        Ok(it)
    });
    match bound {
        Ok(socket) => Ok(Some(Arc::new(socket))),
        Err(Errno::ADDRINUSE) => Err(Errno::ADDRINUSE),
        Err(_) => Ok(None),
    }
}

/// The first port that anybody may bind to. It is set when a machine or a container starts.
static FIRST_OF_EVERYBODY: LazyLock<u16> = LazyLock::new(|| {
    let set = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let set = set.ok().and_then(|set| set.trim().parse().ok());
    set.unwrap_or(PRIVILEGED).max(PRIVILEGED)
});

/// A connection of the kernel's, non-blocking.
pub(crate) struct Stream {
    fd: Arc<OwnedFd>,
    /// Bytes that the program has sent since the connection began.
    written: u64,
    /// For which timestamps it was asked.
    asks_for: u32,
    /// The program has ended its direction.
    write_shut: bool,
    /// TCP_CORK is set because more is to follow a file.
    awaits_more: bool,
    /// The room that is lent.
    lent: Weak<Area>,
    /// What was committed and the kernel has not taken yet. While there is some, the socket resets when it is
    /// closed, however that comes about: an end without the last of a stream looks like one with it.
    rest: Vec<u8>,
    /// `rest` is given from here on.
    rest_from: usize,
    /// Whether it resets when it is closed once that has left, as the program or its listener has it.
    resets_on_close: bool,
    /// Where the next send may be staged.
    pub(crate) may_stage: Option<Arc<Stage>>,
    /// What the kernel was not asked to take yet: it leaves with what is sent on others, at the latest when something
    /// else is done here that it is to be before. There is no `rest` then.
    pub(crate) staged: Option<Staged>,
    /// More follows at once what was sent last.
    more_follows: bool,
    /// In which turn of its queue it was told that something has come, until something is sent.
    pub(crate) told_in: Option<NonZeroU32>,
    /// Bytes in views that are not released.
    shown: u64,
    /// A view was refused because of those.
    awaits_release: bool,
    /// All that had come was received by the last call, as far as that can be known.
    is_drained: bool,
    /// It cannot be: the peer has ended its direction, which is told once, or has sent urgent data, at which a
    /// call stops, whatever is behind them.
    stops_short: bool,
    /// What a send met after some of it was taken: the next one is told.
    pub(crate) met: Option<Errno>,
    /// Why the kernel has it, if it was to be the engine's.
    pub(crate) why_not: Option<&'static str>,
    /// It came to a listener that is the engine's, too.
    pub(crate) is_left: bool,
}

impl Stream {
    /// Over a connected socket.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            fd: Arc::new(fd),
            written: 0,
            asks_for: 0,
            write_shut: false,
            awaits_more: false,
            lent: Weak::new(),
            rest: Vec::new(),
            rest_from: 0,
            resets_on_close: false,
            may_stage: None,
            staged: None,
            more_follows: false,
            told_in: None,
            shown: 0,
            awaits_release: false,
            is_drained: false,
            stops_short: false,
            met: None,
            why_not: None,
            is_left: false,
        }
    }

    /// Begins to open a connection.
    pub(crate) fn connect(
        local: Option<SocketAddr>,
        remote: SocketAddr,
        set: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        let family = match remote {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        set(fd.as_fd())?;
        if let Some(local) = local {
            rustix::net::sockopt::set_socket_reuseaddr(&fd, true)?;
            rustix::net::bind(&fd, &local)?;
        }
        match rustix::net::connect(&fd, &remote) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::new(fd)),
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends what was committed or staged before, as far as the kernel takes it.
    ///
    /// # Errors
    /// `EAGAIN`: some of it is left. Otherwise the kernel's.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        self.flush_staged()?;
        if self.rest.is_empty() {
            return Ok(());
        }
        self.send_rest(false)?;
        let _ = Setting::ResetOnClose(self.resets_on_close).on_kernel(self.fd.as_fd());
        Ok(())
    }

    /// Sends the rest.
    fn send_rest(&mut self, more: bool) -> Result<(), Errno> {
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        while self.rest_from < self.rest.len() {
            let rest = &self.rest[self.rest_from..];
            self.rest_from += rustix::net::send(&self.fd, rest, flags)?;
        }
        self.rest.clear();
        self.rest_from = 0;
        Ok(())
    }

    /// From now on something is left: without it the connection does not end as if all had come.
    fn hold(&mut self) {
        let linger = rustix::net::sockopt::socket_linger(&self.fd);
        self.resets_on_close = linger == Ok(Some(Duration::ZERO));
        let _ = Setting::ResetOnClose(true).on_kernel(self.fd.as_fd());
    }

    pub(crate) fn send(&mut self, parts: &[IoSlice<'_>], more: bool) -> Result<usize, Errno> {
        self.send_in_turns(parts, more, |fd, parts, more| {
            let mut flags = SendFlags::NOSIGNAL;
            flags.set(SendFlags::MORE, more);
            match parts {
                [part] => rustix::net::send(fd, part, flags),
                _ => rustix::net::sendmsg(fd, parts, &mut SendAncillaryBuffer::default(), flags),
            }
        })
    }

    pub(crate) fn send_from(&mut self, parts: &[&[AtomicU8]], more: bool) -> Result<usize, Errno> {
        self.send_in_turns(parts, more, |fd, parts, more| {
            queue_pair::send_out(parts, fd, more)
        })
    }

    /// Sends `parts`, as many at a time as the kernel takes.
    fn send_in_turns<T: AsBytes>(
        &mut self,
        parts: &[T],
        more: bool,
        send: impl Fn(&OwnedFd, &[T], bool) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        if let Some(staged) = self.stage(parts, more)? {
            return Ok(staged);
        }
        self.may_send()?;
        let (mut sent, mut turns) = (0, parts.chunks(PARTS).peekable());
        while let Some(turn) = turns.next() {
            let more = more || turns.peek().is_some();
            match send(&self.fd, turn, more) {
                Ok(taken) => {
                    sent += taken;
                    if taken < turn.iter().map(AsBytes::count).sum() {
                        break;
                    }
                }
                Err(errno) if sent == 0 => return Err(errno),
                Err(errno) => {
                    self.met = Some(errno).filter(|_| self.is_over());
                    break;
                }
            }
        }
        self.taken(sent, more);
        Ok(sent)
    }

    pub(crate) fn send_file(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        more: bool,
    ) -> Result<usize, Errno> {
        self.may_send()?;
        // What the program has set, when it opened the connection or on the listener, stays.
        if more && !self.awaits_more && !rustix::net::sockopt::tcp_cork(&self.fd)? {
            // sendfile(2) has no flags.
            rustix::net::sockopt::set_tcp_cork(&self.fd, true)?;
            self.awaits_more = true;
        }
        let sent = crate::quiet::send_file(self.fd.as_fd(), file, offset, len)?;
        self.taken(sent, more);
        Ok(sent)
    }

    /// Whether something can be sent now, as on the engine.
    fn may_send(&mut self) -> Result<(), Errno> {
        if let Some(errno) = self.met.take() {
            return Err(errno);
        }
        if self.is_lent() {
            return Err(match self.is_over() {
                true => self.take_error().unwrap_or(Errno::PIPE),
                false => Errno::BUSY,
            });
        }
        self.flush()
    }

    /// So many bytes were taken. Unless more follows, what waited for them leaves with them.
    fn taken(&mut self, sent: usize, more: bool) {
        self.written += sent as u64;
        self.more_follows = more;
        if self.awaits_more && !more {
            self.awaits_more = false;
            let _ = rustix::net::sockopt::set_tcp_cork(&self.fd, false);
        }
    }

    /// Whether a room of it is lent.
    fn is_lent(&self) -> bool {
        self.lent.strong_count() > 0
    }

    /// Lends a room of `len` bytes.
    ///
    /// # Errors
    /// As for a send.
    pub(crate) fn lend(&mut self, len: usize) -> Result<Arc<Area>, Errno> {
        self.may_send()?;
        let room = Arc::new(Area::private("room", len));
        self.lent = Arc::downgrade(&room);
        Ok(room)
    }

    /// Sends the first `len` bytes of a room of its own, all of them, now or when the socket takes them. The
    /// room is not lent any more.
    ///
    /// # Errors
    /// `EINVAL`: it is another connection's, or shorter. Otherwise the kernel's.
    pub(crate) fn commit(&mut self, room: &Arc<Area>, len: usize, more: bool) -> Result<(), Errno> {
        let is_own = std::ptr::eq(self.lent.as_ptr(), Arc::as_ptr(room));
        if !is_own || len as u64 > room.len() {
            return Err(Errno::INVAL);
        }
        self.lent = Weak::new();
        let bytes = room.slice(0, len).map_err(|_| Errno::FAULT)?;
        let sent = match self.send_from(&[bytes], more) {
            Err(Errno::AGAIN) => 0,
            other => other?,
        };
        if sent == len {
            return Ok(());
        }
        self.written += (len - sent) as u64;
        let from = self.rest.len();
        self.rest.resize(from + len - sent, 0);
        queue_pair::copy_out(&bytes[sent..], &mut self.rest[from..]);
        self.hold();
        Ok(())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EINVAL`: the value cannot be.
    pub(crate) fn set(&mut self, setting: Setting) -> Result<(), Errno> {
        self.leave_first();
        if let Setting::ResetOnClose(on) = setting
            && !self.rest.is_empty()
        {
            self.resets_on_close = on;
            return Ok(());
        }
        setting.on_kernel(self.fd.as_fd())?;
        self.awaits_more &= !matches!(setting, Setting::Cork(_));
        Ok(())
    }

    /// See the stream's.
    pub(crate) fn bound_what_is_left(&self) {
        use rustix::net::sockopt;
        // What the program has chosen holds. A closed window alone would be probed for ever.
        if sockopt::tcp_user_timeout(&self.fd) == Ok(0) {
            let _ = sockopt::set_tcp_user_timeout(&self.fd, LEFT_OVER_MS);
        }
    }

    /// Ends one direction, or both.
    ///
    /// # Errors
    /// `EAGAIN`: what was committed before has not left yet. Otherwise the kernel's.
    pub(crate) fn shutdown(&mut self, how: Shutdown) -> Result<(), Errno> {
        if how != Shutdown::Read {
            self.flush()?;
        }
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        rustix::net::shutdown(&self.fd, how)?;
        self.stops_short |= how != rustix::net::Shutdown::Write;
        self.write_shut |= how != rustix::net::Shutdown::Read;
        Ok(())
    }

    /// Whether the program has ended its direction.
    pub(crate) fn has_shut_writing(&self) -> bool {
        self.write_shut
    }

    /// Whether it has ended, in whatever way. The kernel says so by having no other end for it any more.
    pub(crate) fn is_over(&self) -> bool {
        rustix::net::getpeername(&self.fd).err() == Some(Errno::NOTCONN)
    }

    /// The kernel has told of this.
    pub(crate) fn told(&mut self, ready: Readiness) {
        self.is_drained = false;
        self.stops_short |= ready.intersects(Readiness::RDHUP | Readiness::HUP | URGENT);
    }

    /// Receives what has come. Programs do until `EAGAIN`, and what comes after a call that was given less than it
    /// asked for is told anew: so the next call after that is `EAGAIN`, and the kernel is not asked; but the one
    /// after it asks, for programs that look for what comes by receiving alone.
    pub(crate) fn receive(&mut self, out: &[AtomicU8], peek: bool) -> Result<usize, Errno> {
        if std::mem::take(&mut self.is_drained) && !self.stops_short {
            return Err(Errno::AGAIN);
        }
        let mut flags = RecvFlags::empty();
        flags.set(RecvFlags::PEEK, peek);
        let read = queue_pair::receive_in(out, &self.fd, flags)?;
        self.is_drained = !peek && (1..out.len()).contains(&read);
        Ok(read)
    }

    /// What has come, at most `limit` bytes, for a view; `None` at the end. What is shown takes no more than the
    /// receive buffer: the kernel has given its own room to the peer by then.
    ///
    /// # Errors
    /// `EAGAIN`: there is nothing yet, as for [`receive`](Self::receive), or all that may be shown is.
    pub(crate) fn view(&mut self, limit: usize) -> Result<Option<(Area, usize)>, Errno> {
        if std::mem::take(&mut self.is_drained) && !self.stops_short {
            return Err(Errno::AGAIN);
        }
        let mut room = u64::MAX;
        if self.shown > 0 {
            let most = rustix::net::sockopt::socket_recv_buffer_size(&self.fd)?;
            room = (most as u64).saturating_sub(self.shown);
            self.awaits_release = room == 0;
            if room == 0 {
                return Err(Errno::AGAIN);
            }
        }
        let mut there = self.available();
        if there == 0 {
            // Nothing, the end or an error: none of them needs memory.
            let (read, _) = rustix::net::recv(&self.fd, &mut [0; 1], RecvFlags::PEEK)?;
            if read == 0 {
                return Ok(None);
            }
            there = self.available().max(1);
        }
        let limit = limit.min(VIEW);
        let len = there.min(room).min(limit as u64) as usize;
        let area = Area::private("view", len);
        let to = area.slice(0, len).map_err(|_| Errno::FAULT)?;
        let read = queue_pair::read_in(to, &self.fd, None)?;
        self.is_drained = (1..limit).contains(&read) && (read as u64) < room;
        self.shown += read as u64;
        Ok((read > 0).then_some((area, read)))
    }

    /// So many bytes of a view are released. Whether one that was refused is to be told of.
    pub(crate) fn released(&mut self, bytes: usize) -> bool {
        self.shown -= bytes as u64;
        std::mem::take(&mut self.awaits_release)
    }

    /// Bytes that wait to be received.
    pub(crate) fn available(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.fd).unwrap_or(0)
    }

    /// What ended it, which is thereby taken. While it goes on the kernel has errors, too, that the TCP survives, as
    /// when a router says that there is no way just now: they are gone with the next acknowledgement.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        if !self.is_over() {
            return None;
        }
        rustix::net::sockopt::socket_error(&self.fd).ok()?.err()
    }

    /// Bytes sent since the connection began.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Has the kernel tell of acknowledgements from now on, or of what has left. Called before the bytes
    /// are sent.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn ask_for(&mut self, back: Back) -> Result<(), Errno> {
        let wanted = match back {
            Back::Never => return Ok(()),
            Back::Acknowledged(_) => self.asks_for | TX_ACK,
            Back::Left(_) => self.asks_for | TX_SCHED,
        };
        if wanted == self.asks_for {
            return Ok(());
        }
        let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
            | TimestampingFlag::from_bits_retain(wanted);
        nix::sys::socket::setsockopt(&self.fd, sockopt::Timestamping, &flags)
            .map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
        self.asks_for = wanted;
        Ok(())
    }

    /// How many bytes have left, those that are acknowledged among them.
    pub(crate) fn left(&self) -> u64 {
        let taken = self.given();
        taken.saturating_sub(queue_pair::unsent(&self.fd).unwrap_or(taken))
    }

    /// How many bytes the kernel has taken.
    fn given(&self) -> u64 {
        let staged = self.staged.as_ref().map_or(0, Staged::len);
        self.written - (staged + self.rest.len() - self.rest_from) as u64
    }

    /// Takes out what has told of acknowledgements: it is not needed any more. It would be an error to whoever looks,
    /// and takes the place of what is to be received, until the window is closed by it.
    pub(crate) fn forget_notifications(&self) {
        if self.asks_for == 0 {
            return;
        }
        for _ in 0..NOTIFICATIONS {
            let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
            if rustix::net::recv(&self.fd, &mut [0_u8; 0], flags).is_err() {
                break;
            }
        }
    }

    /// How many bytes the peer has acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.forget_notifications();
        let taken = self.given();
        let waiting = queue_pair::unacknowledged(&self.fd).unwrap_or(taken);
        taken.saturating_sub(waiting)
    }
}

#[cfg(test)]
mod tests;
