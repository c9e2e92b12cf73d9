//! memcached's tests, against the memcached that is installed.

use super::suite::{Suite, Tests};
use super::tap;
use crate::shell;
use anyhow::Result;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const SUITE: Suite = Suite {
    name: "memcached",
    source: "memcached",
    needs: &[
        ("/usr/bin/memcached", "memcached"),
        ("/usr/bin/cc", "gcc"),
        ("/usr/bin/perl", "perl"),
        ("/usr/bin/dpkg-source", "dpkg-dev"),
    ],
    prepare,
    each: Duration::from_secs(60),
    all: Duration::from_secs(1200),
    read: tap::read,
};

/// Stands where the tests expect what they have built. They speak by sockets of the Unix domain, unless
/// there are none, as far as the help says. What Debian's does not know is a word that says nothing new.
const SERVER: &str = "\
#!/bin/sh
if [ \"$1\" = -h ]; then
    /usr/bin/memcached -h | grep -v unix-socket
    exit
fi
for word do
    shift
    [ \"$word\" != relaxed_privileges ] || word=modern
    set -- \"$@\" \"$word\"
done
exec /usr/bin/memcached \"$@\"
";

/// Words in the names of those that are about memory, files, and what else is not TCP.
const NOT_ABOUT_TCP: &[&str] = &[
    "chunked",
    "dash-M",
    "evictions",
    "extstore",
    "lru",
    "maxbytes",
    "proxy",
    "restart",
    "slab",
    "ssl",
    "udp",
    "unixsocket",
    "whitespace",
];

fn is_about_tcp(name: &str) -> bool {
    name.ends_with(".t") && !NOT_ABOUT_TCP.iter().any(|word| name.contains(word))
}

fn prepare(source: &Path) -> Result<Tests> {
    let server = source.join("memcached-debug");
    std::fs::write(&server, SERVER)?;
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755))?;
    shell::quiet(
        Command::new("cc")
            .current_dir(source)
            .args(["-o", "timedrun", "timedrun.c"]),
    )?;
    let mut list = Vec::new();
    for entry in std::fs::read_dir(source.join("t"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_about_tcp(&name) {
            list.push(format!("t/{name}"));
        }
    }
    list.sort();
    let mut command = Command::new("/usr/bin/perl");
    command.current_dir(source);
    Ok(Tests { command, list })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_about_tcp_is_left_out() {
        assert!(is_about_tcp("getset.t"));
        assert!(!is_about_tcp("binary-extstore.t"));
        assert!(!is_about_tcp("README-TLS.md"));
    }
}
