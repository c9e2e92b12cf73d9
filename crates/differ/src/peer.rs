//! The program's peer, on the kernel's TCP at the other end of the wire. It reads all that comes,
//! always, and never waits.

use crate::outcome::{peer_tag, text};
use crate::program::{Call, Connection, Destination, Family, Peer as Act, Program, Step};
use crate::setting::Setting;
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// What the peer has of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// How it stands.
    pub state: State,
    /// All that came.
    pub received: String,
}

/// How a connection stands at the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Awaited, or on its way.
    Awaited,
    /// Established, as far as the peer knows.
    Open,
    /// No more comes, in good order.
    Ended,
    /// Reset.
    Reset,
    /// Refused.
    Refused,
    /// Ended by the peer itself.
    Closed,
    /// Anything else that was said.
    Failed,
}

struct Line {
    view: View,
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    /// Bytes of the peer's text that are to be sent, and how many have been.
    wanted: u64,
    sent: u64,
    /// It has said that no more comes.
    has_ended: bool,
    /// What to do when all has been sent.
    then: Option<fn(&mut Line)>,
}

/// All connections of one run.
pub struct Peer {
    setting: Setting,
    lines: BTreeMap<Connection, Line>,
}

impl Peer {
    /// Listens for the connections that the program opens. The calling thread is in the client's
    /// network.
    pub fn new(setting: &Setting, program: &Program) -> Result<Self> {
        let mut lines = BTreeMap::new();
        for step in &program.steps {
            if let Step::Do(
                _,
                Call::Connect {
                    to: Destination::Peer(connection),
                    ..
                },
            ) = step
                && !lines.contains_key(connection)
            {
                let port = setting.peer_ports + u16::from(*connection);
                let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
                    .with_context(|| format!("the peer cannot listen on {port}"))?;
                listener.set_nonblocking(true)?;
                lines.insert(*connection, Line::new(Some(listener), None));
            }
        }
        Ok(Self {
            setting: setting.clone(),
            lines,
        })
    }

    /// Begins what a step asks for. Connections that are not there are passed over.
    pub fn act(&mut self, act: &Act) -> Result<()> {
        let connection = &act.connection();
        if let Act::Connect { port, family, .. } = act {
            if !self.lines.contains_key(connection) {
                let line = self.connect(*connection, *port, *family)?;
                self.lines.insert(*connection, line);
            }
            return Ok(());
        }
        let Some(line) = self.lines.get_mut(connection) else {
            return Ok(());
        };
        if line.then.is_some() {
            return Ok(());
        }
        match act {
            // To write after that would fail, and what has come by then would be a matter of time.
            Act::Send(..) if line.has_ended => {}
            Act::Send(_, length) => line.wanted += u64::from(*length),
            Act::Shutdown(_) => {
                line.has_ended = true;
                line.then = Some(Line::shutdown);
            }
            Act::Close(_) => line.then = Some(Line::close),
            Act::Reset(_) => line.then = Some(Line::reset),
            Act::Connect { .. } => {}
        }
        Ok(())
    }

    /// Connects once more what was reset while nobody listened any more: the kernel knows of the end of
    /// a process at once, the engine a moment later. Whether it was.
    pub fn connect_again(&mut self, act: &Act) -> Result<bool> {
        let Act::Connect { connection, .. } = act else {
            return Ok(false);
        };
        if self.state(*connection) != Some(State::Reset) {
            return Ok(false);
        }
        self.lines.remove(connection);
        self.act(act)?;
        Ok(true)
    }

    fn connect(&self, connection: Connection, port: u8, family: Family) -> Result<Line> {
        let (domain, from, to): (_, IpAddr, IpAddr) = match family {
            Family::V4 => (
                AddressFamily::INET,
                self.setting.there.0.into(),
                self.setting.here.0.into(),
            ),
            Family::V6 => (
                AddressFamily::INET6,
                self.setting.there.1.into(),
                self.setting.here.1.into(),
            ),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(domain, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        let own = self.setting.peer_ports + u16::from(connection);
        net::bind(&socket, &SocketAddr::new(from, own))?;
        let port = self.setting.own_ports + u16::from(port);
        match net::connect(&socket, &SocketAddr::new(to, port)) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error).context("the peer cannot connect"),
        }
        Ok(Line::new(None, Some(TcpStream::from(socket))))
    }

