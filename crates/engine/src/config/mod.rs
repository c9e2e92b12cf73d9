//! Configuration: a TOML file, on top of it the command line's flags. Every setting has a default
//! but the interface; a name that does not exist, or a value out of its range, is refused with
//! the line it stands on and what is allowed.

mod access;
mod changes;
mod interfaces;
mod limits;
mod placement;
pub(crate) mod policy;
pub(crate) mod queues;
mod range;
pub mod shares;
mod tcp;
mod workers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netdev::xdp::MAX_FRAMES;
use queue_pair::Profile;
use serde::{Deserialize, Serialize};

pub use access::{Access, PortRange, Prefix, Rule};
pub use changes::Changes;
pub use interfaces::Interfaces;
pub use limits::Limits;
pub use placement::{Placement, Placements};
pub use policy::PolicyFile;
pub use queues::Queues;
pub use tcp::{Congestion, FastOpen, Tcp};
pub use workers::Workers;

use range::{OutOfRange, in_range};

/// Everything that can be set about an engine.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What programs call this engine (`outboard run --engine NAME`).
    pub name: String,
    /// The interface that it works on, or several. The one setting without a default.
    pub interface: Interfaces,
    /// The control socket; `/run/outboard/NAME.sock` if not given.
    pub socket: Option<PathBuf>,
    /// How frames get in and out.
    pub device: DeviceKind,
    /// The receive queues that are served.
    #[serde(alias = "queue")]
    pub queues: Queues,
    /// How many workers there are.
    pub workers: Workers,
    /// Frames that can wait for the worker, on all queues together, rounded up to a power of two on
    /// each; with many queues more, so that each has room for a burst.
    pub receive_frames: u32,
    /// The core that the worker runs on, and of several workers the first, with those after it for the
    /// others; where the kernel likes if not given.
    pub core: Option<usize>,
    /// Whether the worker goes to the core of the program that it serves, if it may run on several and
    /// `core` names none.
    pub follow: bool,
    /// Whether that core also runs the server: then the worker yields to it, and a doorbell does
    /// not interrupt it.
    pub share_core: bool,
    /// How the worker waits; programs may want another (`outboard run --profile`).
    pub profile: Profile,
    /// Longest time that the worker looks for work before it sleeps, in microseconds: a profile may
    /// make it longer, but not of 0.
    pub spin_microseconds: u32,
    /// While frames come often, and where it saves wake-ups without costing rate: how long the
    /// device does not wake the worker, in microseconds. 0 is never.
    pub moderation_microseconds: u32,
    /// Programs on this machine reach its listeners by the engine, too, instead of by the kernel's
    /// loopback.
    pub local: bool,
    /// Who serves new connections: of those listeners of which `placements` says nothing.
    pub placement: Placement,
    /// New connections and segments with data a second from which on the engine pays, for `adaptive`.
    pub placement_rate: u32,
    /// What says instead when the engine pays, and which files it reads, for `adaptive`.
    #[serde(skip_serializing)]
    pub policy: Option<PolicyFile>,
    /// Follow no rules of netfilter, and start even where the older tables have some.
    pub ignore_netfilter: bool,
    /// Keep all privileges, and all system calls, after the start.
    pub keep_privileges: bool,
    /// How long SIGTERM waits for connections to end by themselves, in seconds.
    pub drain_seconds: u32,
    /// Whether the time for which a turn had its core is measured, beside how long it took: some system
    /// calls a turn.
    pub measure_turns: bool,
    /// Work that the device takes over, each to be switched off.
    pub offload: Offload,
    /// What a connection starts with.
    pub tcp: Tcp,
    /// Limits on everything that peers and hosts can make the engine hold.
    pub limits: Limits,
    /// Which listeners and connections are taken; the rest is the kernel's.
    #[serde(skip_serializing)]
    pub access: Access,
    /// Who serves the new connections of single listeners, by their addresses.
    #[serde(skip_serializing)]
    pub placements: BTreeMap<SocketAddr, Placement>,
    /// Who can read its counters over HTTP.
    pub metrics: Metrics,
}

