//! `write(4, ..., 1000) = 1000` and the other calls.

use core::time::Duration;

use super::cursor::{Cursor, Parsed};
use super::value::{self, Value};
use crate::script::call::{Address, Also, Call, Expected, OptionValue, constant};
use crate::script::errno::Errno;

/// The most bytes that a call may move.
const MAX_COUNT: i64 = 16 << 20;

/// The arguments of one call, and where it stands, for messages.
struct Arguments<'a, 'b> {
    cursor: &'b Cursor<'a>,
    at: usize,
    name: &'a str,
    values: Vec<Value>,
}

/// Descriptors with the events asked for, and the events expected to be found.
type Polled = (Vec<(i32, i16)>, Vec<i16>);

pub(super) fn call(cursor: &mut Cursor<'_>) -> Parsed<(Call, Expected)> {
    cursor.skip()?;
    let at = cursor.here();
    let name = cursor.word()?;
    let values = value::arguments(cursor)?;
    let arguments = Arguments {
        cursor,
        at,
        name,
        values,
    };
    let (call, also) = arguments.call()?;
    cursor.expect("=")?;
    let result = result(cursor)?;
    Ok((call, Expected { result, also }))
}

/// `0`, `-1 EAGAIN (Resource temporarily unavailable)`, `0x802 (flags O_RDWR|O_NONBLOCK)`, `?`
fn result(cursor: &mut Cursor<'_>) -> Parsed<Option<Result<i64, Errno>>> {
    if cursor.eat("?")? {
        return Ok(None);
    }
    let number = value::term(cursor)?;
    cursor.skip_blanks();
    let mut result = Ok(number);
    if number == -1 {
        let at = cursor.here();
        let name = cursor.word()?;
        let Some(errno) = Errno::by_name(name) else {
            return cursor.error_at(at, format!("{name:?} is no error"));
        };
        result = Err(errno);
        cursor.skip_blanks();
    }
    if cursor.rest().starts_with('(') {
        cursor.until(")", "a remark")?;
    }
    Ok(Some(result))
}

