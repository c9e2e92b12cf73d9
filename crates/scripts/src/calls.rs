//! System calls, made by a thread of their own, because they may block.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use netdev::syscalls::{set_socket_option_bytes, socket_option_bytes};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fs::OFlags;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, ipproto,
};
use sim::script::call::{Also, Call, OptionValue, Outcome, constant};
use sim::script::{Errno, Info, Version, place, tcp_info};

/// What comes of a call.
type Result<T> = std::result::Result<T, rustix::io::Errno>;

/// The thread that makes the calls, and what both sides of it share.
pub(crate) struct Caller {
    calls: Sender<(Call, Vec<u8>)>,
    outcomes: Receiver<(Instant, Outcome)>,
    bell: Arc<OwnedFd>,
    table: Table,
    congestion: Arc<Mutex<String>>,
}

/// The descriptors that calls have opened, by number. One that is closed while a call uses it goes
/// when the call returns.
type Table = Arc<Mutex<HashMap<i32, Arc<OwnedFd>>>>;

impl Caller {
    /// Starts the thread, in the network of the calling one.
    pub(crate) fn start(version: Version) -> std::io::Result<Caller> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let table = Table::default();
        let (calls, to_make) = mpsc::channel::<(Call, Vec<u8>)>();
        let (made, outcomes) = mpsc::channel();
        let congestion = Arc::new(Mutex::new("cubic".to_owned()));
        let kernel = Kernel {
            version,
            table: table.clone(),
            congestion: congestion.clone(),
        };
        let ring = bell.clone();
        // It ends when there are no more calls to come; one that blocks for ever is left behind.
        std::thread::Builder::new()
            .name("calls".into())
            .spawn(move || {
                for (call, data) in to_make {
                    let outcome = kernel
                        .make(&call, &data)
                        .unwrap_or_else(|error| Outcome::of(Err(Errno(error.raw_os_error()))));
                    if made.send((Instant::now(), outcome)).is_err() {
                        return;
                    }
                    // It cannot be full.
                    let _ = rustix::io::write(&*ring, &1_u64.to_ne_bytes());
                }
            })?;
        Ok(Caller {
            calls,
            outcomes,
            bell,
            table,
            congestion,
        })
    }

    /// What sockets opened from now on begin with. Linux lets only the first namespace choose among
    /// all there are for a whole namespace.
    pub(crate) fn set_congestion_control(&self, name: &str) {
        let mut congestion = self
            .congestion
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        name.clone_into(&mut congestion);
    }

    /// Readable when a call has returned.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(crate) fn make(&self, call: Call, data: Vec<u8>) -> std::result::Result<(), String> {
        self.calls
            .send((call, data))
            .map_err(|_| "the thread that makes calls has gone".into())
    }

    /// What the last call came to, if it has returned.
    pub(crate) fn take(&self) -> Option<(Instant, Outcome)> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.bell, &mut count);
        self.outcomes.try_recv().ok()
    }

    pub(crate) fn info(&self, fd: i32) -> std::result::Result<Info, String> {
        let fd = find(&self.table, fd).map_err(|error| error.to_string())?;
        let mut bytes = [0; 512];
        let len = socket_option_bytes(&fd, constant::IPPROTO_TCP, constant::TCP_INFO, &mut bytes)
            .map_err(|error| format!("TCP_INFO: {error}"))?;
        Ok(tcp_info::decode(&bytes[..len]))
    }
}

fn find(table: &Table, fd: i32) -> Result<Arc<OwnedFd>> {
    let table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.get(&fd).cloned().ok_or(rustix::io::Errno::BADF)
}

/// Makes the calls.
struct Kernel {
    version: Version,
    table: Table,
    congestion: Arc<Mutex<String>>,
}

impl Kernel {
    fn add(&self, fd: OwnedFd) -> Outcome {
        let number = fd.as_raw_fd();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.insert(number, Arc::new(fd));
        Outcome::of(Ok(number.into()))
    }

    fn fd(&self, fd: i32) -> Result<Arc<OwnedFd>> {
        find(&self.table, fd)
    }

