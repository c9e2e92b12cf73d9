//! Clients each of whom asks for the same again and again, when the whole answer before is there: on a path that loses,
//! what a loss costs those who wait for it.

use super::answers::Answers;
use crate::sampler::thread_time;
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What they ask for.
#[derive(Clone, Debug)]
pub struct Fetches {
    /// The server.
    pub server: SocketAddr,
    /// The path of every request.
    pub path: String,
    /// A connection for each request, instead of one that stays.
    pub close: bool,
    /// Clients at once, each with a connection.
    pub clients: usize,
    /// Who has no whole answer by then gives up.
    pub patience: Duration,
}

/// What they got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fetched {
    /// The time to each whole answer, the connection's setting up included where it has one of its own, in seconds.
    pub times: Vec<f64>,
    /// How many of those answers were there within the window.
    pub in_time: usize,
    /// Who gave up, was refused, or got another answer.
    pub failed: usize,
    /// CPU time of all of them.
    pub used: Duration,
}

impl Fetches {
    /// Has them ask for so long, and once at least, from this thread's network. What is under way at the end is waited
    /// for.
    ///
    /// # Errors
    /// There are no more threads.
    pub fn run(&self, window: Duration) -> Result<Fetched> {
        let end = Instant::now() + window;
        std::thread::scope(|scope| {
            let spawn = |_| {
                let thread = std::thread::Builder::new().name("client".into());
                thread.spawn_scoped(scope, move || self.ask_until(end))
            };
            let clients: Vec<_> = (0..self.clients).map(spawn).collect::<Result<_, _>>()?;
            let mut all = Fetched::default();
            for client in clients {
                let got = client
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                all.times.extend(got.times);
                all.in_time += got.in_time;
                all.failed += got.failed;
                all.used += got.used;
            }
            Ok(all)
        })
    }

    fn ask_until(&self, end: Instant) -> Fetched {
        let mut client = Client {
            asked: self,
            text: self.text(),
            kept: None,
        };
        let mut got = Fetched::default();
        loop {
            let began = Instant::now();
            // Why does not matter to who waits; that it is so is counted.
            if client.ask(began + self.patience).is_ok() {
                got.times.push(began.elapsed().as_secs_f64());
                got.in_time += usize::from(Instant::now() < end);
            } else {
                got.failed += 1;
                client.kept = None;
            }
            if Instant::now() >= end {
                got.used = thread_time();
                return got;
            }
        }
    }

    fn text(&self) -> String {
        let close = if self.close {
            "Connection: close\r\n"
        } else {
            ""
        };
        format!("GET {} HTTP/1.1\r\nHost: lab\r\n{close}\r\n", self.path)
    }
}

struct Client<'a> {
    asked: &'a Fetches,
    text: String,
    kept: Option<TcpStream>,
}

impl Client<'_> {
    /// Asks, and waits for the whole answer.
    fn ask(&mut self, until: Instant) -> Result<()> {
        if let Some(mut stream) = self.kept.take() {
            match self.exchange(&mut stream, until) {
                Ok(true) => {
                    self.kept = Some(stream);
                    return Ok(());
                }
                // A server may end a connection that stays between two requests: who asks then asks again (RFC 9112
                // §9.3.1).
                Ok(false) => {}
                Err(error) => return Err(error),
            }
        }
        let mut stream = TcpStream::connect_timeout(&self.asked.server, left(until)?)?;
        stream.set_nodelay(true)?;
        if !self.exchange(&mut stream, until)? {
            bail!("the connection ended");
        }
        self.kept = (!self.asked.close).then_some(stream);
        Ok(())
    }

    /// Whether a whole answer came; none, if the connection was over before anything of it.
    fn exchange(&self, stream: &mut TcpStream, until: Instant) -> Result<bool> {
        let over = |error: &std::io::Error| {
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            )
        };
        match stream.write_all(self.text.as_bytes()) {
            Ok(()) => {}
            Err(error) if over(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let (mut answers, mut has_begun) = (Answers::default(), false);
        let mut buffer = [0; 8 << 10];
        loop {
            stream.set_read_timeout(Some(left(until)?))?;
            let count = match stream.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if over(&error) && !has_begun => 0,
                Err(error) => return Err(error.into()),
            };
            if count == 0 && has_begun {
                bail!("half an answer");
            }
            if count == 0 {
                return Ok(false);
            }
            has_begun = true;
            if let Some(status) = answers.take(&mut &buffer[..count])? {
                if status != 200 {
                    bail!("status {status}");
                }
                return Ok(true);
            }
        }
    }
}

