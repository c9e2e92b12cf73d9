//! The server behind programs that pass requests on: it answers at the client's side, on the
//! kernel, with what the site's files hold.

use super::exchange::{LARGE, SMALL, content};
use anyhow::Result;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Serves until it is dropped.
pub struct Behind {
    over: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Behind {
    /// Listens. The calling thread is in the client's network.
    pub fn start(ip: IpAddr, port: u16) -> Result<Self> {
        let address = SocketAddr::new(ip, port);
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        std::thread::spawn(move || serve(stream));
                    }
                    Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
                }
            }
        });
        Ok(Self { over, address })
    }

    /// Where it listens.
    pub fn ip(&self) -> IpAddr {
        self.address.ip()
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Answers one request. A client that goes away is none of its business.
fn serve(stream: TcpStream) {
    let _ = stream.set_nonblocking(false);
    let Ok(mut sender) = stream.try_clone() else {
        return;
    };
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(request)) = lines.next() else {
        return;
    };
    // The rest of the head.
    for line in lines {
        match line {
            Ok(line) if line.is_empty() => break,
            Ok(_) => {}
            Err(_) => return,
        }
    }
    let file = [SMALL, LARGE]
        .into_iter()
        .find(|(name, _)| request.contains(&format!("/{name} ")));
    let (status, body) = match file {
        Some((_, length)) => ("200 OK", content(length)),
        None => ("404 Not Found", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = sender
        .write_all(head.as_bytes())
        .and_then(|()| sender.write_all(&body));
}