/// Counters and health over HTTP, by the kernel's TCP. Whoever runs the engine serves them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Where: an address and a port; nowhere if not given.
    pub listen: Option<SocketAddr>,
}

/// How frames get in and out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// AF_XDP for receive and small sends, AF_PACKET for large ones.
    Xdp,
}

/// Offload features of the device, all on by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Offload {
    /// The device completes the checksum of what is sent.
    pub transmit_checksum: bool,
    /// A checksum that a peer on this machine left unfinished is accepted.
    pub receive_checksum: bool,
    /// Bursts leave as one large segment that the kernel or the NIC cuts.
    pub segmentation: bool,
    /// Frames may arrive in several buffers.
    pub scatter_gather: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            interface: Interfaces::default(),
            socket: None,
            device: DeviceKind::Xdp,
            queues: Queues::All,
            workers: Workers::default(),
            receive_frames: 16_384,
            core: None,
            follow: true,
            share_core: true,
            profile: Profile::Balanced,
            spin_microseconds: 10,
            moderation_microseconds: 150,
            local: false,
            placement: Placement::Engine,
            placement_rate: 2000,
            policy: None,
            ignore_netfilter: false,
            keep_privileges: false,
            drain_seconds: 10,
            measure_turns: false,
            offload: Offload::default(),
            tcp: Tcp::default(),
            limits: Limits::default(),
            access: Access::default(),
            placements: BTreeMap::new(),
            metrics: Metrics::default(),
        }
    }
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            transmit_checksum: true,
            receive_checksum: true,
            segmentation: true,
            scatter_gather: true,
        }
    }
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error(
        "cannot read the configuration {}: {error} (docs/engine.toml shows every setting)",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A line is not what it must be.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file, as it was named.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// A value is out of its range.
    #[error("{setting}: {message}")]
    Range {
        /// The setting's full name, and the line it stands on where it came from a file.
        setting: String,
        /// What is allowed.
        message: String,
    },
}

/// Reads an engine's configuration again; or says why there is none that it could use.
pub type Reload = Box<dyn FnMut() -> Result<Config, String> + Send>;

