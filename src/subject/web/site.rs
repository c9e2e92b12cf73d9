//! The files of a directory in memory, each behind the heads that go before it.

use super::args::Way;
use crate::serve::response::reason;
use anyhow::{Context as _, Result};
use native::{Back, Context, Errno, Handle, Memory, Piece, Queue};
use std::collections::HashMap;
use std::io::IoSlice;
use std::path::Path;

/// A stretch of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    at: usize,
    len: usize,
}

impl Part {
    /// What is left of it behind the first bytes, and how many of those are behind it.
    fn behind(self, bytes: usize) -> (Self, usize) {
        let gone = bytes.min(self.len);
        let left = Self {
            at: self.at + gone,
            len: self.len - gone,
        };
        (left, bytes - gone)
    }
}

/// What answers a request: two stretches of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    head: Part,
    body: Part,
}

impl Answer {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.head.len + self.body.len
    }

    /// The same without its body.
    pub fn without_body(self) -> Self {
        Self {
            body: Part::default(),
            ..self
        }
    }

    /// What is to be sent when so many bytes of it have been: the rest of the head, and of the body so much at most.
    fn next(&self, sent: usize, most: usize) -> [Part; 2] {
        let (head, sent) = self.head.behind(sent);
        let (mut body, _) = self.body.behind(sent);
        body.len = body.len.min(most);
        [head, body]
    }
}

/// Whether the connection stays open behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Stay,
    Close,
}

impl Then {
    /// What the field Connection says.
    fn word(self) -> &'static str {
        match self {
            Self::Stay => "keep-alive",
            Self::Close => "close",
        }
    }
}

/// The head of an answer with so many bytes behind it.
pub fn head(len: usize, then: Then) -> String {
    let then = then.word();
    format!(
        "HTTP/1.1 200 OK\r\nServer: outboard-subject\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {len}\r\nConnection: {then}\r\n\r\n"
    )
}

/// What holds the bytes.
enum Kept {
    Own(Vec<u8>),
    Registered(Memory),
}

/// The files.
pub struct Site {
    kept: Kept,
    /// By their paths, with the heads for connections that stay and that are closed.
    files: HashMap<Vec<u8>, [Answer; 2]>,
    /// What says that a client has the file, for connections that stay and that are closed.
    unchanged: [Answer; 2],
    /// By their status.
    errors: HashMap<u16, Answer>,
}

/// What is refused, besides what is not there.
const REFUSED: [u16; 8] = [400, 404, 405, 413, 414, 431, 501, 505];

impl Site {
    /// What is in the directory, and not in directories there.
    pub fn read(directory: &Path, context: &Context, way: Way) -> Result<Self> {
        let mut files = Vec::new();
        let shown = directory.display();
        let entries =
            std::fs::read_dir(directory).with_context(|| format!("cannot read {shown}"))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name().into_encoded_bytes();
                files.push((name, std::fs::read(entry.path())?));
            }
        }
        Self::of(files, |bytes| match way.is_registered() {
            true => registered(context, &bytes).map(Kept::Registered),
            false => Ok(Kept::Own(bytes)),
        })
    }

    fn of(
        files: Vec<(Vec<u8>, Vec<u8>)>,
        keep: impl FnOnce(Vec<u8>) -> Result<Kept>,
    ) -> Result<Self> {
        let mut bytes = Vec::new();
        let mut put = |more: &[u8]| {
            let at = bytes.len();
            bytes.extend_from_slice(more);
            Part {
                at,
                len: more.len(),
            }
        };
        let mut answers = HashMap::new();
        for (name, file) in files {
            let (body, len) = (put(&file), file.len());
            let both = [Then::Stay, Then::Close].map(|then| {
                let head = put(head(len, then).as_bytes());
                Answer { head, body }
            });
            answers.insert([b"/", &name[..]].concat(), both);
        }
        let unchanged = [Then::Stay, Then::Close].map(|then| {
            let then = then.word();
            let head = format!(
                "HTTP/1.1 304 {}\r\nServer: outboard-subject\r\nConnection: {then}\r\n\r\n",
                reason(304)
            );
            let (head, body) = (put(head.as_bytes()), Part::default());
            Answer { head, body }
        });
        let errors = REFUSED.map(|status| {
            let reason = reason(status);
            let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
            let head = format!(
                "HTTP/1.1 {status} {reason}\r\nServer: outboard-subject\r\n{allow}Content-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
            let (head, body) = (put(head.as_bytes()), Part::default());
            (status, Answer { head, body })
        });
        Ok(Self {
            kept: keep(bytes)?,
            files: answers,
            unchanged,
            errors: errors.into_iter().collect(),
        })
    }

    /// The file that is asked for.
    pub fn find(&self, target: &[u8], then: Then) -> Option<Answer> {
        let end = target.iter().position(|byte| *byte == b'?');
        let path = &target[..end.unwrap_or(target.len())];
        Some(self.files.get(path)?[then as usize])
    }

    /// What answers a request for a file that the client has.
    pub fn unchanged(&self, then: Then) -> Answer {
        self.unchanged[then as usize]
    }

    /// What answers a request that is refused: the connection is closed behind it.
    pub fn refusal(&self, status: u16) -> Option<Answer> {
        self.errors.get(&status).copied()
    }

    /// Sends what follows the bytes of an answer that were sent, of its body so much at most; how much was sent.
    pub fn send(
        &self,
        queue: &mut Queue,
        handle: Handle,
        answer: &Answer,
        sent: usize,
        most: usize,
        back: Back,
    ) -> Result<usize, Errno> {
        let parts = answer.next(sent, most);
        // What is empty is not sent.
        let parts = &parts[usize::from(parts[0].len == 0)..];
        let parts = &parts[..parts.len() - usize::from(parts[parts.len() - 1].len == 0)];
        match &self.kept {
            Kept::Own(bytes) => {
                let slices = parts
                    .iter()
                    .map(|part| IoSlice::new(&bytes[part.at..part.at + part.len]));
                let slices: Vec<_> = slices.collect();
                queue.sendv(handle, &slices, false, back)
            }
            Kept::Registered(memory) => {
                let pieces = parts.iter().map(|part| Piece {
                    memory,
                    offset: part.at,
                    len: part.len,
                });
                let pieces: Vec<_> = pieces.collect();
                queue.sendv_registered(handle, &pieces, false, back)
            }
        }
    }
}

