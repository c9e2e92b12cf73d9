//! What can be set on a connection, in the units of the kernel's options.

use std::time::Duration;

use host::{Errno, OptionKind};
use rustix::fd::BorrowedFd;
use rustix::net::sockopt;

/// An option and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// TCP_NODELAY: send small segments at once.
    NoDelay(bool),
    /// TCP_CORK: send full segments only.
    Cork(bool),
    /// TCP_QUICKACK: acknowledge at once.
    QuickAck(bool),
    /// SO_KEEPALIVE: ask whether a silent peer is there.
    KeepAlive(bool),
    /// TCP_KEEPIDLE: after so many seconds of silence.
    KeepIdle(u32),
    /// TCP_KEEPINTVL: every so many seconds.
    KeepInterval(u32),
    /// TCP_KEEPCNT: so many times.
    KeepCount(u32),
    /// TCP_USER_TIMEOUT: milliseconds that data may stay unacknowledged, 0 for the default.
    UserTimeout(u32),
    /// Bytes that may be sent and not acknowledged.
    SendBuffer(u32),
    /// Bytes that may arrive and not be received.
    ReceiveBuffer(u32),
    /// SO_LINGER with no time: closing resets the connection.
    ResetOnClose(bool),
    /// Of a listener: how many connections the engine may hand over before one of them is accepted. What
    /// is handed over costs no question when it is accepted; no other process has it meanwhile. It is at
    /// most the backlog, which is all that the kernel knows.
    EagerAccept(u32),
    /// A [posted](crate::Queue::post) buffer is told of when so many bytes more have come there. 0, the
    /// default, follows the load: what has come between two looks is told of at once.
    ReceiveUnit(u32),
}

/// Sets it on a connection of the engine's, or on what one will be made with.
pub(crate) trait Engine {
    fn option(&mut self, option: OptionKind, value: u32) -> Result<(), Errno>;
    fn send_buffer(&mut self, bytes: u64);
}

impl Engine for &host::Socket {
    fn option(&mut self, option: OptionKind, value: u32) -> Result<(), Errno> {
        self.set_option(option, value)
    }
    fn send_buffer(&mut self, bytes: u64) {
        self.set_send_buffer(bytes);
    }
}

impl Engine for &mut host::ConnectOptions {
    fn option(&mut self, option: OptionKind, value: u32) -> Result<(), Errno> {
        self.set_option(option, value)
    }
    fn send_buffer(&mut self, bytes: u64) {
        self.set_send_buffer(bytes);
    }
}

impl Engine for &host::Listener {
    fn option(&mut self, option: OptionKind, value: u32) -> Result<(), Errno> {
        self.set_option(option, value)
    }
    fn send_buffer(&mut self, bytes: u64) {
        self.set_send_buffer(bytes);
    }
}

impl Setting {
    /// For what a listener accepts from now on, by engine or kernel.
    pub(crate) fn on_listener(self, listener: &host::Listener) -> Result<(), Errno> {
        if let Setting::EagerAccept(connections) = self {
            if connections == 0 {
                return Err(Errno::INVAL);
            }
            listener.set_window(connections);
            return Ok(());
        }
        self.on_engine(listener)?;
        self.on_kernel(listener.kernel_socket())
    }

    pub(crate) fn on_engine(self, mut to: impl Engine) -> Result<(), Errno> {
        let (option, value) = match self {
            Setting::NoDelay(on) => (OptionKind::NoDelay, on.into()),
            Setting::Cork(on) => (OptionKind::Cork, on.into()),
            Setting::QuickAck(on) => (OptionKind::QuickAck, on.into()),
            Setting::KeepAlive(on) => (OptionKind::KeepAlive, on.into()),
            Setting::KeepIdle(seconds) => (OptionKind::KeepIdle, seconds),
            Setting::KeepInterval(seconds) => (OptionKind::KeepInterval, seconds),
            Setting::KeepCount(probes) => (OptionKind::KeepCount, probes),
            Setting::UserTimeout(milliseconds) => (OptionKind::UserTimeout, milliseconds),
            Setting::ReceiveBuffer(bytes) => (OptionKind::ReceiveBuffer, bytes),
            Setting::ResetOnClose(on) => (OptionKind::Linger, on.into()),
            Setting::SendBuffer(bytes) => {
                to.send_buffer(bytes.into());
                return Ok(());
            }
            Setting::EagerAccept(_) => return Err(Errno::INVAL),
            // The queue's own.
            Setting::ReceiveUnit(_) => return Ok(()),
        };
        to.option(option, value)
    }

