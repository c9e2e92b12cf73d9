//! Socket options.

use core::time::Duration;

use tcp::{Algorithm, ConnOption, RequestError};

use super::{Attempt, Fd, Role, Sockets};
use crate::script::Errno;
use crate::script::call::OptionValue;
use crate::script::call::constant::*;

impl Sockets {
    /// `setsockopt`
    ///
    /// # Errors
    /// The call's.
    pub fn set_option(
        &mut self,
        fd: Fd,
        level: i32,
        name: i32,
        value: &OptionValue,
    ) -> Attempt<()> {
        let now = self.now;
        let socket = self.socket(fd)?;
        let number = match value {
            OptionValue::Integers(values) => values.first().copied().ok_or(Errno::EINVAL)?,
            OptionValue::Name(name) => {
                let algorithm = algorithm(name).ok_or(Errno::EINVAL)?;
                socket.options.congestion = algorithm;
                return self.change(fd, ConnOption::Congestion(algorithm));
            }
        };
        let flag = number != 0;
        let seconds = u64::try_from(number).map(Duration::from_secs);
        match (level, name) {
            (SOL_SOCKET, SO_KEEPALIVE) => {
                socket.options.keep_alive.enabled = flag;
                self.change(fd, ConnOption::KeepAlive(flag))
            }
            (SOL_SOCKET, SO_LINGER) => {
                let OptionValue::Integers(values) = value else {
                    return Err(Errno::EINVAL.into());
                };
                let seconds = values.get(1).copied().unwrap_or(0);
                let seconds = u64::try_from(seconds).map_err(|_| Errno::EINVAL)?;
                socket.linger = flag.then(|| Duration::from_secs(seconds));
                Ok(())
            }
            (SOL_SOCKET, SO_RCVBUF) => {
                let bytes = u32::try_from(number).map_err(|_| Errno::EINVAL)?;
                socket.options.receive_buffer = bytes;
                if let Role::Connection(connection) = &socket.role {
                    let id = connection.id;
                    self.stack().set_receive_buffer(now, id, bytes);
                    self.settle();
                }
                Ok(())
            }
            (SOL_SOCKET, SO_SNDBUF) => {
                let bytes = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
                // As Linux: twice what was asked for, and not too little.
                socket.send_buffer = (bytes * 2).max(4608);
                Ok(())
            }
            (IPPROTO_TCP, TCP_NODELAY) => {
                socket.options.no_delay = flag;
                self.change(fd, ConnOption::NoDelay(flag))
            }
            (IPPROTO_TCP, TCP_CORK) => self.change(fd, ConnOption::Cork(flag)),
            (IPPROTO_TCP, TCP_QUICKACK) => self.change(fd, ConnOption::QuickAck(flag)),
            (IPPROTO_TCP, TCP_MAXSEG) => {
                let bytes = u16::try_from(number).map_err(|_| Errno::EINVAL)?;
                socket.options.max_segment = Some(bytes);
                self.change(fd, ConnOption::MaxSegment(bytes))
            }
            (IPPROTO_TCP, TCP_KEEPIDLE) => {
                let idle = in_range(number, 32_767)?;
                socket.options.keep_alive.idle = idle;
                self.change(
                    fd,
                    ConnOption::KeepAliveIdle(Duration::from_secs(idle.into())),
                )
            }
            (IPPROTO_TCP, TCP_KEEPINTVL) => {
                let interval = in_range(number, 32_767)?;
                socket.options.keep_alive.interval = interval;
                let interval = Duration::from_secs(interval.into());
                self.change(fd, ConnOption::KeepAliveInterval(interval))
            }
            (IPPROTO_TCP, TCP_KEEPCNT) => {
                let count = in_range(number, 127)? as u8;
                socket.options.keep_alive.count = count;
                self.change(fd, ConnOption::KeepAliveCount(count))
            }
            (IPPROTO_TCP, TCP_USER_TIMEOUT) => {
                let millis = u64::try_from(number).map_err(|_| Errno::EINVAL)?;
                let timeout = Duration::from_millis(millis);
                socket.options.user_timeout = flag.then_some(timeout);
                self.change(fd, ConnOption::UserTimeout(timeout))
            }
            (IPPROTO_TCP, TCP_FASTOPEN) => {
                socket.options.fast_open = u32::try_from(number).map_err(|_| Errno::EINVAL)?;
                let options = socket.options;
                if let Role::Listener(id) = socket.role {
                    self.stack().set_listener_options(id, options);
                }
                Ok(())
            }
            (IPPROTO_TCP, TCP_LINGER2) => {
                if let Ok(seconds) = seconds {
                    socket.options.fin_wait_2_timeout = seconds;
                    self.change(fd, ConnOption::FinWait2Timeout(seconds))?;
                }
                Ok(())
            }
            (IPPROTO_IPV6, IPV6_V6ONLY) => {
                socket.v6_only = flag;
                Ok(())
            }
            (IPPROTO_IP, IP_TOS) | (IPPROTO_IPV6, IPV6_TCLASS) => {
                // The two bits of ECN are TCP's.
                socket.remembered.insert((level, name), number & 0xfc);
                self.classify(fd)
            }
            (SOL_SOCKET, SO_REUSEADDR | SO_REUSEPORT | SO_RCVLOWAT)
            | (IPPROTO_IP, IP_MTU_DISCOVER)
            | (IPPROTO_TCP, TCP_SYNCNT | TCP_DEFER_ACCEPT | TCP_WINDOW_CLAMP) => {
                socket.remembered.insert((level, name), number);
                Ok(())
            }
            _ => Err(Errno::ENOPROTOOPT.into()),
        }
    }

