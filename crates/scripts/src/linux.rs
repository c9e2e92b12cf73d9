//! The kernel, as scripts see it.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use netdev::interface::await_ipv6;
use netdev::tun::{Tun, enter_private_network};
use rustix::event::{PollFd, PollFlags, Timespec};
use sim::script::call::{Call, Outcome};
use sim::script::setting::Setting;
use sim::script::{Backend, Captured, Info, Options, Side, Version, datagram, place};

use crate::calls::Caller;
use crate::watch::come_first;

/// The name of the device in its namespace.
const DEVICE: &str = "tun0";

/// What is set before the script's own settings, so that neither the machine nor a default of
/// Linux's that no RFC asks for shows: SYNs sent again at even intervals first, small writes held
/// back for the device, buffers by the size of the machine.
const DEFAULTS: &[(&str, &str)] = &[
    ("net.ipv4.tcp_syn_linear_timeouts", "0"),
    ("net.ipv4.tcp_autocorking", "0"),
    // The sizes that Linux had for many years, and a window scale of 7 with them.
    ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
    ("net.ipv6.conf.all.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
];

/// The kernel's TCP in a namespace of its own, which goes with this.
pub struct Linux {
    tun: Tun,
    began: Instant,
    slack: Duration,
    caller: Caller,
    version: Version,
    captured: VecDeque<Captured>,
    done: Option<(Duration, Outcome)>,
}

impl Linux {
    /// Moves the calling thread into a fresh namespace, for good, and sets it up. Needs root. From
    /// then on the thread comes before ordinary ones: others being busy is not to show in times.
    ///
    /// `slack` is how far from its time an event may be, beyond what a script allows: the clock is
    /// a real one, and the machine has other things to do.
    ///
    /// # Errors
    /// Something of it is not allowed here.
    pub fn new(version: Version, options: &Options, slack: Duration) -> Result<Linux> {
        enter_private_network().context("no network namespace: run this as root")?;
        come_first();
        let tun = Tun::open(DEVICE).context("no TUN device")?;
        for (name, value) in DEFAULTS {
            sysctl(name, value)?;
        }
        configure(match version {
            Version::V4 => options.mtu,
            Version::V6 => options.mtu + 20,
        })?;
        Ok(Linux {
            tun,
            began: Instant::now(),
            slack,
            caller: Caller::start(version).context("no thread for calls")?,
            version,
            captured: VecDeque::new(),
            done: None,
        })
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes what the kernel has sent.
    fn drain(&mut self) -> Result<(), String> {
        let mut buffer = [0; 65_536];
        loop {
            let received = self.tun.receive(&mut buffer).map_err(|e| e.to_string())?;
            let Some(len) = received else {
                return Ok(());
            };
            let bytes = &buffer[..len];
            // Neighbours and routers are looked for as well; scripts are about TCP.
            let ours = datagram::read(bytes)
                .is_some_and(|segment| segment.src.ip() == place::local(self.version));
            if ours {
                self.captured.push_back(Captured {
                    at: self.elapsed(),
                    bytes: bytes.to_vec(),
                });
            }
        }
    }

    /// Sleeps until `until`, or until `enough`.
    fn pass(&mut self, until: Duration, enough: impl Fn(&Self) -> bool) -> Result<(), String> {
        loop {
            self.drain()?;
            if self.done.is_none() {
                let done = self.caller.take();
                self.done = done.map(|(at, outcome)| (at.duration_since(self.began), outcome));
            }
            let now = self.elapsed();
            if enough(self) || now >= until {
                return Ok(());
            }
            let wait = until - now;
            let wait = Timespec {
                tv_sec: wait.as_secs() as i64,
                tv_nsec: wait.subsec_nanos().into(),
            };
            let mut fds = [
                PollFd::from_borrowed_fd(self.tun.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.caller.bell(), PollFlags::IN),
            ];
            match rustix::event::poll(&mut fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Backend for Linux {
    fn side(&self) -> Side {
        Side::Linux
    }

    fn slack(&self) -> Duration {
        self.slack
    }

    fn set(&mut self, setting: &Setting) -> Result<(), String> {
        if setting.name == "net.ipv4.tcp_congestion_control" {
            self.caller.set_congestion_control(&setting.value);
            return Ok(());
        }
        sysctl(setting.name, &setting.value).map_err(|error| format!("{error:#}"))
    }

    fn now(&mut self) -> Duration {
        self.elapsed()
    }

    fn wait_until(&mut self, at: Duration) -> Result<(), String> {
        self.pass(at, |_| false)
    }

    fn inject(&mut self, datagram: &[u8]) -> Result<(), String> {
        self.tun.send(datagram).map_err(|e| e.to_string())?;
        self.drain()
    }

    fn next_packet(&mut self, until: Duration) -> Result<Option<Captured>, String> {
        self.pass(until, |this| !this.captured.is_empty())?;
        Ok(self.captured.pop_front())
    }

    fn begin(&mut self, call: &Call, data: &[u8]) -> Result<(), String> {
        self.done = None;
        self.caller.make(call.clone(), data.to_vec())
    }

    fn finish(&mut self, until: Duration) -> Result<Option<(Duration, Outcome)>, String> {
        // A call that returns at once needs a thread to run, on a machine with other work.
        let patience = until + Duration::from_millis(500);
        self.pass(patience, |this| this.done.is_some())?;
        Ok(self.done.take())
    }

    fn info(&mut self, fd: i32) -> Result<Info, String> {
        self.caller.info(fd)
    }
}

/// Gives the device its addresses, one call of `ip` for all.
fn configure(mtu: u16) -> Result<()> {
    let (v4, v6) = (place::local(Version::V4), place::local(Version::V6));
    let batch = format!(
        "link set {DEVICE} mtu {mtu} up\naddr add {v4}/24 dev {DEVICE}\n\
         addr add {v6}/64 dev {DEVICE} nodad\nlink set lo up\n",
    );
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .env("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("ip cannot be run: install iproute2")?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    let output = ip.wait_with_output()?;
    if !output.status.success() {
        bail!("ip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    match v6 {
        IpAddr::V6(v6) => Ok(await_ipv6(v6)?),
        IpAddr::V4(_) => Ok(()),
    }
}

/// The kernel resolves the path by the network of the thread that opens it: this one's.
fn sysctl(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    std::fs::write(&path, value).with_context(|| format!("{name}={value}"))
}
