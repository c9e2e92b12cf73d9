//! What can be said on the command line.

use stateless::responder::run::Listen;
use std::path::PathBuf;

/// Answer HTTP without keeping any connection, at the rate of the packets
///
/// For engineers who test firewalls, proxies and load balancers and do not want the server to be
/// the limit. What must be known of a connection stands in its sequence numbers, so millions of
/// them cost no memory. ARP, neighbour discovery and all other ports stay the kernel's. The URL says
/// what comes back, in the language of httpterm: /?s=1k&r=404; "/?" lists it.
///
/// On the loopback, the program runs in the kernel's generic hook: -i lo -L 127.0.0.1:8000. On a
/// veth, the other end takes answers made in place only while it polls: name it with --peer, or
/// use --mode afxdp.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  sudo outboard respond -i eth1 -L :8000-8009\n  curl 'http://10.0.0.1:8000/?s=200'"
)]
pub struct Args {
    /// The interface to work on
    #[arg(short, long, value_name = "IFACE")]
    pub(super) interface: String,
    /// What to answer on; without an address, on all of the interface's
    #[arg(
        short = 'L',
        long,
        value_name = "[ADDR]:PORT[-PORT]",
        required_unless_present = "ports"
    )]
    pub(super) listen: Vec<Listen>,
    /// The same, for ports on all of the interface's addresses
    #[arg(short = 'p', long = "port", value_name = "PORT[-PORT]", value_parser = ports_alone)]
    pub(super) ports: Vec<Listen>,
    /// How frames get in and out: in place in the driver; to this process by AF_XDP, with several
    /// segments a response; or by a netfilter queue
    #[arg(long, value_enum, default_value_t = Way::Xdp)]
    pub(super) mode: Way,
    /// Where the XDP program runs: native (in the driver), generic (slower, everywhere), or auto
    #[arg(long, value_enum, default_value_t = Place::Auto)]
    pub(super) xdp: Place,
    /// Answer frames with this VLAN tag, too
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..4095))]
    pub(super) vlan: Vec<u16>,
    /// The netfilter queue of --mode nfqueue
    #[arg(long, value_name = "N", default_value_t = 80)]
    pub(super) queue: u16,
    /// Make this other end of a veth poll, so that it takes answers made in place (a program that
    /// passes everything is attached to it)
    #[arg(long, value_name = "[NETNS/]IFACE")]
    pub(super) peer: Option<String>,
    /// Serve the files of a directory, too: each must fit one segment; NAME.redirect holds a URL
    #[arg(long, value_name = "DIR")]
    pub(super) objects: Option<PathBuf>,
    /// Bytes of body that "/" has
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub(super) size: u32,
    /// How connections end: FIN and its acknowledgement, or a reset after the FIN
    #[arg(long, value_enum, default_value_t = Close::Fin)]
    pub(super) close: Close,
    /// Answer acknowledgements outside of the window that the keyed hash allows, too. Anybody who
    /// guesses six bits is answered: only for closed networks
    #[arg(long)]
    pub(super) lenient: bool,
    /// The key of the hash, 32 hexadecimal digits: responders with the same one can stand in for
    /// each other [default: random]
    #[arg(
        long,
        value_name = "HEX",
        env = "OUTBOARD_RESPOND_KEY",
        hide_env_values = true
    )]
    pub(super) key: Option<String>,
    /// Print nothing
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Print a JSON object a second
    #[arg(long, conflicts_with = "quiet")]
    pub(super) json: bool,
    /// With --json: show the last SYNs as they arrived, so that `outboard load --responder-json` can
    /// say what the path rewrote. Needs --mode xdp
    #[arg(long, requires = "json")]
    pub(super) witness: bool,
    /// Keep the counters in this file, in the text format that Prometheus reads (for node_exporter's
    /// textfile collector, say); "-" prints them at the end
    #[arg(long, value_name = "FILE")]
    pub(super) prometheus: Option<PathBuf>,
    /// How the log is written: text, json (an object a line), or journald (to systemd's journal)
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) log_format: crate::log::Format,
    /// The engine to ask if one runs on the interface
    #[arg(long, value_name = "NAME", default_value = queue_pair::control::DEFAULT_NAME,
          value_parser = crate::advice::engine_name)]
    pub(super) engine: String,
}

#[derive(clap::ValueEnum, Clone, Copy)]
pub(super) enum Way {
    Xdp,
    Afxdp,
    Nfqueue,
}

#[derive(clap::ValueEnum, Clone, Copy)]
pub(super) enum Place {
    Auto,
    Native,
    Generic,
}

#[derive(clap::ValueEnum, Clone, Copy)]
pub(super) enum Close {
    Fin,
    Rst,
}

/// Ports without an address.
pub(super) fn ports_alone(text: &str) -> Result<Listen, String> {
    match text.parse() {
        Ok(listen @ Listen { address: None, .. }) => Ok(listen),
        _ => Err("write a port or a range of them, such as 80 or 8000-8009".into()),
    }
}
