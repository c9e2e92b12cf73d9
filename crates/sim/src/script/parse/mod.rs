//! From a text to a [`Script`], by hand: the language is small, and an error should say what was
//! expected where. Texts come from anywhere: nothing here panics, and everything has a limit.

mod assertion;
mod call;
mod cursor;
mod packet;
mod value;

use core::time::Duration;

use super::ast::{Event, Moment, Options, Script, Side, Version, What, When};
use super::error::ParseError;
use super::setting::{self, Setting};
use cursor::{Cursor, Parsed};

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 256 << 10;
/// The most events of a script.
pub const MAX_EVENTS: usize = 4096;
/// The most settings in one place.
const MAX_SETTINGS: usize = 64;

/// Reads a script.
///
/// # Errors
/// It is not one: where, and why.
pub fn parse(text: &str) -> Result<Script, ParseError> {
    let mut cursor = Cursor::new(text);
    if text.len() > MAX_TEXT {
        return cursor.error(format!("longer than {MAX_TEXT} bytes"));
    }
    let mut script = Script {
        options: options(&mut cursor)?,
        ..Script::default()
    };
    cursor.skip()?;
    if cursor.peek() == Some('`') {
        script.settings = settings(&mut cursor)?;
    }
    loop {
        cursor.skip()?;
        if cursor.rest().is_empty() {
            return Ok(script);
        }
        if script.events.len() == MAX_EVENTS {
            return cursor.error(format!("more than {MAX_EVENTS} events"));
        }
        script.events.push(event(&mut cursor)?);
    }
}

/// `--name=value` lines.
fn options(cursor: &mut Cursor<'_>) -> Parsed<Options> {
    let mut options = Options::default();
    while cursor.eat("--")? {
        let at = cursor.here();
        let name = cursor.word()?;
        cursor.expect("=")?;
        match name {
            "ip_version" => {
                let at = cursor.here();
                options.version = Some(match cursor.word()? {
                    "ipv4" => Version::V4,
                    "ipv6" => Version::V6,
                    other => {
                        return cursor.error_at(at, format!("{other}: expected ipv4 or ipv6"));
                    }
                });
            }
            "tolerance_usecs" => {
                let micros = cursor.number("a tolerance in microseconds", 10_000_000)?;
                options.tolerance = Duration::from_micros(micros);
            }
            "mtu" => {
                let at = cursor.here();
                let mtu = cursor.number("an MTU", 9000)?;
                if mtu < 576 {
                    return cursor.error_at(at, "an MTU of less than 576");
                }
                options.mtu = mtu as u16;
            }
            other => return cursor.error_at(at, format!("unknown option --{other}")),
        }
    }
    Ok(options)
}

/// Settings between backticks, one a line: `sysctl -q net.ipv4.tcp_sack=0`.
fn settings(cursor: &mut Cursor<'_>) -> Parsed<Vec<Setting>> {
    cursor.expect("`")?;
    let mut settings = Vec::new();
    while !cursor.eat("`")? {
        let at = cursor.here();
        if settings.len() == MAX_SETTINGS {
            return cursor.error(format!("more than {MAX_SETTINGS} settings"));
        }
        if cursor.eat_word("sysctl")? {
            while cursor.eat("-q")? || cursor.eat("-w")? {}
        }
        cursor.skip()?;
        let rest = cursor.rest();
        let end = rest.find(['\n', '`', ';']).unwrap_or(rest.len());
        let Some((name, value)) = rest[..end].split_once('=') else {
            return cursor.error_at(at, "expected name=value");
        };
        let Some(known) = setting::known(name.trim()) else {
            return cursor.error_at(at, format!("{:?} cannot be set by a script", name.trim()));
        };
        let value = value.trim().trim_matches(['"', '\'']);
        let plain = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == '_';
        if value.is_empty() || value.len() > 64 || !value.chars().all(plain) {
            return cursor.error_at(at, format!("{known}: expected numbers or a word"));
        }
        settings.push(Setting {
            name: known,
            value: value.to_owned(),
        });
        cursor.advance(end);
        cursor.eat(";")?;
    }
    Ok(settings)
}

fn event(cursor: &mut Cursor<'_>) -> Parsed<Event> {
    let line = cursor.line();
    let only = if cursor.eat("@")? {
        let at = cursor.here();
        Some(match cursor.word()? {
            "outboard" => Side::Outboard,
            "linux" => Side::Linux,
            other => return cursor.error_at(at, format!("@{other}: expected outboard or linux")),
        })
    } else {
        None
    };
    let at = cursor.here();
    let when = when(cursor)?;
    let what = what(cursor)?;
    match (&when, &what) {
        (When::During(..), What::Call(..)) => {}
        (When::During(..), _) => return cursor.error_at(at, "only a call takes from … to …"),
        (When::Between(..) | When::Any, What::Outbound(_)) | (When::Moment(_), _) => {}
        _ => {
            return cursor.error_at(
                at,
                "a range of times, or any time, is for packets that leave",
            );
        }
    }
    Ok(Event {
        line,
        only,
        when,
        what,
    })
}

fn when(cursor: &mut Cursor<'_>) -> Parsed<When> {
    if cursor.eat("*")? {
        return Ok(When::Any);
    }
    let (first, relative) = moment(cursor, false)?;
    if cursor.eat("...")? {
        // As packetdrill: what follows the dots counts from where the first counts from.
        let (second, _) = moment(cursor, relative)?;
        return Ok(When::During(first, second));
    }
    if cursor.eat("~")? {
        let (second, _) = moment(cursor, relative)?;
        return Ok(When::Between(first, second));
    }
    Ok(When::Moment(first))
}

/// `0.1` or `+0.1`; and whether it is relative.
fn moment(cursor: &mut Cursor<'_>, relative: bool) -> Parsed<(Moment, bool)> {
    let relative = cursor.eat("+")? || relative;
    let span = cursor.seconds()?;
    let moment = if relative {
        Moment::After(span)
    } else {
        Moment::At(span)
    };
    Ok((moment, relative))
}

fn what(cursor: &mut Cursor<'_>) -> Parsed<What> {
    cursor.skip()?;
    match cursor.peek() {
        Some('<') => {
            cursor.advance(1);
            packet::packet(cursor, true).map(What::Inbound)
        }
        Some('>') => {
            cursor.advance(1);
            packet::packet(cursor, false).map(What::Outbound)
        }
        Some('`') => settings(cursor).map(What::Set),
        Some('%') => assertion::assertions(cursor).map(What::Assert),
        Some(c) if c.is_ascii_alphabetic() => {
            let (call, expected) = call::call(cursor)?;
            Ok(What::Call(call, expected))
        }
        _ => cursor.error(format!(
            "expected <, >, a system call, `settings` or %{{ assertions }}%, found {}",
            cursor.next_words()
        )),
    }
}

#[cfg(test)]
mod tests;
