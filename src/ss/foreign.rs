//! What ss(8) can that has no meaning here, so that who tries it learns why, and what there is
//! instead.

use anyhow::{Result, bail};
use clap::ArgAction::Count;
use std::path::PathBuf;

/// Options of ss(8) that say what is so anyway, or ask for what is not here.
#[derive(clap::Args)]
pub struct Foreign {
    #[arg(short = 't', long, hide = true, action = Count)]
    tcp: u8,
    #[arg(short = 'n', long, hide = true, action = Count)]
    numeric: u8,
    #[arg(short = 's', long, hide = true)]
    summary: bool,
    #[arg(short = 'r', long, hide = true)]
    resolve: bool,
    #[arg(short = 'e', long, hide = true)]
    extended: bool,
    #[arg(short = 'T', long, hide = true)]
    threads: bool,
    #[arg(long, hide = true)]
    tos: bool,
    #[arg(long, hide = true)]
    cgroup: bool,
    #[arg(short = 'b', long, hide = true)]
    bpf: bool,
    #[arg(long = "inet-sockopt", hide = true)]
    inet_sockopt: bool,
    #[arg(short = 'Z', long, hide = true)]
    context: bool,
    #[arg(short = 'z', long, hide = true)]
    contexts: bool,
    #[arg(short = 'E', long, hide = true)]
    events: bool,
    #[arg(short = 'K', long, hide = true)]
    kill: bool,
    #[arg(short = 'N', long, hide = true, value_name = "NETNS")]
    net: Option<String>,
    #[arg(short = 'D', long, hide = true, value_name = "FILE")]
    diag: Option<PathBuf>,
    #[arg(
        short = 'A',
        long,
        visible_alias = "socket",
        hide = true,
        value_name = "QUERY"
    )]
    query: Option<String>,
    #[arg(short = 'u', long, hide = true)]
    udp: bool,
    #[arg(short = 'x', long, hide = true)]
    unix: bool,
    #[arg(short = '0', long, hide = true)]
    packet: bool,
    #[arg(short = 'M', long, hide = true)]
    mptcp: bool,
    #[arg(short = 'S', long, hide = true)]
    sctp: bool,
    #[arg(short = 'd', long, hide = true)]
    dccp: bool,
    #[arg(short = 'w', long, hide = true)]
    raw: bool,
    #[arg(long, hide = true)]
    tipc: bool,
    #[arg(long, hide = true)]
    tipcinfo: bool,
    #[arg(long, hide = true)]
    vsock: bool,
    #[arg(long, hide = true)]
    xdp: bool,
}

impl Foreign {
    /// Refuses what is not here.
    pub fn check(&self) -> Result<()> {
        let only_tcp = "only TCP is offloaded: ss(8) shows the kernel's";
        let of_kernel = "that is the kernel's of its own sockets, and these are the engine's";
        let queried = self.query.as_deref().unwrap_or("tcp");
        let other_query = queried
            .split(',')
            .any(|one| !["all", "inet", "tcp"].contains(&one));
        for (given, name, instead) in [
            (self.summary, "-s", "outboard stats has the sums"),
            (
                self.resolve,
                "-r",
                "numbers are never turned into names, so that the answer waits for no name server",
            ),
            (
                self.extended,
                "-e",
                "-i, -o and -m show more, and --json all",
            ),
            (
                self.threads,
                "-T",
                "-p shows the process; the engine does not know its threads",
            ),
            (self.tos, "--tos", of_kernel),
            (self.cgroup, "--cgroup", of_kernel),
            (self.bpf, "-b", of_kernel),
            (self.inet_sockopt, "--inet-sockopt", of_kernel),
            (self.context, "-Z", of_kernel),
            (self.contexts, "-z", of_kernel),
            (
                self.events,
                "-E",
                "outboard capture shows connections that end, with what ended them",
            ),
            (self.kill, "-K", "a connection is its program's to end"),
            (
                self.net.is_some(),
                "-N",
                "an engine is reached from any network namespace, by --engine NAME",
            ),
            (
                self.diag.is_some(),
                "-D",
                "--json >FILE keeps all that there is",
            ),
            (other_query, "-A", only_tcp),
            (self.udp, "-u", only_tcp),
            (self.unix, "-x", only_tcp),
            (self.packet, "-0", only_tcp),
            (self.mptcp, "-M", only_tcp),
            (self.sctp, "-S", only_tcp),
            (self.dccp, "-d", only_tcp),
            (self.raw, "-w", only_tcp),
            (self.tipc, "--tipc", only_tcp),
            (self.tipcinfo, "--tipcinfo", only_tcp),
            (self.vsock, "--vsock", only_tcp),
            (self.xdp, "--xdp", only_tcp),
        ] {
            if given {
                bail!("{name}: {instead}");
            }
        }
        Ok(())
    }
}

/// A word of a filter with the port that a service's name stands for, as /etc/services has it.
pub fn with_port(word: &str, services: &str) -> Result<String> {
    let named = word.rsplit_once(':').filter(|(_, name)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    });
    let Some((before, name)) = named else {
        return Ok(word.to_owned());
    };
    // Of an IPv6 address that is neither in brackets nor has a port, the end is no name.
    if before.contains(':') && !before.ends_with(']') && !before.contains('/') {
        return Ok(word.to_owned());
    }
    let line = services.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_whitespace();
        let (first, port) = (words.next()?, words.next()?.strip_suffix("/tcp")?);
        let is_it = first == name || words.any(|alias| alias == name);
        is_it.then_some(port)
    });
    match line {
        Some(port) => Ok(format!("{before}:{port}")),
        None => bail!("filter: {name:?} is no service of TCP in /etc/services; write its port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_ports() {
        let services = "# all\nssh 22/tcp # shell\ndomain 53/udp\nhttp\t\t80/tcp www\n";
        let port = |word| with_port(word, services).unwrap();
        assert_eq!(port(":http"), ":80");
        assert_eq!(port(":www"), ":80");
        assert_eq!(port("10.0.0.0/8:ssh"), "10.0.0.0/8:22");
        assert_eq!(port("[fd00::1]:ssh"), "[fd00::1]:22");
        for same in [
            "established",
            ":80",
            "10.0.0.1:80",
            "fd00::abc",
            "fd00::1",
            "=",
            "[::]",
        ] {
            assert_eq!(port(same), same);
        }
        assert!(
            with_port(":domain", services)
                .unwrap_err()
                .to_string()
                .contains("write its port")
        );
    }
}
