//! Answers of HTTP one after another, as they come in pieces.

use anyhow::{Context, Result, bail};

/// The longest head of an answer.
const MAX_HEAD: usize = 16 << 10;

/// What has come of the answer that is under way.
#[derive(Debug, Default)]
pub(super) struct Answers {
    head: Vec<u8>,
    /// Status, and bytes of the body to come, once the head is whole.
    body: Option<(u16, u64)>,
}

impl Answers {
    /// Takes from `bytes` until an answer is whole, and returns its status; `None`, if all was taken
    /// before that.
    ///
    /// # Errors
    /// It is no answer, or one without Content-Length.
    pub(super) fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<u16>> {
        if self.body.is_none() {
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            let mut fields = [httparse::EMPTY_HEADER; 32];
            let mut response = httparse::Response::new(&mut fields);
            let httparse::Status::Complete(head) = response.parse(&self.head)? else {
                if self.head.len() > MAX_HEAD {
                    bail!("the head of an answer has no end");
                }
                *bytes = &[];
                return Ok(None);
            };
            let mut named = response.headers.iter();
            let length = named
                .find(|field| field.name.eq_ignore_ascii_case("content-length"))
                .and_then(|field| std::str::from_utf8(field.value).ok()?.parse().ok())
                .context("an answer without Content-Length")?;
            self.body = Some((response.code.unwrap_or(0), length));
            *bytes = bytes.get(head - before..).unwrap_or_default();
            self.head.clear();
        }
        let Some((status, left)) = &mut self.body else {
            return Ok(None);
        };
        let taken = bytes
            .len()
            .min(usize::try_from(*left).unwrap_or(usize::MAX));
        *bytes = &bytes[taken..];
        *left -= taken as u64;
        if *left > 0 {
            return Ok(None);
        }
        let status = *status;
        self.body = None;
        Ok(Some(status))
    }
}

#[cfg(test)]
mod tests {
    use super::Answers;

    #[test]
    fn answers_are_told_apart_in_whatever_pieces_they_come() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
        for piece in 1..=text.len() {
            let mut answers = Answers::default();
            let mut found = Vec::new();
            for mut bytes in text.chunks(piece) {
                while let Some(status) = answers.take(&mut bytes).unwrap() {
                    found.push(status);
                }
                assert!(bytes.is_empty());
            }
            assert_eq!(found, [200, 404, 200], "pieces of {piece}");
        }
        let mut endless: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
        assert!(Answers::default().take(&mut endless).is_err());
    }
}
