//! What to do about what the kernel refused, where there is something to do.

use anyhow::{Context, anyhow};
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use stateless::responder::run::{Listen, refuse_taken};

/// What is said to people: without the numbers of errors, which stand beside their words.
pub fn plain(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        text += before;
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
        rest = digits.strip_prefix(')').unwrap_or(digits);
    }
    text + rest
}

/// Why nobody can listen on an address.
pub fn listening(address: SocketAddr, error: &Error) -> anyhow::Error {
    let (ip, port) = (address.ip(), address.port());
    let loopbacks: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    // Where all are meant, who has the port of a loopback is in the way, too.
    let addresses = match ip.is_unspecified() {
        true => vec![None, Some(loopbacks[0]), Some(loopbacks[1])],
        false => vec![Some(ip)],
    };
    let listen = addresses.into_iter().map(|address| Listen {
        address,
        ports: port..=port,
    });
    match error.kind() {
        ErrorKind::AddrInUse => match refuse_taken(&listen.collect::<Vec<_>>()) {
            Err(taken) => anyhow!("cannot listen on {address}: {taken}"),
            Ok(()) => {
                anyhow!("cannot listen on {address}: something else has that port (ss -tlnp)")
            }
        },
        ErrorKind::AddrNotAvailable => anyhow!(
            "cannot listen on {address}: {ip} is no address of this machine; `ip addr` lists those \
             that are, and :{port} means all of them"
        ),
        ErrorKind::PermissionDenied => {
            let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
            let first = first.ok().and_then(|text| text.trim().parse().ok());
            let first: u16 = first.unwrap_or(1024);
            anyhow!(
                "cannot listen on {address}: ports below {first} need root or CAP_NET_BIND_SERVICE; \
                 use sudo, or a port from {first} on"
            )
        }
        _ => anyhow!("cannot listen on {address}: {error}"),
    }
}

/// Finds out whether a file that an option names can be written, before there is work to lose. What is
/// no plain file, such as a pipe or standard output, is left to be tried.
pub fn try_to_write(option: &str, path: &Path) -> anyhow::Result<()> {
    let existed = match path.metadata() {
        Ok(there) if !there.is_file() && !there.is_dir() => return Ok(()),
        there => there.is_ok(),
    };
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .with_context(|| format!("cannot write {option} {}", path.display()))?;
    if !existed {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// What to say to an option's value that should be a whole number and is none: Rust's own words for that
/// are of digits found in strings.
pub fn whole_number(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<std::num::ParseIntError>()?;
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = context(ContextKind::InvalidArg)?;
    let value = context(ContextKind::InvalidValue)?;
    Some(format!(
        "{option}: {value:?} is no whole number; write one without a unit, such as 10"
    ))
}

/// A number of a process, as an option's value.
pub fn process(text: &str) -> Result<u32, String> {
    match text.trim().parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("write the number of a process, such as $(pgrep -o nginx)".into()),
    }
}

/// A process, as an argument: its number, or the name of its program.
pub fn process_or_name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        process(text)?;
    }
    Ok(text.to_owned())
}

/// A name of an engine, as an option's value: it is part of a path.
pub fn engine_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.starts_with('.') || !text.bytes().all(fits) {
        return Err("an engine's name is of letters, digits, '-', '_' and '.' (not first)".into());
    }
    Ok(text.into())
}

/// A time, as an option's value: seconds, unless it has another unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let at = text
        .find(|c: char| c.is_ascii_alphabetic() || c == 'µ')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit:?} is no unit: write us, ms, s, m or h")),
    };
    match number.parse::<f64>() {
        Ok(number) if number >= 0.0 && number * scale < 1e7 => {
            Ok(Duration::from_secs_f64(number * scale))
        }
        _ => Err("write a time such as 500ms or 10s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let said = "reading x: No such file or directory (os error 2): and (os error 13) so on";
        let plain = plain(said);
        assert_eq!(plain, "reading x: No such file or directory: and so on");
        assert_eq!(super::plain("os error"), "os error");
    }

    #[test]
    fn what_is_tried_is_left_as_it_was() {
        let path = std::env::temp_dir().join(format!("outboard-tried-{}", std::process::id()));
        try_to_write("--plot", &path).expect("it can be written");
        assert!(!path.exists());
        std::fs::write(&path, "kept").expect("a file");
        try_to_write("--plot", &path).expect("it can be written");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "kept");
        std::fs::remove_file(&path).expect("it is there");
        try_to_write("--plot", Path::new("/dev/null")).expect("no plain file");
        for wrong in ["/nonexistent/x.svg", "/tmp"] {
            let said = try_to_write("--plot", Path::new(wrong)).expect_err("it cannot");
            assert_eq!(said.to_string(), format!("cannot write --plot {wrong}"));
        }
    }

    #[test]
    fn names_do_not_leave_their_directory() {
        for wrong in ["", ".", "..", "../x", "a/b", "a b", ".hidden"] {
            assert!(engine_name(wrong).is_err(), "{wrong}");
        }
        assert_eq!(engine_name("web-1.a_b").as_deref(), Ok("web-1.a_b"));
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let say = |error: ErrorKind| {
            let address = (std::net::IpAddr::from([192, 0, 2, 1]), 81).into();
            listening(address, &error.into()).to_string()
        };
        assert!(say(ErrorKind::AddrNotAvailable).contains("`ip addr`"));
        assert!(say(ErrorKind::PermissionDenied).contains("need root"));
        assert!(say(ErrorKind::AddrInUse).contains("ss -tlnp"));
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("bound");
        let said = listening(address, &ErrorKind::AddrInUse.into()).to_string();
        let own = format!("process {}", std::process::id());
        assert!(
            said.contains(&own) && said.contains("use another port"),
            "{said}"
        );
    }
}
