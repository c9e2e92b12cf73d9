//! The HTTP of one connection as a pure state machine: bytes in, responses out. It knows neither
//! sockets nor the file system; files come from a [`Site`].

use super::condition::{self, Validators, Verdict};
use super::date;
use super::path;
use super::range::{self, Asked, ByteRange};
use super::request::{self, MAX_HEAD, Method, Refused, Request};
use super::response::{Head, Part, Response, error_page, page};
use std::rc::Rc;
use std::time::SystemTime;

/// So much memory for requests is kept between two.
const KEPT: usize = 1024;

/// Where files come from.
pub trait Site {
    /// An open file, or whatever stands for one.
    type File;
    /// What is at `path`, which is canonical and relative (see [`path::resolve`]).
    fn find(&self, path: &[u8]) -> Found<Self::File>;
}

/// What a path leads to.
pub enum Found<F> {
    /// A file.
    File(FileInfo<F>),
    /// A directory, whose path lacks its slash at the end.
    Directory,
    /// The names in a directory to be listed; those of directories end in a slash.
    Listing(Vec<String>),
    /// Nothing to be had, and the status that says why.
    Refused(u16),
}

/// A file and what a response says of it.
#[derive(Clone, Debug)]
pub struct FileInfo<F> {
    file: F,
    facts: Rc<FileFacts>,
}

/// What is known of a file.
#[derive(Debug)]
struct FileFacts {
    length: u64,
    validators: Validators,
    content_type: String,
    /// The fields that say what state it is in.
    state: String,
    /// All fields that a response with the whole of it has, but those of the connection.
    whole: String,
}

impl<F> FileInfo<F> {
    /// A file of so many bytes, in this state, of this media type.
    pub fn new(file: F, length: u64, validators: Validators, content_type: String) -> Self {
        let mut state = format!("ETag: {}\r\n", validators.etag);
        if let Some(modified) = date::of_file(validators.modified) {
            state += &format!("Last-Modified: {modified}\r\n");
        }
        let whole = format!(
            "{state}Accept-Ranges: bytes\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n"
        );
        let facts = FileFacts {
            length,
            validators,
            content_type,
            state,
            whole,
        };
        Self {
            file,
            facts: Rc::new(facts),
        }
    }

    /// The same facts of what stands for the file.
    pub fn map<G>(self, stands_for: impl FnOnce(F) -> G) -> FileInfo<G> {
        FileInfo {
            file: stands_for(self.file),
            facts: self.facts,
        }
    }

    /// The file.
    #[cfg(test)]
    pub fn file(&self) -> F
    where
        F: Clone,
    {
        self.file.clone()
    }

    /// Its length in bytes.
    #[cfg(test)]
    pub fn length(&self) -> u64 {
        self.facts.length
    }

    /// Its entity tag.
    #[cfg(test)]
    pub fn etag(&self) -> &str {
        &self.facts.validators.etag
    }

    /// Its media type.
    #[cfg(test)]
    pub fn content_type(&self) -> &str {
        &self.facts.content_type
    }
}

/// One connection's exchange of requests and responses.
#[derive(Debug, Default)]
pub struct Exchange {
    /// What arrived and was not yet used.
    input: Vec<u8>,
    /// Bytes of a request's body that are still to be thrown away.
    to_skip: u64,
    /// The last response has been given out.
    over: bool,
    /// The next response is the last, whatever the client wants.
    closing: bool,
    /// The target of the request answered last, for the log.
    target: Vec<u8>,
    /// The largest body that may be stored, in bytes; `None`: nothing may.
    uploads: Option<u64>,
    /// A request whose body is to be stored, which is not answered.
    storing: Option<Request>,
}

/// What has come of a body that was to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is a new file, at this path.
    Created(Vec<u8>),
    /// It is what the file at the request's path is from now on.
    Replaced,
    /// It is not stored, and the status says why.
    Refused(u16),
}

impl Exchange {
    /// An exchange in which bodies of up to `uploads` bytes may be stored.
    pub fn new(uploads: Option<u64>) -> Self {
        Self {
            uploads,
            ..Self::default()
        }
    }

    /// How many more bytes the exchange takes now. 0 until a response has been taken out.
    pub fn room(&self) -> usize {
        if self.over {
            0
        } else {
            MAX_HEAD - self.input.len()
        }
    }

    /// Takes bytes that arrived, at most [`Self::room`] of them.
    pub fn receive(&mut self, bytes: &[u8]) {
        let skipped = usize::try_from(self.to_skip).map_or(bytes.len(), |n| n.min(bytes.len()));
        self.to_skip -= skipped as u64;
        self.input.extend_from_slice(&bytes[skipped..]);
    }

    /// Whether a request has begun to arrive and is not complete.
    pub fn is_waiting_for_rest(&self) -> bool {
        !self.over && !self.input.is_empty() && self.storing.is_none()
    }

