//! The arguments of calls, before anybody asks what they are for.

use super::cursor::{Cursor, Parsed};
use crate::script::call::constant;

/// The most elements of a list, and fields of a structure.
const MAX_ELEMENTS: usize = 32;
/// How deep lists and structures may nest.
const MAX_DEPTH: usize = 4;

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// `...`
    Any,
    /// A number, or names that stand for one joined by `|`.
    Number(i64),
    /// `"reno"`
    Text(String),
    /// `[1, 2]`
    List(Vec<Value>),
    /// `{fd=3, events=POLLIN}`
    Struct(Vec<(String, Value)>),
}

/// The arguments of a call, between parentheses.
pub(super) fn arguments(cursor: &mut Cursor<'_>) -> Parsed<Vec<Value>> {
    cursor.expect("(")?;
    list(cursor, ")", 0)
}

fn list(cursor: &mut Cursor<'_>, end: &str, depth: usize) -> Parsed<Vec<Value>> {
    let mut values = Vec::new();
    if cursor.eat(end)? {
        return Ok(values);
    }
    loop {
        if values.len() == MAX_ELEMENTS {
            return cursor.error(format!("more than {MAX_ELEMENTS} elements"));
        }
        values.push(value(cursor, depth)?);
        if cursor.eat(end)? {
            return Ok(values);
        }
        cursor.expect(",")?;
    }
}

fn value(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Value> {
    if depth > MAX_DEPTH {
        return cursor.error("nested too deeply");
    }
    if cursor.eat("...")? {
        return Ok(Value::Any);
    }
    if cursor.eat("[")? {
        return list(cursor, "]", depth + 1).map(Value::List);
    }
    if cursor.eat("{")? {
        return structure(cursor, depth + 1).map(Value::Struct);
    }
    if cursor.eat("\"")? {
        let text = cursor.until("\"", "a text")?;
        return Ok(Value::Text(text.to_owned()));
    }
    let mut number = term(cursor)?;
    while cursor.eat("|")? {
        number |= term(cursor)?;
    }
    Ok(Value::Number(number))
}

fn structure(cursor: &mut Cursor<'_>, depth: usize) -> Parsed<Vec<(String, Value)>> {
    let mut fields = Vec::new();
    loop {
        if fields.len() == MAX_ELEMENTS {
            return cursor.error(format!("more than {MAX_ELEMENTS} fields"));
        }
        let name = cursor.word()?;
        if name.is_empty() {
            return cursor.error("expected the name of a field");
        }
        cursor.expect("=")?;
        fields.push((name.to_owned(), value(cursor, depth)?));
        if cursor.eat("}")? {
            return Ok(fields);
        }
        cursor.expect(",")?;
    }
}

/// A number, a name that stands for one, or `htons(80)`.
pub(super) fn term(cursor: &mut Cursor<'_>) -> Parsed<i64> {
    let negative = cursor.eat("-")?;
    if cursor.at_digit()? {
        let number = cursor.number("a number", i64::MAX as u64)? as i64;
        return Ok(if negative { -number } else { number });
    }
    let at = cursor.here();
    let name = cursor.word()?;
    if name == "htons" {
        cursor.expect("(")?;
        let port = cursor.number("a port", u16::MAX.into())?;
        cursor.expect(")")?;
        return Ok(port as i64);
    }
    if name == "inet_addr" || name == "inet_pton" {
        // The addresses are those of the world, whatever a script calls them.
        cursor.expect("(")?;
        cursor.until(")", "an address")?;
        return Ok(0);
    }
    match constant::by_name(name) {
        Some(number) => Ok(number.into()),
        None => cursor.error_at(at, format!("{name:?} stands for no number")),
    }
}