    fn make(&self, call: &Call, data: &[u8]) -> Result<Outcome> {
        let nothing = Outcome::of(Ok(0));
        match call {
            Call::Socket { non_blocking } => {
                let family = match self.version {
                    Version::V4 => AddressFamily::INET,
                    Version::V6 => AddressFamily::INET6,
                };
                let mut flags = SocketFlags::CLOEXEC;
                flags.set(SocketFlags::NONBLOCK, *non_blocking);
                let tcp = Some(ipproto::TCP);
                let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, tcp)?;
                let congestion = self
                    .congestion
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let (level, name) = (constant::IPPROTO_TCP, constant::TCP_CONGESTION);
                set_socket_option_bytes(&fd, level, name, congestion.as_bytes()).map_err(errno)?;
                Ok(self.add(fd))
            }
            Call::Bind { fd, address } => {
                let address = place::listening(self.version, address.map(|a| a.port));
                rustix::net::bind(self.fd(*fd)?, &address).map(|()| nothing)
            }
            Call::Listen { fd, backlog } => {
                rustix::net::listen(self.fd(*fd)?, *backlog).map(|()| nothing)
            }
            Call::Accept { fd } => rustix::net::accept(self.fd(*fd)?).map(|fd| self.add(fd)),
            Call::Connect { fd, address } => {
                let address = place::service(self.version, address.map(|a| a.port));
                rustix::net::connect(self.fd(*fd)?, &address).map(|()| nothing)
            }
            Call::Receive { fd, count, flags } => {
                let mut bytes = vec![0; *count];
                let fd = self.fd(*fd)?;
                let len = if *flags == 0 {
                    rustix::io::read(fd, &mut bytes)?
                } else {
                    let flags = RecvFlags::from_bits_retain(*flags as u32);
                    rustix::net::recv(fd, &mut bytes, flags)?.0
                };
                bytes.truncate(len);
                Ok(Outcome {
                    bytes,
                    ..Outcome::of(Ok(len as i64))
                })
            }
            Call::Send { fd, flags, .. } => {
                let flags = SendFlags::from_bits_retain(*flags as u32) | SendFlags::NOSIGNAL;
                let sent = rustix::net::send(self.fd(*fd)?, data, flags)?;
                Ok(Outcome::of(Ok(sent as i64)))
            }
            Call::Close { fd } => {
                let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
                let fd = table.remove(fd).ok_or(rustix::io::Errno::BADF)?;
                drop(fd);
                Ok(nothing)
            }
            Call::Shutdown { fd, how } => {
                let how = match *how {
                    constant::SHUT_RD => Shutdown::Read,
                    constant::SHUT_WR => Shutdown::Write,
                    constant::SHUT_RDWR => Shutdown::Both,
                    _ => return Err(rustix::io::Errno::INVAL),
                };
                rustix::net::shutdown(self.fd(*fd)?, how).map(|()| nothing)
            }
            Call::SetOption {
                fd,
                level,
                name,
                value,
            } => {
                let bytes: Vec<u8> = match value {
                    OptionValue::Integers(numbers) => {
                        numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
                    }
                    OptionValue::Name(name) => name.clone().into_bytes(),
                };
                set_socket_option_bytes(self.fd(*fd)?, *level, *name, &bytes).map_err(errno)?;
                Ok(nothing)
            }
            Call::GetOption { fd, level, name } => {
                let mut bytes = [0; 64];
                let len =
                    socket_option_bytes(self.fd(*fd)?, *level, *name, &mut bytes).map_err(errno)?;
                Ok(Outcome {
                    also: Also::Option(option(*level, *name, &bytes[..len])),
                    ..nothing
                })
            }
            Call::Poll { fds, timeout } => self.poll(fds, *timeout),
            Call::Control {
                fd,
                command,
                argument,
            } => {
                let fd = self.fd(*fd)?;
                match *command {
                    constant::F_GETFL => {
                        let flags = rustix::fs::fcntl_getfl(fd)?;
                        Ok(Outcome::of(Ok(flags.bits().into())))
                    }
                    constant::F_SETFL => {
                        let flags = OFlags::from_bits_retain(*argument as u32);
                        rustix::fs::fcntl_setfl(fd, flags).map(|()| nothing)
                    }
                    _ => Err(rustix::io::Errno::INVAL),
                }
            }
        }
    }

    fn poll(&self, fds: &[(i32, i16)], timeout: Option<std::time::Duration>) -> Result<Outcome> {
        let held = fds
            .iter()
            .map(|(fd, _)| self.fd(*fd))
            .collect::<Result<Vec<_>>>()?;
        let mut asked: Vec<PollFd<'_>> = held
            .iter()
            .zip(fds)
            .map(|(fd, (_, events))| {
                PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::from_bits_retain(*events as u16))
            })
            .collect();
        let timeout = timeout.map(|span| Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: span.subsec_nanos().into(),
        });
        let ready = rustix::event::poll(&mut asked, timeout.as_ref())?;
        let found = asked.iter().map(|fd| fd.revents().bits() as i16).collect();
        Ok(Outcome {
            also: Also::Events(found),
            ..Outcome::of(Ok(ready as i64))
        })
    }
}

/// The value of an option: a name where it is one, integers otherwise.
fn option(level: i32, name: i32, bytes: &[u8]) -> OptionValue {
    if (level, name) == (constant::IPPROTO_TCP, constant::TCP_CONGESTION) {
        let text = String::from_utf8_lossy(bytes);
        return OptionValue::Name(text.trim_end_matches('\0').to_owned());
    }
    let integers = bytes
        .chunks_exact(4)
        .map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    OptionValue::Integers(integers.collect())
}

fn errno(error: std::io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
}