    /// Nothing has arrived that was not used.
    pub fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// Nothing has arrived that is not answered.
    pub fn is_idle(&self) -> bool {
        self.input.is_empty() && self.to_skip == 0 && self.storing.is_none()
    }

    /// The request whose body is to be stored before anything else can be answered.
    pub fn upload(&self) -> Option<&Request> {
        self.storing.as_ref()
    }

    /// Takes out of what has arrived what belongs to the body that is to be stored, of which `left` bytes
    /// are missing.
    pub fn take_body(&mut self, left: u64) -> Vec<u8> {
        let arrived = self.input.len();
        let mine = usize::try_from(left).map_or(arrived, |left| left.min(arrived));
        self.input.drain(..mine).collect()
    }

    /// The response to the request whose body was to be stored. If it was refused the connection ends:
    /// nobody has read the rest of the body.
    pub fn stored<F>(&mut self, stored: &Stored, now: SystemTime) -> Response<F> {
        let request = self.storing.take().unwrap_or_default();
        let close = !request.keep_alive || self.closing;
        let response = match stored {
            Stored::Created(path) => {
                let location = format!("/{}", path::encode(path));
                error(201, Method::Get, close, now, |head| {
                    head.field("Location", &location);
                })
            }
            Stored::Replaced => {
                let mut head = Head::new(204, now);
                head.connection(close);
                response(204, head, Vec::new(), close)
            }
            Stored::Refused(status) => refuse(*status, now),
        };
        self.target = request.target;
        self.over = response.close;
        response
    }

    /// The response to the next request says that it is the last.
    pub fn close_after_next(&mut self) {
        self.closing = true;
    }

    /// The target of the request that was answered last.
    pub fn last_target(&self) -> &[u8] {
        &self.target
    }

    /// The response to the next request, if that is complete. Pipelined requests are answered one
    /// at each call, in their order.
    pub fn respond<S: Site<File: Clone>>(
        &mut self,
        site: &S,
        now: SystemTime,
    ) -> Option<Response<S::File>> {
        // RFC 9112, section 2.2: empty lines before a request are ignored.
        let blank = self
            .input
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        self.input.drain(..blank);
        if self.over || self.input.is_empty() || self.storing.is_some() {
            return None;
        }
        let response = match request::parse(&self.input, self.uploads) {
            Ok(None) => return None,
            Ok(Some((mut request, length))) => {
                self.input.drain(..length);
                if request.method.stores() {
                    self.storing = Some(request);
                    return None;
                }
                self.to_skip = request.body;
                request.keep_alive &= !self.closing;
                self.skip_arrived();
                let response = answer(&request, site, now);
                self.target = std::mem::take(&mut request.target);
                response
            }
            Err(Refused(status)) => {
                let stores = self.uploads.is_some();
                error(status, Method::Get, true, now, |head| {
                    if status == 405 {
                        let allowed = if stores {
                            "GET, HEAD, PUT, POST"
                        } else {
                            "GET, HEAD"
                        };
                        head.field("Allow", allowed);
                    }
                })
            }
        };
        self.over = response.close;
        Some(response)
    }

    /// Throws away what has arrived of the body of a request. Of the memory for requests so much is kept as they mostly
    /// need: there may be many connections.
    fn skip_arrived(&mut self) {
        if self.to_skip > 0 {
            let arrived = std::mem::take(&mut self.input);
            self.receive(&arrived);
        } else if self.input.is_empty() && self.input.capacity() > KEPT {
            self.input = Vec::new();
        }
    }

    /// The response to a request that did not arrive in time.
    pub fn time_out<F>(&mut self, now: SystemTime) -> Response<F> {
        self.over = true;
        refuse(408, now)
    }
}

/// An error that ends the connection.
pub fn refuse<F>(status: u16, now: SystemTime) -> Response<F> {
    error(status, Method::Get, true, now, |_| {})
}

fn answer<S: Site<File: Clone>>(request: &Request, site: &S, now: SystemTime) -> Response<S::File> {
    let close = !request.keep_alive;
    let plain = |status| error(status, request.method, close, now, |_| {});
    let Ok(path) = path::resolve(&request.target) else {
        return plain(400);
    };
    match site.find(&path) {
        Found::File(file) => send(request, &file, now),
        Found::Refused(status) => plain(status),
        Found::Directory => {
            let location = format!("/{}/", path::encode(&path));
            error(301, request.method, close, now, |head| {
                head.field("Location", &location);
            })
        }
        Found::Listing(names) => {
            let title = format!("Index of /{}", String::from_utf8_lossy(&path));
            let mut body = String::from("<ul>\n");
            if !path.is_empty() {
                body.push_str("<li><a href=\"../\">../</a></li>\n");
            }
            for name in names {
                // "./" keeps a name with a colon from being read as a scheme.
                let link = path::encode(name.as_bytes());
                let text = path::escape(&name);
                body.push_str(&format!("<li><a href=\"./{link}\">{text}</a></li>\n"));
            }
            body.push_str("</ul>\n");
            html(200, page(&title, &body), request.method, close, now, |_| {})
        }
    }
}

