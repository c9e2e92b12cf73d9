//! The files that the checks of text look at: what git tracks, and what it would if added now.

use crate::shell;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// A text file of the repository.
pub struct Source {
    /// Its path from the root of the repository.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

impl Source {
    /// Whether the file's name ends in `.extension`.
    pub fn is(&self, extension: &str) -> bool {
        self.path
            .extension()
            .is_some_and(|found| found == extension)
    }
}

/// Every text file of the repository; binary files are left out.
pub fn all() -> Result<Vec<Source>> {
    let root = shell::root();
    let listing = shell::quiet(Command::new("git").current_dir(&root).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(listing
        .lines()
        // Not written by hand: the lock file, and what fuzzers found.
        .filter(|line| *line != "Cargo.lock" && !line.starts_with("fuzz/corpus/"))
        .filter_map(|line| {
            let text = std::fs::read_to_string(root.join(line)).ok()?;
            Some(Source {
                path: line.into(),
                text,
            })
        })
        .collect())
}

/// Rust source with the contents of comments and string literals blanked out, line by line, so
/// that a search for a word finds code only.
///
/// Raw strings with hashes and character literals are understood; this is no full lexer, and need
/// not be one.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = skip_non_code(bytes, at);
        if end > at {
            out.extend(
                bytes[at..end]
                    .iter()
                    .map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }),
            );
            at = end;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn skip_non_code(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let until = |needle: &[u8], from: usize| {
        rest[from..]
            .windows(needle.len())
            .position(|window| window == needle)
            .map_or(bytes.len(), |found| at + from + found + needle.len())
    };
    if rest.starts_with(b"//") {
        return rest
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(bytes.len(), |found| at + found);
    }
    if rest.starts_with(b"/*") {
        return until(b"*/", 2);
    }
    let word = |at: usize| bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_';
    // What stands before a raw string's `r`: nothing of a word, or the `b` or `c` of its kind.
    let prefix = usize::from(at > 0 && matches!(bytes[at - 1], b'b' | b'c'));
    let part_of_a_word = at > prefix && word(at - prefix - 1);
    if rest[0] == b'r' && !part_of_a_word {
        let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            let mut close = vec![b'"'];
            close.resize(1 + hashes, b'#');
            return until(&close, 2 + hashes);
        }
    }
    if rest[0] == b'\'' {
        if rest.get(1) == Some(&b'\\') {
            return until(b"'", 3.min(rest.len()));
        }
        // One character and a quote; otherwise it is a lifetime or a label.
        let character = 1 + rest[2.min(rest.len())..]
            .iter()
            .take_while(|&&byte| byte & 0xC0 == 0x80)
            .count();
        if rest.get(1 + character) == Some(&b'\'') {
            return at + character + 2;
        }
    }
    if rest[0] == b'"' {
        let mut end = 1;
        while end < rest.len() && rest[end] != b'"' {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        return (at + end + 1).min(bytes.len());
    }
    at
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn words_in_comments_and_strings_are_not_code() {
        let text =
            "let a = \"unsafe \\\" {\"; // unsafe {\nlet q = '\"'; /* unsafe */ unsafe { b }";
        assert_eq!(code_only(text).matches("unsafe").count(), 1);
        assert_eq!(code_only(text).lines().count(), text.lines().count());
    }

    #[test]
    fn raw_strings_end_at_their_own_number_of_hashes() {
        let text = "r#\"unsafe \" still \"# unsafe";
        assert_eq!(code_only(text).trim(), "unsafe");
        let bytes = code_only("br#\"a \" { \"# unsafe");
        assert_eq!(bytes.split_whitespace().collect::<String>(), "bunsafe");
    }

    #[test]
    fn a_character_is_no_code_and_a_lifetime_is() {
        let text = r"('{', '\'', b'\\', '\u{7f}', 'é', '\n') <'a, 'b>";
        let code: String = code_only(text).split_whitespace().collect();
        assert_eq!(code, "(,,b,,,)<'a,'b>");
    }
}
