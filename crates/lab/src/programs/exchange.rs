//! What clients ask of a program, and how they know that the answer is right: byte by byte.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// No answer may take longer, on however busy a machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// How a program is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: a file of the site.
    Http,
    /// Redis: SET, then GET.
    Redis,
    /// memcached's text protocol: set, then get.
    Memcached,
    /// What was sent comes back, once the client has said that it is all.
    Echo,
}

/// The sizes of what is asked for, with the names of the files that have them.
pub const SMALL: (&str, usize) = ("small", 600);
/// More than any buffer on the way.
pub const LARGE: (&str, usize) = ("large", 5_000_000);

/// What is in a file, or is sent, of this length: no two places in it are alike.
pub fn content(length: usize) -> Vec<u8> {
    let numbers = (0u32..).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes());
    numbers.take(length).collect()
}

/// How many bytes are as they have to be before the first that is not, or is missing, or too many.
pub fn differs(found: &[u8], expected: &[u8]) -> Option<usize> {
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b);
    (found != expected).then(|| same.count())
}

/// Connects, asks once, and holds the answer against what it has to be.
///
/// # Errors
/// No connection, no answer, a wrong answer.
pub fn once(protocol: Protocol, to: SocketAddr, what: (&str, usize)) -> Result<()> {
    let mut stream = connect(to)?;
    ask(protocol, &mut stream, what)?;
    answer(protocol, stream, what)
}

/// A connection whose calls do not wait for ever.
pub fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, LIMIT).context("connect")?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends the question.
pub fn ask(protocol: Protocol, stream: &mut TcpStream, what: (&str, usize)) -> Result<()> {
    let (name, length) = what;
    match protocol {
        Protocol::Http => {
            let head = format!("GET /{name} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).context("request")
        }
        Protocol::Redis => {
            let mut all = format!(
                "*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${length}\r\n",
                name.len()
            )
            .into_bytes();
            all.extend(content(length));
            all.extend(format!("\r\n*2\r\n$3\r\nGET\r\n${}\r\n{name}\r\n", name.len()).bytes());
            stream.write_all(&all).context("request")
        }
        Protocol::Memcached => {
            let mut all = format!("set {name} 0 0 {length}\r\n").into_bytes();
            all.extend(content(length));
            all.extend(format!("\r\nget {name}\r\n").bytes());
            stream.write_all(&all).context("request")
        }
        Protocol::Echo => {
            let mut sender = stream.try_clone()?;
            // An echo sends while it is sent to.
            std::thread::spawn(move || {
                let sent = sender.write_all(&content(length));
                // What went wrong shows in what comes back.
                let _ = sent.and_then(|()| sender.shutdown(Shutdown::Write));
            });
            Ok(())
        }
    }
}

/// Reads the answer, and holds it against what it has to be.
pub fn answer(protocol: Protocol, stream: TcpStream, what: (&str, usize)) -> Result<()> {
    let (name, length) = what;
    let mut reader = BufReader::new(stream);
    let mut line = || -> Result<String> {
        let mut line = String::new();
        ensure!(
            reader.read_line(&mut line).context("answer")? > 0,
            "the connection ended before the answer"
        );
        Ok(line.trim_end().to_owned())
    };
    match protocol {
        Protocol::Http => {
            let status = line()?;
            ensure!(status.contains(" 200"), "{status}");
            while !line()?.is_empty() {}
        }
        Protocol::Redis => {
            let (set, get) = (line()?, line()?);
            ensure!(set == "+OK" && get == format!("${length}"), "{set} {get}");
        }
        Protocol::Memcached => {
            let (set, get) = (line()?, line()?);
            let expected = format!("VALUE {name} 0 {length}");
            ensure!(set == "STORED" && get == expected, "{set} {get}");
        }
        Protocol::Echo => {}
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).context("answer")?;
    if let Some(at) = differs(&body, &content(length)) {
        bail!("wrong bytes after {at}");
    }
    if matches!(protocol, Protocol::Http | Protocol::Echo) {
        let rest = reader.read(&mut [0; 1]).context("end")?;
        ensure!(rest == 0, "bytes beyond the end");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that echoes, with one byte changed if so told.
    fn echo(damage: Option<usize>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            if let Some(place) = damage {
                all[place] ^= 1;
            }
            stream.write_all(&all).unwrap();
        });
        address
    }

    #[test]
    fn one_wrong_byte_is_noticed() {
        once(Protocol::Echo, echo(None), SMALL).unwrap();
        let error = once(Protocol::Echo, echo(Some(17)), SMALL).unwrap_err();
        assert_eq!(error.to_string(), "wrong bytes after 17");
    }
}