impl Arguments<'_, '_> {
    fn call(&self) -> Parsed<(Call, Also)> {
        let mut also = Also::Nothing;
        let call = match self.name {
            "socket" => {
                self.takes(3)?;
                let kind = self.int(1)?;
                Call::Socket {
                    non_blocking: kind & constant::SOCK_NONBLOCK != 0,
                }
            }
            "bind" => {
                self.takes(3)?;
                Call::Bind {
                    fd: self.int(0)?,
                    address: self.address(1)?,
                }
            }
            "listen" => {
                self.takes(2)?;
                Call::Listen {
                    fd: self.int(0)?,
                    backlog: self.int(1)?,
                }
            }
            "accept" => {
                self.takes(3)?;
                Call::Accept { fd: self.int(0)? }
            }
            "connect" => {
                self.takes(3)?;
                Call::Connect {
                    fd: self.int(0)?,
                    address: self.address(1)?,
                }
            }
            "read" | "recv" => {
                let flags = self.name == "recv";
                self.takes(if flags { 4 } else { 3 })?;
                Call::Receive {
                    fd: self.int(0)?,
                    count: self.count(2)?,
                    flags: if flags { self.int(3)? } else { 0 },
                }
            }
            "write" | "send" => {
                let flags = self.name == "send";
                self.takes(if flags { 4 } else { 3 })?;
                Call::Send {
                    fd: self.int(0)?,
                    count: self.count(2)?,
                    flags: if flags { self.int(3)? } else { 0 },
                }
            }
            "close" => {
                self.takes(1)?;
                Call::Close { fd: self.int(0)? }
            }
            "shutdown" => {
                self.takes(2)?;
                Call::Shutdown {
                    fd: self.int(0)?,
                    how: self.int(1)?,
                }
            }
            "setsockopt" => {
                self.takes(5)?;
                Call::SetOption {
                    fd: self.int(0)?,
                    level: self.int(1)?,
                    name: self.int(2)?,
                    value: self.option(3)?,
                }
            }
            "getsockopt" => {
                self.takes(5)?;
                if self.values[3] != Value::Any {
                    also = Also::Option(self.option(3)?);
                }
                Call::GetOption {
                    fd: self.int(0)?,
                    level: self.int(1)?,
                    name: self.int(2)?,
                }
            }
            "poll" => {
                self.takes(3)?;
                let (fds, found) = self.polled()?;
                also = Also::Events(found);
                let timeout = self.number(2)?;
                Call::Poll {
                    fds,
                    timeout: u64::try_from(timeout).ok().map(Duration::from_millis),
                }
            }
            "fcntl" => {
                let argument = self.values.len() > 2;
                self.takes(if argument { 3 } else { 2 })?;
                Call::Control {
                    fd: self.int(0)?,
                    command: self.int(1)?,
                    argument: if argument { self.int(2)? } else { 0 },
                }
            }
            _ => return self.error(format!("{:?} is no call that a script can make", self.name)),
        };
        Ok((call, also))
    }

    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        self.cursor.error_at(self.at, message)
    }

    fn takes(&self, count: usize) -> Parsed<()> {
        if self.values.len() == count {
            return Ok(());
        }
        let (name, there) = (self.name, self.values.len());
        self.error(format!("{name} takes {count} arguments, not {there}"))
    }

    fn wrong<T>(&self, index: usize, expected: &str) -> Parsed<T> {
        let (name, number) = (self.name, index + 1);
        self.error(format!("argument {number} of {name}: expected {expected}"))
    }

    fn number(&self, index: usize) -> Parsed<i64> {
        match self.values.get(index) {
            Some(Value::Number(number)) => Ok(*number),
            // The family of a socket, and where bytes are, are the world's business.
            Some(Value::Any) if index < 2 => Ok(0),
            _ => self.wrong(index, "a number"),
        }
    }

    fn int(&self, index: usize) -> Parsed<i32> {
        match i32::try_from(self.number(index)?) {
            Ok(number) => Ok(number),
            Err(_) => self.wrong(index, "a number of 32 bits"),
        }
    }

    fn count(&self, index: usize) -> Parsed<usize> {
        let count = self.number(index)?;
        if (0..=MAX_COUNT).contains(&count) {
            Ok(count as usize)
        } else {
            self.wrong(index, "a number of bytes up to 16 MiB")
        }
    }

    /// `...` or `{sa_family=AF_INET, sin_port=htons(80), sin_addr=…}`
    fn address(&self, index: usize) -> Parsed<Option<Address>> {
        match self.values.get(index) {
            Some(Value::Any) => Ok(None),
            Some(Value::Struct(fields)) => {
                let port = fields.iter().find_map(|(name, value)| match value {
                    Value::Number(port) if name == "sin_port" || name == "sin6_port" => {
                        u16::try_from(*port).ok()
                    }
                    _ => None,
                });
                match port {
                    Some(port) => Ok(Some(Address { port })),
                    None => self.wrong(index, "an address with a port"),
                }
            }
            _ => self.wrong(index, "an address"),
        }
    }

    /// `[1]`, `{onoff=1, linger=0}` or `"reno"`, also in a list.
    fn option(&self, index: usize) -> Parsed<OptionValue> {
        let value = self.values.get(index);
        let value = match value {
            Some(Value::List(list)) if list.len() == 1 => list.first(),
            other => other,
        };
        let int = |value: &Value| match value {
            Value::Number(number) => i32::try_from(*number).ok(),
            _ => None,
        };
        let integers = match value {
            Some(Value::Text(name)) => return Ok(OptionValue::Name(name.clone())),
            Some(Value::List(list)) => list.iter().map(int).collect(),
            Some(Value::Struct(fields)) => fields.iter().map(|(_, value)| int(value)).collect(),
            Some(value) => int(value).map(|number| vec![number]),
            None => None,
        };
        match integers {
            Some(integers) if !integers.is_empty() => Ok(OptionValue::Integers(integers)),
            _ => self.wrong(index, "the value of an option"),
        }
    }

    /// What to poll for, and what is expected to be found.
    fn polled(&self) -> Parsed<Polled> {
        let Some(Value::List(list)) = self.values.first() else {
            return self.wrong(0, "a list");
        };
        let mut asked = Vec::new();
        let mut found = Vec::new();
        for element in list {
            let field = |name: &str| match element {
                Value::Struct(fields) => fields.iter().find_map(|(known, value)| match value {
                    Value::Number(number) if known == name => i32::try_from(*number).ok(),
                    _ => None,
                }),
                _ => None,
            };
            let event = |name: &str| field(name).and_then(|events| i16::try_from(events).ok());
            match (field("fd"), event("events"), event("revents")) {
                (Some(fd), Some(events), Some(revents)) => {
                    asked.push((fd, events));
                    found.push(revents);
                }
                _ => return self.wrong(0, "{fd=…, events=…, revents=…}"),
            }
        }
        Ok((asked, found))
    }
}
