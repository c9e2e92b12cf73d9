//! Metrics and health of an engine over HTTP, for those who scrape it (`[metrics] listen`).
//!
//! What is served is asked of the engine over its control socket, as any command does it, so it is
//! also what says whether the engine answers. The server is the kernel's, few at a time, and nobody
//! keeps it for long.

use crate::control::{Control, PATIENCE};
use crate::open_metrics;
use anyhow::{Context, Result};
use queue_pair::control::Metric;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who scrapes at once, at most: who comes then is closed at once.
const MOST: usize = 8;
/// How long a request may take to come, and its answer to go.
const LIMIT: Duration = Duration::from_secs(5);
/// Longest head of a request, in bytes.
const HEAD: usize = 8192;

/// A listener that waits for its engine.
pub struct Scrape(TcpListener);

impl Scrape {
    /// Listens, before the engine gives up its rights.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        TcpListener::bind(address)
            .map(Self)
            .map_err(|error| crate::advice::listening(address, &error))
            .context("[metrics] listen")
    }

    /// Serves from now on, in a thread of its own, what the engine at `socket` says.
    pub fn serve(self, socket: PathBuf) {
        let serving = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || self.accept(&socket));
        if let Err(error) = serving {
            crate::closed_pipe::remark(format_args!("outboard: no metrics: {error}"));
        }
    }

    fn accept(&self, socket: &Path) {
        let busy = Arc::new(());
        for stream in self.0.incoming() {
            let Ok(stream) = stream else {
                // No descriptors, say: there may be some again.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if Arc::strong_count(&busy) > MOST {
                continue;
            }
            let (socket, place) = (socket.to_owned(), Arc::clone(&busy));
            let answering = std::thread::Builder::new().spawn(move || {
                // Whoever goes away before the answer does not want it.
                let _ = answer(stream, &socket);
                drop(place);
            });
            drop(answering);
        }
    }
}

fn answer(mut stream: TcpStream, socket: &Path) -> std::io::Result<()> {
    stream.set_write_timeout(Some(LIMIT))?;
    let head = read_head(&mut stream)?;
    let (status, kind, body) = respond(&head, || ask(socket));
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes())?;
    if !head.starts_with(b"HEAD ") {
        stream.write_all(body.as_bytes())?;
    }
    stream.shutdown(std::net::Shutdown::Write)
}

/// Everything up to the blank line.
fn read_head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + LIMIT;
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while head.len() < HEAD && !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut some)? {
            0 => break,
            count => head.extend_from_slice(&some[..count]),
        }
    }
    Ok(head)
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// Status, type and body of the answer to a request.
fn respond(
    head: &[u8],
    ask: impl FnOnce() -> Option<Vec<Metric>>,
) -> (&'static str, &'static str, String) {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    let whole = request.parse(head).is_ok_and(|status| status.is_complete());
    let (Some(method), Some(path), true) = (request.method, request.path, whole) else {
        return ("400 Bad Request", PLAIN, "not a request\n".into());
    };
    if method != "GET" && method != "HEAD" {
        return ("405 Method Not Allowed", PLAIN, "GET or HEAD\n".into());
    }
    let path = path.split('?').next().unwrap_or(path);
    if path != "/metrics" && path != "/health" {
        return (
            "404 Not Found",
            PLAIN,
            "there are /metrics and /health\n".into(),
        );
    }
    let text = ask().map(|metrics| open_metrics::encode(&metrics));
    match text {
        Some(Ok(_)) if path == "/health" => ("200 OK", PLAIN, "ok\n".into()),
        Some(Ok(text)) => ("200 OK", open_metrics::CONTENT_TYPE, text),
        _ => {
            let said = "the engine does not answer\n";
            ("503 Service Unavailable", PLAIN, said.into())
        }
    }
}

fn ask(socket: &Path) -> Option<Vec<Metric>> {
    let mut control = Control::at(socket, PATIENCE.min(LIMIT)).ok()?;
    control.metrics().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_by_what_they_ask_for() {
        let status = |text: &str, alive: bool| {
            let head = format!("{text}\r\nHost: x\r\n\r\n");
            let (status, kind, body) = respond(head.as_bytes(), || alive.then(Vec::new));
            (status, kind == open_metrics::CONTENT_TYPE, body)
        };
        let (said, metrics, body) = status("GET /metrics HTTP/1.1", true);
        assert_eq!((said, metrics), ("200 OK", true));
        assert!(body.ends_with("# EOF\n"), "{body}");
        let ok = ("200 OK", false, "ok\n".to_owned());
        assert_eq!(status("GET /health?x HTTP/1.1", true), ok);
        for path in ["metrics", "health"] {
            let (said, ..) = status(&format!("GET /{path} HTTP/1.1"), false);
            assert_eq!(said, "503 Service Unavailable");
        }
        assert_eq!(status("GET / HTTP/1.1", true).0, "404 Not Found");
        assert_eq!(
            status("POST /metrics HTTP/1.1", true).0,
            "405 Method Not Allowed"
        );
        assert_eq!(status("nonsense", true).0, "400 Bad Request");
        assert_eq!(respond(b"GET /metrics HT", || None).0, "400 Bad Request");
    }
}