/// The same bytes in registered memory. Nobody changes them there.
fn registered(context: &Context, bytes: &[u8]) -> Result<Memory> {
    let memory = context
        .register(bytes.len())
        .context("no memory for the files")?;
    queue_pair::copy_in(memory.bytes()?, bytes);
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::{Kept, Part, Site, Then};

    fn site() -> Site {
        let files = [("a", "the first"), ("empty", "")];
        let files = files.map(|(name, file)| (name.into(), file.into()));
        Site::of(files.into(), |bytes| Ok(Kept::Own(bytes))).unwrap()
    }

    fn bytes(site: &Site, parts: [Part; 2]) -> String {
        let Kept::Own(bytes) = &site.kept else {
            panic!("not its own");
        };
        let parts = parts.map(|part| &bytes[part.at..part.at + part.len]);
        String::from_utf8(parts.concat()).unwrap()
    }

    #[test]
    fn an_answer_goes_on_where_it_was_left_in_pieces_of_the_body() {
        let site = site();
        for (then, word) in [(Then::Stay, "keep-alive"), (Then::Close, "close")] {
            let answer = site.find(b"/a?x=1", then).unwrap();
            let whole = bytes(&site, answer.next(0, 1_000));
            assert!(
                whole.contains(&format!("Connection: {word}\r\n\r\nthe first")),
                "{whole}"
            );
            assert!(whole.contains("Content-Length: 9\r\n"), "{whole}");
            assert_eq!(whole.len(), answer.len());
            for most in [1, 4, 9] {
                let (mut sent, mut sends, mut all) = (0, 0, String::new());
                while sent < answer.len() {
                    all += &bytes(&site, answer.next(sent, most));
                    sent = all.len();
                    sends += 1;
                }
                assert_eq!((&all, sends), (&whole, 9_usize.div_ceil(most)));
            }
            let some = answer.next(7, 4);
            assert_eq!(bytes(&site, some), whole[7..whole.len() - 5]);
            assert!(!bytes(&site, answer.without_body().next(0, 9)).contains("first"));
        }
    }

    #[test]
    fn what_is_not_there_is_refused_and_closes() {
        let site = site();
        assert!(site.find(b"/b", Then::Stay).is_none());
        assert!(site.find(b"a", Then::Stay).is_none());
        assert_eq!(site.find(b"/empty", Then::Stay).unwrap().body.len, 0);
        let refusal = bytes(&site, site.refusal(405).unwrap().next(0, 9));
        assert!(refusal.starts_with("HTTP/1.1 405 "), "{refusal}");
        assert!(refusal.contains("Allow: GET, HEAD\r\n"), "{refusal}");
        assert!(refusal.ends_with("Connection: close\r\n\r\n"), "{refusal}");
        assert!(site.refusal(299).is_none());
    }

    #[test]
    fn what_a_client_has_is_not_sent_again() {
        let site = site();
        for (then, word) in [(Then::Stay, "keep-alive"), (Then::Close, "close")] {
            let answer = bytes(&site, site.unchanged(then).next(0, 9));
            assert!(
                answer.starts_with("HTTP/1.1 304 Not Modified\r\n"),
                "{answer}"
            );
            assert!(
                answer.ends_with(&format!("Connection: {word}\r\n\r\n")),
                "{answer}"
            );
            // The connection goes on behind it.
            assert!(!answer.contains("Content-Length"), "{answer}");
        }
    }
}