impl Config {
    /// Reads `path`.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.to_owned(),
            error,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses `text`, called `file` in errors, and checks every range in it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::Line {
            file: file.to_owned(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().replace('\n', " "),
        })?;
        if let Err(problem) = config.check_ranges() {
            return Err(ConfigError::Line {
                file: file.to_owned(),
                line: line_of_setting(text, problem.table, problem.key),
                message: problem.to_string(),
            });
        }
        Ok(config)
    }

    /// Checks what can only be known once the flags are merged in: there is an interface, and every value is
    /// in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(message) = self.interface.problem() {
            let setting = "interface".to_owned();
            return Err(ConfigError::Range { setting, message });
        }
        self.check_ranges().map_err(|problem| ConfigError::Range {
            setting: problem.setting(),
            message: problem.to_string(),
        })
    }

    /// What is set and changes nothing, in words for a warning. It is no error: who has the kernel serve
    /// everything for a while does not take out the rest.
    pub fn is_ignored(&self) -> Option<&'static str> {
        let mut all = self.placements.values().chain([&self.placement]);
        let adaptive = all.any(|placement| *placement == Placement::Adaptive);
        (self.policy.is_some() && !adaptive)
            .then_some("policy: it decides where placement = \"adaptive\", and that is nowhere")
    }

    /// Where the control socket is.
    pub fn socket_path(&self) -> PathBuf {
        self.socket
            .clone()
            .unwrap_or_else(|| PathBuf::from(format!("/run/outboard/{}.sock", self.name)))
    }

    /// How long the worker looks for work before it sleeps.
    pub fn spin(&self) -> Duration {
        Duration::from_micros(u64::from(self.spin_microseconds))
    }

    /// Who serves the new connections of which listener.
    pub fn placements(&self) -> Placements {
        Placements {
            all: self.placement,
            of: self.placements.clone(),
            from_rate: self.placement_rate,
            policy: self.policy.clone(),
        }
    }

    /// For how long the device does not wake the worker while frames come often.
    pub fn moderation(&self) -> Duration {
        match self.profile {
            Profile::Efficient | Profile::Balanced => {
                Duration::from_micros(u64::from(self.moderation_microseconds))
            }
            Profile::Latency => Duration::ZERO,
        }
    }

    fn check_ranges(&self) -> Result<(), OutOfRange> {
        if self.name.is_empty()
            || !self
                .name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
            || self.name.starts_with('.')
        {
            return Err(OutOfRange {
                table: "",
                key: "name",
                value: format!("\"{}\"", self.name.escape_debug()),
                allowed: "letters, digits, '-', '_' and '.', not first".to_owned(),
            });
        }
        in_range(
            "",
            "spin_microseconds",
            u64::from(self.spin_microseconds),
            0,
            10_000,
        )?;
        in_range(
            "",
            "moderation_microseconds",
            u64::from(self.moderation_microseconds),
            0,
            10_000,
        )?;
        let rate = u64::from(self.placement_rate);
        in_range("", "placement_rate", rate, 1, 1_000_000_000)?;
        let frames = u64::from(self.receive_frames);
        in_range("", "receive_frames", frames, 64, MAX_FRAMES.into())?;
        in_range("", "drain_seconds", u64::from(self.drain_seconds), 0, 3_600)?;
        self.tcp.check()?;
        self.limits.check()
    }
}

/// The line, counted from 1, that byte `at` of `text` is on.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

/// The line on which `key` of `[table]` is set; the first where it is not in the file.
fn line_of_setting(text: &str, table: &str, key: &str) -> usize {
    let mut current = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            current = header.trim_end_matches(']').trim();
        }
        let name = line.split('=').next().unwrap_or("").trim();
        if current == table && name == key {
            return index + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Config::parse("engine.toml", text)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("x", "").expect("valid"), Config::default());
    }

    #[test]
    fn an_unknown_name_is_refused_with_its_line_and_what_is_allowed() {
        let message = refused("name = \"web\"\n\n[limits]\nconections = 5\n");
        assert!(message.starts_with("engine.toml:4: "), "{message}");
        assert!(message.contains("`conections`"), "{message}");
        assert!(
            message.contains("`connections`"),
            "names what is allowed: {message}"
        );
    }

    #[test]
    fn a_wrong_kind_of_value_is_refused_with_its_line() {
        let message = refused("interface = \"eth1\"\ndevice = \"dpdk\"\n");
        assert!(message.starts_with("engine.toml:2: "), "{message}");
        assert!(message.contains("xdp"), "{message}");
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_its_line() {
        let message = refused("[tcp]\ncongestion = \"reno\"\nreceive_buffer = 10\n");
        assert_eq!(
            message,
            "engine.toml:3: `receive_buffer` is 10, allowed is 4096 to 268435456"
        );
    }

    #[test]
    fn the_interface_must_be_named_in_the_end() {
        let error = Config::default().check().expect_err("no interface");
        assert!(error.to_string().contains("-i IFACE"));
    }

    #[test]
    fn a_name_cannot_leave_the_directory_of_sockets() {
        assert!(refused("name = \"../etc\"").contains("`name`"));
    }

    #[test]
    fn the_example_is_valid_and_complete() {
        let text = include_str!("../../../../docs/engine.toml");
        let mut example = Config::parse("docs/engine.toml", text).expect("valid");
        assert_eq!(example.interface, "eth1".into());
        example.interface = Interfaces::default();
        example.access = Access::default();
        assert_eq!(example, Config::default(), "the example shows the defaults");
    }
}
