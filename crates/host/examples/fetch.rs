//! A client on the engine: connects, sends its standard input, and prints what comes back.
//! `printf 'GET / HTTP/1.0\r\n\r\n' | cargo run -p outboard-host --example fetch -- 10.0.0.2:80`.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use host::{ConnectOptions, Errno, Readiness, Session, Shutdown};

/// How long each step may take.
const LIMIT: Option<Duration> = Some(Duration::from_secs(10));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr: SocketAddr = std::env::args()
        .nth(1)
        .ok_or("usage: fetch ADDR:PORT")?
        .parse()?;
    let mut request = Vec::new();
    std::io::stdin().read_to_end(&mut request)?;

    let session = Session::attach("default", "fetch")?;
    let socket = session
        .connect(addr, ConnectOptions::default())
        .map_err(|error| format!("{addr} is not for the engine: {error:?}"))?;
    socket.wait(Readiness::OUT, LIMIT)?;
    if let Some(errno) = socket.take_error() {
        return Err(errno.into());
    }
    let mut rest = &request[..];
    while !rest.is_empty() {
        match socket.send(rest, false) {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::AGAIN) => {
                socket.wait(Readiness::OUT, LIMIT)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    socket.shutdown(Shutdown::Write)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match socket.recv(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => std::io::stdout().write_all(&buffer[..read])?,
            Err(Errno::AGAIN) => {
                socket.wait(Readiness::IN, LIMIT)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}
