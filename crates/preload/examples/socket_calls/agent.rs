//! The other end, which does what the subject tells it.

use crate::calls;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// No step takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// The subject's hold on the agent. Every command is answered before the next.
pub struct Agent(BufReader<UnixStream>);

impl Agent {
    /// Waits for the agent that listens at `path`.
    pub fn at(path: &Path) -> Self {
        let begin = Instant::now();
        while begin.elapsed() < LIMIT {
            if let Ok(stream) = UnixStream::connect(path) {
                stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
                return Self(BufReader::new(stream));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no agent at {}", path.display());
    }

    /// Gives a command and returns the answer.
    pub fn tell(&mut self, command: &str) -> String {
        self.0
            .get_mut()
            .write_all(format!("{command}\n").as_bytes())
            .expect("the agent listens");
        let mut answer = String::new();
        self.0.read_line(&mut answer).expect("the agent answers");
        answer.trim_end().to_owned()
    }
}

/// Serves one subject.
pub fn serve(path: &Path, address: IpAddr) {
    let control = UnixListener::bind(path).expect("the path is free");
    let (stream, _) = control.accept().expect("a subject comes");
    let mut answers = stream.try_clone().expect("a second handle");
    let mut state = State {
        address,
        stream: None,
        listener: None,
        filler: None,
    };
    for command in BufReader::new(stream).lines() {
        let Ok(command) = command else { return };
        let answer = state.obey(&command);
        if answers.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
    }
}

struct State {
    address: IpAddr,
    stream: Option<TcpStream>,
    listener: Option<TcpListener>,
    /// What waits to be accepted, by nobody.
    filler: Option<TcpStream>,
}

impl State {
    fn obey(&mut self, command: &str) -> String {
        let mut words = command.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let argument = words.next().unwrap_or_default();
        match self.perform(verb, argument) {
            Ok(answer) => answer,
            Err(error) => format!("{:?}", error.kind()),
        }
    }

    fn perform(&mut self, verb: &str, argument: &str) -> std::io::Result<String> {
        let number = || argument.parse::<usize>().expect("a number");
        match verb {
            "connect" => {
                let address: SocketAddr = argument.parse().expect("an address");
                let stream = TcpStream::connect_timeout(&address, LIMIT)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LIMIT))?;
                self.stream = Some(stream);
                Ok("ok".into())
            }
            "address" => Ok(self.address.to_string()),
            "listen" => {
                let listener = TcpListener::bind((self.address, 0))?;
                let port = listener.local_addr()?.port();
                self.listener = Some(listener);
                Ok(port.to_string())
            }
            // Listens, with no room for another one that nobody has accepted.
            "full" => {
                let listener = TcpListener::bind((self.address, 0))?;
                // SAFETY: its own descriptor.
                unsafe { libc::listen(listener.as_raw_fd(), 0) };
                let address = listener.local_addr()?;
                self.filler = Some(TcpStream::connect(address)?);
                self.listener = Some(listener);
                Ok(address.to_string())
            }
            "accept" => {
                let listener = self.listener.as_ref().expect("listening");
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LIMIT))?;
                self.stream = Some(stream);
                Ok("ok".into())
            }
            // From where the subject has connected.
            "peer" => Ok(self.stream().peer_addr()?.to_string()),
            // What the connection's segments hold at most, as its TCP has agreed.
            "segment" => Ok(calls::segment(self.stream().as_raw_fd()).to_string()),
            "unlisten" => {
                self.listener = None;
                Ok("ok".into())
            }
            "send" => {
                self.stream().write_all(argument.as_bytes())?;
                Ok("ok".into())
            }
            "receive" => {
                let mut bytes = vec![0; number()];
                self.stream().read_exact(&mut bytes)?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            // So many bytes, of which only the count matters.
            "drain" => {
                let mut left = number();
                let mut bytes = vec![0; 65_536];
                while left > 0 {
                    let most = left.min(bytes.len());
                    match self.stream().read(&mut bytes[..most])? {
                        0 => return Err(ErrorKind::UnexpectedEof.into()),
                        read => left -= read,
                    }
                }
                Ok("ok".into())
            }
            // Up to the end of the stream.
            "rest" => {
                let mut bytes = Vec::new();
                self.stream().read_to_end(&mut bytes)?;
                Ok(format!("{} then the end", bytes.len()))
            }
            "shutdown" => {
                self.stream().shutdown(std::net::Shutdown::Write)?;
                Ok("ok".into())
            }
            "close" => {
                self.stream = None;
                Ok("ok".into())
            }
            "reset" => {
                let stream = self.stream.take().expect("connected");
                calls::set_linger_zero(&stream);
                drop(stream);
                Ok("ok".into())
            }
            other => panic!("no such command: {other}"),
        }
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.stream.as_mut().expect("connected")
    }
}