    pub(crate) fn on_kernel(self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        match self {
            Setting::NoDelay(on) => sockopt::set_tcp_nodelay(fd, on),
            Setting::Cork(on) => sockopt::set_tcp_cork(fd, on),
            Setting::QuickAck(on) => sockopt::set_tcp_quickack(fd, on),
            Setting::KeepAlive(on) => sockopt::set_socket_keepalive(fd, on),
            Setting::KeepIdle(idle) => sockopt::set_tcp_keepidle(fd, seconds(idle)),
            Setting::KeepInterval(every) => sockopt::set_tcp_keepintvl(fd, seconds(every)),
            Setting::KeepCount(probes) => sockopt::set_tcp_keepcnt(fd, probes),
            Setting::UserTimeout(milliseconds) => sockopt::set_tcp_user_timeout(fd, milliseconds),
            // The kernel doubles what it is told, for its own books.
            Setting::SendBuffer(bytes) => {
                sockopt::set_socket_send_buffer_size(fd, bytes as usize / 2)
            }
            Setting::ReceiveBuffer(bytes) => {
                sockopt::set_socket_recv_buffer_size(fd, bytes as usize / 2)
            }
            Setting::EagerAccept(_) => Err(Errno::INVAL),
            Setting::ReceiveUnit(_) => Ok(()),
            Setting::ResetOnClose(on) => {
                sockopt::set_socket_linger(fd, on.then_some(Duration::ZERO))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it was told.
    #[derive(Default)]
    struct Told(Vec<(OptionKind, u32)>, Option<u64>);

    impl Engine for &mut Told {
        fn option(&mut self, option: OptionKind, value: u32) -> Result<(), Errno> {
            self.0.push((option, value));
            Ok(())
        }
        fn send_buffer(&mut self, bytes: u64) {
            self.1 = Some(bytes);
        }
    }

    /// What they are at the kernel its sockets say: `options.c` of the C interface.
    #[test]
    fn the_engine_is_told_of_the_option_that_was_set() {
        let cases = [
            (Setting::NoDelay(true), OptionKind::NoDelay, 1),
            (Setting::NoDelay(false), OptionKind::NoDelay, 0),
            (Setting::Cork(true), OptionKind::Cork, 1),
            (Setting::QuickAck(true), OptionKind::QuickAck, 1),
            (Setting::KeepAlive(true), OptionKind::KeepAlive, 1),
            (Setting::KeepIdle(5), OptionKind::KeepIdle, 5),
            (Setting::KeepInterval(6), OptionKind::KeepInterval, 6),
            (Setting::KeepCount(7), OptionKind::KeepCount, 7),
            (Setting::UserTimeout(8), OptionKind::UserTimeout, 8),
            (Setting::ReceiveBuffer(9), OptionKind::ReceiveBuffer, 9),
            // The engine's is the seconds and one more, or none.
            (Setting::ResetOnClose(true), OptionKind::Linger, 1),
            (Setting::ResetOnClose(false), OptionKind::Linger, 0),
        ];
        for (setting, option, value) in cases {
            let mut told = Told::default();
            assert_eq!(setting.on_engine(&mut told), Ok(()));
            assert_eq!(
                (told.0, told.1),
                (vec![(option, value)], None),
                "{setting:?}"
            );
        }
        let mut told = Told::default();
        assert_eq!(Setting::SendBuffer(10).on_engine(&mut told), Ok(()));
        assert_eq!((told.0, told.1), (vec![], Some(10)));
    }
}