    /// Moves what can be moved; whether anything did.
    pub fn pump(&mut self) -> bool {
        let mut moved = false;
        for (connection, line) in &mut self.lines {
            moved |= line.pump(*connection);
        }
        moved
    }

    /// What there is of every connection.
    pub fn views(&self) -> BTreeMap<Connection, View> {
        let view = |(connection, line): (&Connection, &Line)| (*connection, line.view.clone());
        self.lines.iter().map(view).collect()
    }

    /// How many bytes have come on a connection.
    pub fn arrived(&self, connection: Connection) -> usize {
        let line = self.lines.get(&connection);
        line.map_or(0, |line| line.view.received.len())
    }

    /// How a connection stands.
    pub fn state(&self, connection: Connection) -> Option<State> {
        self.lines.get(&connection).map(|line| line.view.state)
    }
}

impl Drop for Peer {
    /// Leaves nothing that keeps a pair of ports busy.
    fn drop(&mut self) {
        for line in self.lines.values_mut() {
            line.reset();
        }
    }
}

impl Line {
    fn new(listener: Option<TcpListener>, stream: Option<TcpStream>) -> Self {
        Self {
            view: View {
                state: State::Awaited,
                received: String::new(),
            },
            listener,
            stream,
            wanted: 0,
            sent: 0,
            has_ended: false,
            then: None,
        }
    }

    fn pump(&mut self, connection: Connection) -> bool {
        let before = (self.view.state, self.sent, self.view.received.len());
        if let Some(listener) = &self.listener
            && let Ok((stream, _)) = listener.accept()
            && stream.set_nonblocking(true).is_ok()
        {
            self.stream = Some(stream);
            self.listener = None;
        }
        if self.view.state == State::Awaited
            && let Some(stream) = &self.stream
        {
            match stream.take_error() {
                Ok(Some(error)) => self.fail(&error),
                _ if stream.peer_addr().is_ok() => {
                    let _ = stream.set_nodelay(true);
                    self.view.state = State::Open;
                }
                _ => {}
            }
        }
        if matches!(self.view.state, State::Open | State::Ended) {
            self.send(connection);
        }
        if self.view.state == State::Open {
            self.receive();
        }
        before != (self.view.state, self.sent, self.view.received.len())
    }

    fn send(&mut self, connection: Connection) {
        while self.sent < self.wanted {
            let Some(stream) = &mut self.stream else {
                return;
            };
            let most = (self.wanted - self.sent).min(65_536) as usize;
            let bytes = text(peer_tag(connection), self.sent, most);
            match stream.write(bytes.as_bytes()) {
                Ok(written) => self.sent += written as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.fail(&error),
            }
        }
        if let Some(then) = self.then.take() {
            then(self);
        }
    }

    fn receive(&mut self) {
        let mut bytes = vec![0; 65_536];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut bytes) {
                Ok(0) => {
                    self.view.state = State::Ended;
                    return;
                }
                Ok(read) => {
                    let came = bytes[..read].iter().map(|&byte| char::from(byte));
                    self.view.received.extend(came);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.fail(&error),
            }
        }
    }

    fn fail(&mut self, error: &std::io::Error) {
        self.view.state = match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => State::Reset,
            ErrorKind::ConnectionRefused => State::Refused,
            _ => State::Failed,
        };
        self.stream = None;
    }

    fn shutdown(&mut self) {
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn close(&mut self) {
        self.stream = None;
        self.view.state = State::Closed;
    }

    fn reset(&mut self) {
        if let Some(stream) = &self.stream {
            let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
        self.close();
    }
}
