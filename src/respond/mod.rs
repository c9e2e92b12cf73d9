//! `outboard respond`: the stateless HTTP server.

mod engine;
mod peer;
mod report;
mod seen;

use anyhow::{Context, Result, bail};
use netdev::Interface;
use netdev::steering::Placement;
use report::Report;
use stateless::responder::objects;
use stateless::responder::run::{Listen, Mode, Options, Server, ports};
use stateless::responder::settings::{CloseStyle, HEAD_ROOM, MAX_RANGES, Settings};
use stateless::responder::tables::Tables;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    interface: String,
    /// What to answer on; without an address, on all of the interface's
    #[arg(
        short = 'L',
        long,
        value_name = "[ADDR]:PORT[-PORT]",
        required_unless_present = "ports"
    )]
    listen: Vec<Listen>,
    /// The same, for ports on all of the interface's addresses
    #[arg(short = 'p', long = "port", value_name = "PORT[-PORT]", value_parser = ports_alone)]
    ports: Vec<Listen>,
    /// How frames get in and out: in place in the driver; to this process by AF_XDP, with several
    /// segments a response; or by a netfilter queue
    #[arg(long, value_enum, default_value_t = Way::Xdp)]
    mode: Way,
    /// Where the XDP program runs: native (in the driver), generic (slower, everywhere), or auto
    #[arg(long, value_enum, default_value_t = Place::Auto)]
    xdp: Place,
    /// Answer frames with this VLAN tag, too
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..4095))]
    vlan: Vec<u16>,
    /// The netfilter queue of --mode nfqueue
    #[arg(long, value_name = "N", default_value_t = 80)]
    queue: u16,
    /// Make this other end of a veth poll, so that it takes answers made in place (a program that
    /// passes everything is attached to it)
    #[arg(long, value_name = "[NETNS/]IFACE")]
    peer: Option<String>,
    /// Serve the files of a directory, too: each must fit one segment; NAME.redirect holds a URL
    #[arg(long, value_name = "DIR")]
    objects: Option<PathBuf>,
    /// Bytes of body that "/" has
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: u32,
    /// How connections end: FIN and its acknowledgement, or a reset after the FIN
    #[arg(long, value_enum, default_value_t = Close::Fin)]
    close: Close,
    /// Answer acknowledgements outside of the window that the keyed hash allows, too. Anybody who
    /// guesses six bits is answered: only for closed networks
    #[arg(long)]
    lenient: bool,
    /// The key of the hash, 32 hexadecimal digits: responders with the same one can stand in for
    /// each other [default: random]
    #[arg(
        long,
        value_name = "HEX",
        env = "OUTBOARD_RESPOND_KEY",
        hide_env_values = true
    )]
    key: Option<String>,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print a JSON object a second
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// With --json: show the last SYNs as they arrived, so that `outboard load --responder-json` can
    /// say what the path rewrote. Needs --mode xdp
    #[arg(long, requires = "json")]
    witness: bool,
    /// Keep the counters in this file, in the text format that Prometheus reads (for node_exporter's
    /// textfile collector, say); "-" prints them at the end
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// How the log is written: text, json (an object a line), or journald (to systemd's journal)
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: crate::log::Format,
    /// The engine to ask if one runs on the interface
    #[arg(long, value_name = "NAME", default_value = queue_pair::control::DEFAULT_NAME,
          value_parser = crate::advice::engine_name)]
    engine: String,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Way {
    Xdp,
    Afxdp,
    Nfqueue,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Place {
    Auto,
    Native,
    Generic,
}

#[derive(clap::ValueEnum, Clone, Copy)]
enum Close {
    Fin,
    Rst,
}

/// Answers until a signal.
pub fn run(args: Args) -> Result<ExitCode> {
    let _log = crate::log::start("warn", args.log_format)?;
    crate::log::sum_up();
    let stop = crate::stop::signals()?;
    let options = options(&args)?;
    let _peer = args.peer.as_deref().map(peer::wake).transpose()?;
    let settings = settings(&args, &options)?;
    let announced = [false, true].map(|ipv6| settings.announced(ipv6));
    let tables = tables(&args, &settings)?;
    let mut report = Report::new(&args, announced)?;
    let (name, interface) = (args.engine.clone(), options.interface.clone());
    let mut server = Server::start(&options, settings, tables, || {
        engine::Engine::find(&name, &interface)
    })
    .with_context(|| format!("cannot answer on {}", options.interface.name))?;
    crate::supervisor::is_ready(&report.begin(&server, &options.listen));
    let mut next = Instant::now();
    loop {
        next += Duration::from_secs(1);
        let stopped = server.serve(next, stop.as_fd())?;
        if stopped {
            crate::supervisor::is_stopping("stopping", Duration::ZERO);
        }
        report.line(&server, stopped)?;
        if stopped {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn options(args: &Args) -> Result<Options> {
    if args.witness && !matches!(args.mode, Way::Xdp) {
        bail!("--witness sees what is answered in place: leave out --mode");
    }
    let interface =
        Interface::find(&args.interface).with_context(|| format!("-i {}", args.interface))?;
    Ok(Options {
        interface,
        listen: [&args.listen[..], &args.ports].concat(),
        vlans: args.vlan.clone(),
        mode: match args.mode {
            Way::Xdp => Mode::Xdp,
            Way::Afxdp => Mode::AfXdp,
            Way::Nfqueue => Mode::NfQueue,
        },
        placement: match args.xdp {
            Place::Auto => Placement::Auto,
            Place::Native => Placement::Native,
            Place::Generic => Placement::Generic,
        },
        queue: args.queue,
        witness: args.witness,
    })
}

/// Ports without an address.
fn ports_alone(text: &str) -> Result<Listen, String> {
    match text.parse() {
        Ok(listen @ Listen { address: None, .. }) => Ok(listen),
        _ => Err("write a port or a range of them, such as 80 or 8000-8009".into()),
    }
}

fn settings(args: &Args, options: &Options) -> Result<Settings> {
    let mut key = [0; 16];
    match &args.key {
        Some(text) => {
            key = parse_key(text).context(
                "--key: write 32 hexadecimal digits, such as 000102030405060708090a0b0c0d0e0f; \
             `openssl rand -hex 16` makes some",
            )?
        }
        None => {
            rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        }
    }
    let ports = ports(&options.listen);
    if ports.len() > MAX_RANGES {
        bail!("-L: at most {MAX_RANGES} ranges of ports");
    }
    let mut settings = Settings::new(key, ports);
    settings.strict = !args.lenient;
    settings.default_size = args.size;
    settings.close = match args.close {
        Close::Fin => CloseStyle::Fin,
        Close::Rst => CloseStyle::Reset,
    };
    settings.mtu = u16::try_from(options.interface.mtu).unwrap_or(u16::MAX);
    settings.bursts = options.mode != Mode::Xdp;
    if args.size > settings.max_body() {
        let more = match options.mode {
            Mode::Xdp => "; --mode afxdp takes more",
            _ => "",
        };
        bail!(
            "--size: at most {} bytes of body here{more}",
            settings.max_body()
        );
    }
    Ok(settings)
}

fn parse_key(text: &str) -> Option<[u8; 16]> {
    let mut key = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some(key)
}

fn tables(args: &Args, settings: &Settings) -> Result<Tables> {
    let Some(directory) = &args.objects else {
        return Ok(Tables::new([]));
    };
    let segment = usize::from(settings.segment(true)).min(1460);
    let objects = objects::load(directory, segment.saturating_sub(HEAD_ROOM))
        .context("--objects: name a directory of small files")?;
    Ok(Tables::new(objects))
}

#[cfg(test)]
mod tests {
    use super::parse_key;

    #[test]
    fn a_port_has_no_address() {
        let ports = |text| super::ports_alone(text).map(|listen| listen.ports);
        assert_eq!(ports("80"), Ok(80..=80));
        assert_eq!(ports(":8000-8009"), Ok(8000..=8009));
        for wrong in ["10.0.0.1:80", "0", "http", ""] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_thirty_two_digits() {
        let key = parse_key("000102030405060708090a0b0c0d0e0f").expect("a key");
        assert_eq!(key[15], 15);
        for wrong in ["", "00", "zz0102030405060708090a0b0c0d0e0f"] {
            assert!(parse_key(wrong).is_none(), "{wrong}");
        }
    }
}
