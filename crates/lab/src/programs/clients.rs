//! Clients that are programs: what a protocol's own users run, as a line of the shell.
//!
//! A line runs at the client's side, in an empty directory of its own, and ends with an error if any of its
//! commands does. It finds in its environment
//!
//! - `HOST` and `PORT`, where the server is;
//! - `NAME` and `SIZE`, what is asked for, and `FILE`, a file that has just that in it;
//! - `DIR`, the server's directory, with what was prepared there;
//! - `ID`, which no other line has.

use super::exchange::{LIMIT, SMALL, differs};
use super::place::{PORT, Place};
use crate::tool;
use crate::world::Side;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How clients of one kind are run.
#[derive(Debug)]
pub struct Client {
    /// One exchange. What it prints has to be what is in `FILE`, after it has been through the server.
    pub exchange: &'static str,
    /// Two hundred at once, by a program that does it itself, if there is one: it prints what there is to say
    /// of it. Without it two hundred exchanges are begun at once.
    pub at_once: Option<&'static str>,
    /// Prints how much is done in a second, by a program that measures it itself.
    pub rate: Option<&'static str>,
}

impl Client {
    /// A client that is nothing but this exchange.
    pub const fn of(exchange: &'static str) -> Self {
        Self {
            exchange,
            at_once: None,
            rate: None,
        }
    }

    /// One exchange, held against what it has to be. It may take so long.
    ///
    /// # Errors
    /// A program fails, takes too long, or brings something else.
    pub fn once(&self, place: &Place, what: (&str, usize), limit: Duration) -> Result<()> {
        let (printed, complaint) = run(self.exchange, place, what, limit)?;
        let expected = std::fs::read(place.site.join(what.0))?;
        match differs(&printed, &expected) {
            None => Ok(()),
            // The first of several in a pipeline may have failed.
            Some(at) => bail!(
                "wrong bytes after {at} ({})",
                came_instead(&printed[at..], &complaint)
            ),
        }
    }
}

/// What is known of what came instead of what had to: what the client complains of, or how it begins, if it is text,
/// as what a server says of an error is.
fn came_instead(rest: &[u8], complaint: &str) -> String {
    const MOST: usize = 120;
    let text = std::str::from_utf8(rest).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    match complaint.is_empty() && !words.is_empty() {
        true => format!(
            "`{}`",
            words.join(" ").chars().take(MOST).collect::<String>()
        ),
        false => complaint.to_owned(),
    }
}

/// What a line says that does not exchange, but counts.
pub fn said(line: &str, place: &Place) -> Result<String> {
    let (printed, _) = run(line, place, SMALL, 10 * LIMIT)?;
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}

/// Runs a line in the network of the calling thread, and returns what it prints, and the last line of what it
/// complains of.
fn run(
    line: &str,
    place: &Place,
    what: (&str, usize),
    limit: Duration,
) -> Result<(Vec<u8>, String)> {
    static RUN: AtomicU64 = AtomicU64::new(0);
    let id = RUN.fetch_add(1, Ordering::Relaxed);
    let own = place.directory.join(format!("client-{id}"));
    std::fs::create_dir(&own)?;
    let output = command(line, place, what, limit, &own)
        .env("ID", id.to_string())
        .output()
        .context("a client cannot be run");
    std::fs::remove_dir_all(&own)?;
    let output = output?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.trim().lines().next_back().unwrap_or_default();
    // As timeout(1) says it.
    ensure!(
        output.status.code() != Some(124),
        "the client does not end within {limit:?}"
    );
    ensure!(
        output.status.success(),
        "the client fails ({}): {complaint}",
        output.status
    );
    Ok((output.stdout, complaint.to_owned()))
}

fn command(line: &str, place: &Place, what: (&str, usize), limit: Duration, own: &Path) -> Command {
    // The line dies with the thread that waits for it.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "timeout", "--kill-after=5"])
        .arg(limit.as_secs().to_string())
        .args(["sh", "-euc", line])
        .current_dir(own)
        .env("PATH", tool::search_path())
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", own)
        .env("HOST", Side::Server.ipv4().to_string())
        .env("PORT", PORT.to_string())
        .env("NAME", what.0)
        .env("SIZE", what.1.to_string())
        .env("FILE", place.site.join(what.0))
        .env("DIR", &place.directory)
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place in a directory of the test's own, with a small file to serve.
    fn place(name: &str) -> Place {
        let directory = std::env::temp_dir().join(format!("lab-{name}-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join(SMALL.0), "as it was\n").unwrap();
        Place {
            program: "sh".into(),
            site: directory.clone(),
            directory,
            behind: String::new(),
        }
    }

    #[test]
    fn what_a_line_brings_is_held_against_the_file() {
        let place = place("line");
        let once = |line| {
            Client::of(line)
                .once(&place, SMALL, LIMIT)
                .map_err(|error| error.to_string())
        };
        assert_eq!(once("cp \"$FILE\" own; cat own"), Ok(()));
        assert_eq!(
            once("sed s/was/is/ \"$FILE\""),
            Err("wrong bytes after 6 (`is`)".into())
        );
        assert_eq!(
            once("head -c 5 \"$FILE\""),
            Err("wrong bytes after 5 ()".into())
        );
        let failed = once("echo first >&2; echo no server >&2; false; cat \"$FILE\"").unwrap_err();
        assert!(failed.ends_with(": no server"), "{failed}");
        // Nothing is left of a line's own directory.
        let left = std::fs::read_dir(&place.directory).unwrap().count();
        assert_eq!(left, 1);
        std::fs::remove_dir_all(&place.directory).unwrap();
    }

    #[test]
    fn a_line_that_hangs_is_ended() {
        let place = place("hangs");
        let result = Client::of("sleep 120").once(&place, SMALL, Duration::from_secs(1));
        std::fs::remove_dir_all(&place.directory).unwrap();
        assert!(result.unwrap_err().to_string().contains("does not end"));
    }
}
