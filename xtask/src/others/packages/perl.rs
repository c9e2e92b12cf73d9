//! Perl's tests of its sockets, by the Perl that is installed.

use super::suite::{Suite, Tests};
use super::tap;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const SUITE: Suite = Suite {
    name: "perl",
    source: "perl",
    needs: &[
        ("/usr/bin/perl", "perl"),
        ("/usr/bin/dpkg-source", "dpkg-dev"),
    ],
    prepare,
    each: Duration::from_secs(120),
    all: Duration::from_secs(900),
    read: tap::read,
};

/// Directories with such tests, and how the names of those begin.
const TESTS: &[(&str, &str)] = &[
    ("dist/IO", "cachepropagate-tcp"),
    ("dist/IO", "io_multihomed"),
    ("dist/IO", "io_poll"),
    ("dist/IO", "io_sel"),
    ("dist/IO", "io_sock"),
    ("cpan/IO-Socket-IP", ""),
    ("cpan/Socket", ""),
    ("cpan/libnet", ""),
];

/// Runs a test from the directory above the one it is in.
const FROM_ABOVE: &str = r#"cd "${1%/t/*}" && exec /usr/bin/perl -w "t/${1##*/}""#;

fn prepare(source: &Path) -> Result<Tests> {
    let mut list = Vec::new();
    for (directory, start) in TESTS {
        for entry in std::fs::read_dir(source.join(directory).join("t"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with(start) && name.ends_with(".t") {
                list.push(format!("{directory}/t/{name}"));
            }
        }
    }
    list.sort();
    let mut command = Command::new("sh");
    command.current_dir(source).args(["-c", FROM_ABOVE, "sh"]);
    Ok(Tests { command, list })
}