    /// `getsockopt`
    ///
    /// # Errors
    /// The call's.
    pub fn option(&mut self, fd: Fd, level: i32, name: i32) -> Attempt<OptionValue> {
        let now = self.now;
        let socket = self.socket(fd)?;
        let (options, v6) = (socket.options, socket.v6);
        let integer = |number: i32| Ok(OptionValue::Integers(vec![number]));
        match (level, name) {
            (SOL_SOCKET, SO_ERROR) => {
                let error = match &mut socket.role {
                    Role::Connection(connection) => connection.error.take(),
                    _ => None,
                };
                integer(error.map_or(0, |errno| errno.0))
            }
            (SOL_SOCKET, SO_TYPE) => integer(SOCK_STREAM),
            (SOL_SOCKET, SO_PROTOCOL) => integer(IPPROTO_TCP),
            (SOL_SOCKET, SO_DOMAIN) => integer(if v6 { AF_INET6 } else { AF_INET }),
            (SOL_SOCKET, SO_ACCEPTCONN) => {
                integer(i32::from(matches!(socket.role, Role::Listener(_))))
            }
            (SOL_SOCKET, SO_KEEPALIVE) => integer(i32::from(options.keep_alive.enabled)),
            (SOL_SOCKET, SO_LINGER) => {
                let seconds = socket.linger.map_or(0, |linger| linger.as_secs() as i32);
                let on = i32::from(socket.linger.is_some());
                Ok(OptionValue::Integers(vec![on, seconds]))
            }
            (SOL_SOCKET, SO_RCVBUF) => integer(options.receive_buffer as i32),
            (SOL_SOCKET, SO_SNDBUF) => integer(socket.send_buffer as i32),
            (IPPROTO_TCP, TCP_NODELAY) => integer(i32::from(options.no_delay)),
            (IPPROTO_TCP, TCP_KEEPIDLE) => integer(options.keep_alive.idle.into()),
            (IPPROTO_TCP, TCP_KEEPINTVL) => integer(options.keep_alive.interval.into()),
            (IPPROTO_TCP, TCP_KEEPCNT) => integer(options.keep_alive.count.into()),
            (IPPROTO_TCP, TCP_USER_TIMEOUT) => {
                integer(options.user_timeout.map_or(0, |t| t.as_millis() as i32))
            }
            (IPPROTO_TCP, TCP_FASTOPEN) => integer(options.fast_open as i32),
            (IPPROTO_TCP, TCP_CONGESTION) => {
                Ok(OptionValue::Name(options.congestion.name().into()))
            }
            (IPPROTO_TCP, TCP_MAXSEG) => {
                let Role::Connection(connection) = &socket.role else {
                    return integer(options.max_segment.unwrap_or(536).into());
                };
                let id = connection.id;
                let info = self.stack().info(now, id);
                integer(info.map_or(536, |info| info.send_mss.into()))
            }
            (IPPROTO_IPV6, IPV6_V6ONLY) => integer(i32::from(socket.v6_only)),
            _ => match socket.remembered.get(&(level, name)) {
                Some(&number) => integer(number),
                None => Err(Errno::ENOPROTOOPT.into()),
            },
        }
    }

    /// Tells the device of which class the packets of a socket's connection are, if it has one and its
    /// program has chosen a class.
    pub(super) fn classify(&mut self, fd: Fd) -> Attempt<()> {
        let socket = self.socket(fd)?;
        let option = if socket.v6 {
            (IPPROTO_IPV6, IPV6_TCLASS)
        } else {
            (IPPROTO_IP, IP_TOS)
        };
        let chosen = socket.remembered.get(&option).copied();
        if let (Some(class), Role::Connection(connection)) = (chosen, &socket.role) {
            let id = connection.id;
            self.outbox.classify(id, class as u8 >> 2);
        }
        Ok(())
    }

    /// Tells the stack, if there is a connection to tell it of, or a listener whose connections begin
    /// with it.
    fn change(&mut self, fd: Fd, option: ConnOption) -> Attempt<()> {
        let now = self.now;
        let socket = self.socket(fd)?;
        let connection = match &socket.role {
            Role::Fresh => return Ok(()),
            Role::Listener(id) => {
                let (id, options) = (*id, socket.options);
                self.stack().set_listener_options(id, options);
                return Ok(());
            }
            Role::Connection(connection) => connection,
        };
        let (id, request) = (connection.id, tcp::Request::SetOption(option));
        let asked = self.stack().on_request(now, id, request);
        self.settle();
        match asked {
            Err(RequestError::BadOption) => Err(Errno::EINVAL.into()),
            // Of a connection that has ended nobody needs to know.
            _ => Ok(()),
        }
    }
}

fn in_range(number: i32, max: u16) -> Result<u16, Errno> {
    u16::try_from(number)
        .ok()
        .filter(|number| (1..=max).contains(number))
        .ok_or(Errno::EINVAL)
}

/// The congestion control that is called so.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    match name.trim_end_matches('\0') {
        "cubic" => Some(Algorithm::Cubic),
        "reno" => Some(Algorithm::Reno),
        "bbr" => Some(Algorithm::Bbr),
        _ => None,
    }
}
