//! Responses: a head in bytes, and a body in parts that are bytes or stretches of a file.

use super::date;
use super::path::escape;
use std::time::SystemTime;

/// What a response body is made of.
#[derive(Debug)]
pub enum Part<F> {
    /// These bytes.
    Bytes(Vec<u8>),
    /// `length` bytes of a file from `offset` on.
    File {
        /// The file.
        file: F,
        /// Where to begin.
        offset: u64,
        /// How much; never 0.
        length: u64,
    },
}

/// A response as it goes out: its parts in order, the head being in the first.
#[derive(Debug)]
pub struct Response<F> {
    /// The status, for the log.
    pub status: u16,
    /// Head and body.
    pub parts: Vec<Part<F>>,
    /// Whether the connection ends after it.
    pub close: bool,
}

/// What a head mostly has room in, with a short page behind it.
const HEAD: usize = 512;

/// A head being written.
pub struct Head {
    bytes: Vec<u8>,
}

impl Head {
    /// Begins a head.
    pub fn new(status: u16, now: SystemTime) -> Self {
        let mut head = Self {
            bytes: Vec::with_capacity(HEAD),
        };
        if status == 200 {
            head.fields("HTTP/1.1 200 OK\r\n");
        } else {
            head.fields(&format!("HTTP/1.1 {status} {}\r\n", reason(status)));
        }
        head.fields("Server: outboard\r\n");
        date::with(now, |date| head.field("Date", date));
        head
    }

    /// Adds fields as they go out, each with the end of its line.
    pub fn fields(&mut self, fields: &str) {
        self.bytes.extend_from_slice(fields.as_bytes());
    }

    /// Adds a field. The value must not hold line breaks: all of them are ours.
    pub fn field(&mut self, name: &str, value: &str) {
        debug_assert!(!value.contains(['\r', '\n']));
        for text in [name, ": ", value, "\r\n"] {
            self.bytes.extend_from_slice(text.as_bytes());
        }
    }

    /// Says whether the connection stays. A client of HTTP/1.0 that asked for it waits for its end unless it is told
    /// (RFC 9112, appendix C.2.2); to others it says nothing new.
    pub fn connection(&mut self, close: bool) {
        self.field("Connection", if close { "close" } else { "keep-alive" });
    }

    /// Ends the head.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"\r\n");
        self.bytes
    }
}

/// A page that says what went wrong, for people.
pub fn error_page(status: u16) -> String {
    page(
        &format!("{status} {}", reason(status)),
        &format!("<p>{}</p>\n", escape(explanation(status))),
    )
}

/// A page of ours: `title` is text, `body` is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// The reason phrase of `status`.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "Unknown",
    }
}

fn explanation(status: u16) -> &'static str {
    match status {
        201 => "It is stored; its address is in the Location header.",
        301 => "It has moved; the link is in the Location header.",
        400 => "The request is not HTTP that this server understands.",
        403 => "The server may not read this file, or nothing may be stored under this name.",
        404 => "There is nothing at this address.",
        405 => {
            "Files are not served to this method; those that can be used are in the Allow header."
        }
        408 => "The request did not arrive in time.",
        409 => {
            "PUT needs the name of a file in a directory that is there, POST that of a directory, \
             with a slash at its end."
        }
        411 => "What is to be stored needs a Content-Length.",
        412 => "The file is not in the state that the request requires.",
        413 => "The request has a body that is larger than this server takes.",
        414 => "The address is too long.",
        415 => "What is to be stored must not have a Content-Encoding.",
        416 => "The file has no such part.",
        431 => "The header of the request is too large.",
        501 => "This server does not know that method or encoding.",
        503 => "The server has as many connections open as it allows.",
        507 => "There is no room to store it.",
        505 => "This server speaks HTTP/1.1 and HTTP/1.0.",
        _ => "The server could not do it.",
    }
}
