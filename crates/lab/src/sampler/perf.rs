//! Where the time of a core goes, by perf(1): a stack of functions some hundred times a second, each put into a
//! class.

use crate::tool;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Looks a second. Not a multiple of what the kernel does by its tick.
const RATE: &str = "997";

/// What a core does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The server's own code, and its libraries'.
    Server,
    /// The engine's own code.
    Engine,
    /// TCP/IP of the kernel, in the server's calls: sending, receiving, opening and closing connections.
    Calls,
    /// TCP/IP of the kernel in softirq, and the driver, whoever was interrupted for it.
    Softirq,
    /// The kernel moves the engine's frames (AF_XDP, AF_PACKET).
    Frames,
    /// The kernel's rest, for server and engine: files, waiting, switching.
    Rest,
    /// Other programs, and the kernel for them.
    Others,
    /// Nothing.
    Idle,
}

/// How many looks there were of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looks(std::collections::BTreeMap<Class, u64>);

impl Looks {
    /// Those of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.0.get(&class).copied().unwrap_or(0)
    }

    /// Those of what serves: all but other programs and nothing.
    pub fn serving(&self) -> u64 {
        let all = self.0.iter();
        let serving = all.filter(|(class, _)| !matches!(class, Class::Others | Class::Idle));
        serving.map(|(_, looks)| looks).sum()
    }
}

/// Looks at a core for so long; `file` is used meanwhile. Whose processes are whose is asked when that is over: a server
/// may have started some for what came.
///
/// # Errors
/// perf does not run here.
pub fn look(
    core: usize,
    window: Duration,
    file: &Path,
    whose: impl FnOnce() -> Whose,
) -> Result<Looks> {
    let core = core.to_string();
    let mut record = Command::new("perf");
    record
        .args([
            "record",
            "-q",
            "-a",
            "-g",
            "-C",
            &core,
            "-e",
            "cpu-clock",
            "-F",
            RATE,
            "-o",
        ])
        .arg(file)
        .args(["--", "sleep", &window.as_secs_f64().to_string()]);
    tool::output(&mut record, "perf record")?;
    let whose = whose();
    let mut script = Command::new("perf");
    script
        .args(["script", "-F", "comm,pid,ip,sym,dso", "-i"])
        .arg(file);
    let text = tool::output(&mut script, "perf script");
    // It is large, and nobody needs it again.
    let _ = std::fs::remove_file(file);
    Ok(read(&text?, &whose))
}

/// Which processes serve.
#[derive(Clone, Debug, Default)]
pub struct Whose {
    /// The server's, all of them.
    pub servers: Vec<u32>,
    /// The engine's, if there is one.
    pub engine: Option<u32>,
}

/// Reads what perf script prints: for each look a line with name and number of the process, then the functions,
/// the innermost first, then an empty line.
fn read(text: &str, whose: &Whose) -> Looks {
    let mut looks = Looks::default();
    for look in text.split("\n\n") {
        let mut lines = look.lines().skip_while(|line| line.trim().is_empty());
        // The name may have blanks in it.
        let header = lines.next().and_then(|line| line.trim().rsplit(' ').next());
        let Some(pid) = header.and_then(|word| word.parse::<u32>().ok()) else {
            continue;
        };
        let frames: Vec<(&str, bool)> = lines.filter_map(frame).collect();
        *looks.0.entry(class(pid, &frames, whose)).or_default() += 1;
    }
    looks
}

/// A function, and whether it is the kernel's: `ADDRESS NAME (FILE)`.
fn frame(line: &str) -> Option<(&str, bool)> {
    let (address, rest) = line.trim().split_once(' ')?;
    let (name, _) = rest.rsplit_once(" (")?;
    // The upper half of the addresses, which BPF's programs are in, too.
    Some((name, address.len() == 16 && address.starts_with("ffff")))
}