/// What is left until then.
fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero())
        .then_some(left)
        .context("it took too long")
}

#[cfg(test)]
mod tests {
    use super::{Client, Duration, Fetches, Instant};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    const LIMIT: Duration = Duration::from_secs(60);

    /// A server that does this with each connection, one after another, and the clients of it.
    fn server(connections: &[fn(TcpStream)], close: bool) -> (Fetches, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fetches = Fetches {
            server: listener.local_addr().unwrap(),
            path: "/".into(),
            close,
            clients: 1,
            patience: LIMIT,
        };
        let connections = connections.to_vec();
        let serve = move || {
            for serve in connections {
                serve(listener.accept().unwrap().0);
            }
        };
        (fetches, std::thread::spawn(serve))
    }

    /// Reads a request, whose text ends with a blank line.
    fn asked(stream: &mut TcpStream) -> bool {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => text.push(byte[0]),
                _ => return false,
            }
        }
        true
    }

    fn one(mut stream: TcpStream) {
        asked(&mut stream);
        stream.write_all(ANSWER).unwrap();
    }

    fn half(mut stream: TcpStream) {
        asked(&mut stream);
        stream.write_all(&ANSWER[..ANSWER.len() - 1]).unwrap();
    }

    fn none(mut stream: TcpStream) {
        asked(&mut stream);
    }

    fn refusal(mut stream: TcpStream) {
        asked(&mut stream);
        stream
            .write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    }

    fn client(fetches: &Fetches) -> Client<'_> {
        Client {
            asked: fetches,
            text: fetches.text(),
            kept: None,
        }
    }

    #[test]
    fn what_is_not_a_whole_answer_has_failed() {
        let (fetches, serving) = server(&[one, half, none, refusal, one], true);
        let mut client = client(&fetches);
        let good = [true, false, false, false, true];
        for (number, is_good) in good.into_iter().enumerate() {
            let got = client.ask(Instant::now() + LIMIT);
            assert_eq!(got.is_ok(), is_good, "{number}: {got:?}");
            assert!(client.kept.is_none());
        }
        serving.join().unwrap();
        let late = client.ask(Instant::now()).unwrap_err().to_string();
        assert_eq!(late, "it took too long");
    }

    /// One that stays and was ended meanwhile is another's first request, and no failure.
    #[test]
    fn a_connection_that_has_ended_is_replaced() {
        let (fetches, serving) = server(&[one, one], false);
        let mut client = client(&fetches);
        client.ask(Instant::now() + LIMIT).unwrap();
        assert!(client.kept.is_some());
        client.ask(Instant::now() + LIMIT).unwrap();
        serving.join().unwrap();
    }

    #[test]
    fn all_of_them_are_counted() {
        let serve: fn(TcpStream) = |mut stream| {
            while asked(&mut stream) {
                if stream.write_all(ANSWER).is_err() {
                    break;
                }
            }
        };
        let (fetches, serving) = server(&[serve], false);
        let got = fetches.run(Duration::from_millis(50)).unwrap();
        assert!(!got.times.is_empty(), "{got:?}");
        assert!(got.in_time <= got.times.len() && got.failed == 0, "{got:?}");
        serving.join().unwrap();
    }
}