/// The response that sends a file, or the parts of it that are asked for, or says that the client
/// has it.
fn send<F: Clone>(request: &Request, file: &FileInfo<F>, now: SystemTime) -> Response<F> {
    let found = &*file.facts;
    let close = !request.keep_alive;
    let ranges = match condition::evaluate(request, &found.validators) {
        Verdict::Proceed { ranges } => ranges,
        Verdict::NotModified => {
            let mut head = Head::new(304, now);
            head.fields(&found.state);
            head.connection(close);
            return response(304, head, Vec::new(), close);
        }
        Verdict::Failed => return error(412, request.method, close, now, |_| {}),
    };
    // Ranges are defined for GET only (RFC 9110, section 14.2).
    let asked = match &request.range {
        Some(value) if ranges && request.method == Method::Get => range::parse(value, found.length),
        _ => Asked::Whole,
    };
    let stretch = |range: ByteRange| Part::File {
        file: file.file.clone(),
        offset: range.first,
        length: range.length(),
    };
    let mut body = Vec::new();
    let status = if asked == Asked::Whole { 200 } else { 206 };
    let mut head = Head::new(status, now);
    if asked == Asked::Whole {
        head.fields(&found.whole);
    } else {
        head.fields(&found.state);
        head.field("Accept-Ranges", "bytes");
    }
    match asked {
        Asked::Unsatisfiable => {
            return error(416, request.method, close, now, |head| {
                head.field("Content-Range", &format!("bytes */{}", found.length));
            });
        }
        Asked::Whole => {
            if found.length > 0 && request.method == Method::Get {
                body.push(stretch(ByteRange {
                    first: 0,
                    last: found.length - 1,
                }));
            }
        }
        Asked::Parts(parts) if parts.len() == 1 => {
            head.field("Content-Type", &found.content_type);
            head.field("Content-Length", &parts[0].length().to_string());
            head.field("Content-Range", &content_range(parts[0], found.length));
            body.push(stretch(parts[0]));
        }
        Asked::Parts(parts) => {
            // The boundary need only be one that the file does not hold by accident.
            let boundary = format!("outboard-{:032x}", boundary_of(&found.validators, now));
            let mut length = 0;
            for part in parts {
                let intro = format!(
                    "\r\n--{boundary}\r\nContent-Type: {}\r\nContent-Range: {}\r\n\r\n",
                    found.content_type,
                    content_range(part, found.length)
                );
                length += intro.len() as u64 + part.length();
                body.push(Part::Bytes(intro.into_bytes()));
                body.push(stretch(part));
            }
            let end = format!("\r\n--{boundary}--\r\n");
            length += end.len() as u64;
            body.push(Part::Bytes(end.into_bytes()));
            head.field(
                "Content-Type",
                &format!("multipart/byteranges; boundary={boundary}"),
            );
            head.field("Content-Length", &length.to_string());
        }
    }
    head.connection(close);
    response(status, head, body, close)
}

fn content_range(range: ByteRange, length: u64) -> String {
    format!("bytes {}-{}/{length}", range.first, range.last)
}

fn boundary_of(validators: &Validators, now: SystemTime) -> u128 {
    let seed = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    validators.etag.bytes().fold(seed, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

fn error<F>(
    status: u16,
    method: Method,
    close: bool,
    now: SystemTime,
    add: impl FnOnce(&mut Head),
) -> Response<F> {
    html(status, error_page(status), method, close, now, add)
}

fn html<F>(
    status: u16,
    text: String,
    method: Method,
    close: bool,
    now: SystemTime,
    add: impl FnOnce(&mut Head),
) -> Response<F> {
    let mut head = Head::new(status, now);
    add(&mut head);
    head.field("Content-Type", "text/html; charset=utf-8");
    head.field("Content-Length", &text.len().to_string());
    head.connection(close);
    let body = match method {
        Method::Head => Vec::new(),
        _ => vec![Part::Bytes(text.into_bytes())],
    };
    response(status, head, body, close)
}

/// Puts head and body together; bytes that follow the head join it, so that a small page is one
/// write.
fn response<F>(status: u16, head: Head, mut body: Vec<Part<F>>, close: bool) -> Response<F> {
    let mut first = head.finish();
    match body.first_mut() {
        Some(Part::Bytes(bytes)) => {
            first.extend_from_slice(bytes);
            *bytes = first;
        }
        _ => body.insert(0, Part::Bytes(first)),
    }
    Response {
        status,
        parts: body,
        close,
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
