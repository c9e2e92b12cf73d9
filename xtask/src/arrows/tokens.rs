//! Rust source as words and signs, each with its line.

use crate::sources::code_only;

/// A word, a number or a sign.
pub struct Token {
    /// As it is written.
    pub text: String,
    /// The line it is on, from one.
    pub line: usize,
}

/// Signs of more than one character that a reader of paths must not take apart.
const SIGNS: &[&str] = &["::", "..", "->", "=>", "<=", ">="];

/// The tokens of `source`; comments and literals are left out.
pub fn of(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (number, text) in code_only(source).lines().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = |from: usize| {
                rest[from..]
                    .find(|c| !part_of_a_word(c))
                    .map_or(rest.len(), |end| from + end)
            };
            let length = if part_of_a_word(first) {
                word(0)
            } else if first == '\'' {
                // A lifetime or a label: no word, whatever it is called.
                word(1)
            } else {
                SIGNS
                    .iter()
                    .find(|sign| rest.starts_with(**sign))
                    .map_or(first.len_utf8(), |sign| sign.len())
            };
            tokens.push(Token {
                text: rest[..length].into(),
                line: number + 1,
            });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn part_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `text` can name something: a word that is no number.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| part_of_a_word(c) && !c.is_ascii_digit())
}

/// The index after the group that opens at `open`; the end if it is never closed.
pub fn after_group(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}
