//! One connection of the load client: at most one request at a time.

use anyhow::{Context, Result, bail};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, sockopt,
};
use std::net::SocketAddr;
use std::time::Instant;

/// The longest head of a response.
const MAX_HEAD: usize = 16 * 1024;

/// What became of a look at a connection.
#[derive(Default)]
pub(super) struct Progress {
    /// The response became whole: its status, and when its request was due.
    pub(super) answered: Option<(u16, Instant)>,
    /// The server has ended the connection, as it was asked to.
    pub(super) closed: bool,
    /// Bytes that came.
    pub(super) bytes: u64,
}

#[derive(Default)]
pub(super) struct Connection {
    socket: Option<OwnedFd>,
    /// The request is still to be sent: the connection is being opened.
    opening: bool,
    /// When the request was due that waits for its response.
    due: Option<Instant>,
    /// The head of the response as far as it arrived.
    head: Vec<u8>,
    /// Status, and bytes of body to come, once the head is complete.
    body: Option<(u16, u64)>,
}

impl Connection {
    /// Opens the connection and waits for that.
    pub(super) fn open_now(&mut self, epoll: &OwnedFd, index: usize, to: SocketAddr) -> Result<()> {
        let stream = std::net::TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let socket = OwnedFd::from(stream);
        watch(epoll, &socket, index, epoll::EventFlags::IN)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Sends a request, over a new connection if there is none.
    pub(super) fn begin(
        &mut self,
        epoll: &OwnedFd,
        index: usize,
        to: SocketAddr,
        due: Instant,
        request: &[u8],
    ) -> Result<()> {
        self.due = Some(due);
        self.head.clear();
        self.body = None;
        if self.socket.is_some() {
            return self.send(request);
        }
        let family = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        // Edge-triggered: one registration for the opening and for the response.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        watch(epoll, &socket, index, flags)?;
        self.socket = Some(socket);
        self.opening = true;
        Ok(())
    }

    /// Does what is possible now.
    pub(super) fn go_on(
        &mut self,
        request: &[u8],
        buffer: &mut [u8],
        close: bool,
    ) -> Result<Progress> {
        let mut progress = Progress::default();
        let Some(socket) = &self.socket else {
            return Ok(progress);
        };
        if self.opening {
            sockopt::socket_error(socket)??;
            match send(socket, request, SendFlags::NOSIGNAL) {
                Ok(sent) if sent == request.len() => self.opening = false,
                Ok(_) => bail!("a request did not fit into an empty socket"),
                Err(Errno::AGAIN) => return Ok(progress),
                Err(error) => return Err(error.into()),
            }
        }
        match self.receive(buffer, close, &mut progress) {
            // What comes after the answer, as the reset of a server that ends by it, takes nothing from it.
            Err(_) if progress.answered.is_some() => {
                self.socket = None;
                progress.closed = true;
            }
            received => received?,
        }
        Ok(progress)
    }

    /// Receives what is there.
    fn receive(&mut self, buffer: &mut [u8], close: bool, progress: &mut Progress) -> Result<()> {
        loop {
            let socket = self.socket.as_ref().context("no socket")?;
            match recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => {
                    if self.due.is_some() || !close {
                        bail!("the connection ended before the response did");
                    }
                    self.socket = None;
                    progress.closed = true;
                    break;
                }
                Ok((length, _)) => {
                    progress.bytes += length as u64;
                    if self.take(&buffer[..length])? {
                        let due = self.due.take().context("a response to no request")?;
                        let status = self.body.map_or(0, |(status, _)| status);
                        progress.answered = Some((status, due));
                        if !close {
                            break;
                        }
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes a piece of the response; whether it is whole now.
    fn take(&mut self, bytes: &[u8]) -> Result<bool> {
        let mut fresh = bytes.len() as u64;
        if self.body.is_none() {
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            let mut fields = [httparse::EMPTY_HEADER; 32];
            let mut response = httparse::Response::new(&mut fields);
            let httparse::Status::Complete(head) = response.parse(&self.head)? else {
                if self.head.len() > MAX_HEAD {
                    bail!("the head of a response has no end");
                }
                return Ok(false);
            };
            let length = response
                .headers
                .iter()
                .find(|field| field.name.eq_ignore_ascii_case("content-length"))
                .and_then(|field| std::str::from_utf8(field.value).ok()?.parse().ok());
            let length = match response.code {
                // It has no body, whatever its length is said to be (RFC 9110, 15.4.5).
                Some(304) => 0,
                _ => length.context("a response without Content-Length")?,
            };
            self.body = Some((response.code.unwrap_or(0), length));
            fresh = (before + bytes.len() - head) as u64;
        }
        let Some((_, left)) = &mut self.body else {
            return Ok(false);
        };
        *left = left.checked_sub(fresh).context("more than one response")?;
        Ok(*left == 0)
    }

    fn send(&self, request: &[u8]) -> Result<()> {
        let socket = self.socket.as_ref().context("no socket")?;
        let sent = send(socket, request, SendFlags::NOSIGNAL)?;
        if sent < request.len() {
            bail!("a request did not fit into an empty socket");
        }
        Ok(())
    }

    /// Closes the connection; whether a request was under way.
    pub(super) fn abandon(&mut self) -> bool {
        self.socket = None;
        self.opening = false;
        self.due.take().is_some()
    }
}

fn watch(epoll: &OwnedFd, socket: &OwnedFd, index: usize, flags: epoll::EventFlags) -> Result<()> {
    let data = epoll::EventData::new_u64(index as u64);
    Ok(epoll::add(epoll, socket, data, flags)?)
}

#[cfg(test)]
mod tests {
    use super::Connection;
    use rustix::event::epoll;
    use rustix::net::sockopt::set_socket_linger;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    const REQUEST: &[u8] = b"GET / HTTP/1.0\r\n\r\n";

    /// A server that does not wait until its answer was taken ends the connection by a reset.
    #[test]
    fn an_answer_counts_with_a_reset_behind_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (go, may) = channel();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; REQUEST.len()]).unwrap();
            may.recv().unwrap();
            let text = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello";
            stream.write_all(text).unwrap();
            set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        });
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let (mut connection, mut buffer) = (Connection::default(), [0; 4_096]);
        let now = Instant::now();
        connection.begin(&epoll, 0, address, now, REQUEST).unwrap();
        while connection.opening {
            connection.go_on(REQUEST, &mut buffer, true).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        go.send(()).unwrap();
        server.join().unwrap();
        // Both are there now.
        let mut answered = None;
        while let Ok(progress) = connection.go_on(REQUEST, &mut buffer, true) {
            answered = answered.or(progress.answered);
            if progress.closed {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(answered.map(|(status, _)| status), Some(200));
        assert!(!connection.abandon());
    }
}