fn class(pid: u32, frames: &[(&str, bool)], whose: &Whose) -> Class {
    let kernel: Vec<&str> = frames
        .iter()
        .filter(|(_, kernel)| *kernel)
        .map(|(name, _)| *name)
        .collect();
    let has = |beginnings: &[&str]| {
        let mut names = kernel.iter();
        names.any(|name| {
            beginnings
                .iter()
                .any(|beginning| name.starts_with(beginning))
        })
    };
    if has(&["net_rx_action", "net_tx_action", "__napi_poll"]) {
        return Class::Softirq;
    }
    let (server, engine) = (whose.servers.contains(&pid), Some(pid) == whose.engine);
    if !server && !engine {
        return if pid == 0 { Class::Idle } else { Class::Others };
    }
    if !frames.first().is_some_and(|(_, kernel)| *kernel) {
        return if server { Class::Server } else { Class::Engine };
    }
    if engine && has(&["xsk_", "packet_", "__xsk_"]) {
        return Class::Frames;
    }
    // Doorbells are sockets, too.
    if has(&["unix_"]) {
        return Class::Rest;
    }
    if has(&[
        "tcp_",
        "__tcp_",
        "inet_",
        "__inet_",
        "inet6_",
        "sock_",
        "__sock_",
        "__sys_send",
        "__sys_recv",
        "__sys_accept",
        "__sys_connect",
        "__sys_shutdown",
        "__sys_setsockopt",
        "ip_",
        "__ip_",
        "ip6_",
    ]) {
        return Class::Calls;
    }
    Class::Rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
nginx  7
	ffffffff81000001 copy_from_iter ([kernel.kallsyms])
	ffffffff81000002 tcp_sendmsg_locked ([kernel.kallsyms])
	ffffffff81000003 __sys_sendto ([kernel.kallsyms])
	          4f1a10 ngx_unix_send (/usr/sbin/nginx)

nginx  7
	ffffffff81000001 tcp_v4_rcv ([kernel.kallsyms])
	ffffffff81000004 __napi_poll ([kernel.kallsyms])
	ffffffff81000002 tcp_sendmsg_locked ([kernel.kallsyms])

nginx  7
	          4f1a10 ngx_http_process_request_line (/usr/sbin/nginx)

nginx  7
	ffffffff81000005 ep_poll ([kernel.kallsyms])
	          4f1a10 ngx_epoll_process_events (/usr/sbin/nginx)

worker 0 9
	          4f1a10 poll_transmit (/usr/bin/outboard)

worker 0 9
	ffffffff81000006 __xsk_generic_xmit ([kernel.kallsyms])

worker 0 9
	ffffffff81000009 unix_dgram_sendmsg ([kernel.kallsyms])
	ffffffff81000003 __sys_sendto ([kernel.kallsyms])

swapper  0
	ffffffff81000007 pv_native_safe_halt ([kernel.kallsyms])

swapper  0
	ffffffff81000008 net_rx_action ([kernel.kallsyms])

cc1  33
	          4f1a10 main (/usr/bin/cc1)

what is this
";

    #[test]
    fn each_look_has_a_class() {
        let whose = Whose {
            servers: vec![7],
            engine: Some(9),
        };
        let looks = read(PRINTED, &whose);
        let seen = [
            (Class::Calls, 1),
            (Class::Softirq, 2),
            (Class::Server, 1),
            (Class::Rest, 2),
            (Class::Engine, 1),
            (Class::Frames, 1),
            (Class::Idle, 1),
            (Class::Others, 1),
        ];
        for (class, count) in seen {
            assert_eq!(looks.of(class), count, "{class:?}");
        }
        assert_eq!(looks.serving(), 8);
        // The same without an engine: its process is another's.
        let alone = Whose {
            engine: None,
            ..whose
        };
        let looks = read(PRINTED, &alone);
        assert_eq!((looks.of(Class::Others), looks.serving()), (4, 5));
        // A server of two processes.
        let both = Whose {
            servers: vec![7, 33],
            engine: None,
        };
        let looks = read(PRINTED, &both);
        assert_eq!((looks.of(Class::Server), looks.of(Class::Others)), (2, 3));
    }
}
