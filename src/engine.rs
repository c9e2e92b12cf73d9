//! `outboard engine`: runs an engine in the foreground.

use crate::scrape::Scrape;
use ::engine::Config;
use ::engine::config::{DeviceKind, Interfaces, Placement, Queues, Workers};
use anyhow::{Context, Result, bail};
use queue_pair::Profile;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run an engine on an interface or several, in the foreground
///
/// Only the ports that offloaded programs listen on are steered to it, and the flows they open;
/// everything else stays the kernel's. SIGTERM and SIGINT stop it: new connections are the
/// kernel's at once, and those that are there have time to end. SIGHUP, like `outboard reload`, has
/// it read the file again.
#[derive(clap::Args, Clone)]
#[command(after_help = "Example:\n  outboard engine -i eth1 --core 0 --offload tso=off")]
pub struct Args {
    /// The interface to work on, or several with commas between
    #[arg(short, long, value_name = "IFACE", value_delimiter = ',')]
    interface: Vec<String>,
    /// Read settings from a TOML file; the flags here go before it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What programs call this engine
    #[arg(long)]
    name: Option<String>,
    /// The control socket [default: /run/outboard/NAME.sock]
    #[arg(long, value_name = "PATH", env = "OUTBOARD_SOCKET")]
    socket: Option<PathBuf>,
    /// The core to run on
    #[arg(long, visible_alias = "cores", value_name = "CORE")]
    core: Option<usize>,
    /// The core is the engine's alone: do not make way for a server on it
    #[arg(long)]
    own_core: bool,
    /// The receive queues to serve: all, or numbers with commas between
    #[arg(long, alias = "queue", value_name = "QUEUES")]
    queues: Option<Queues>,
    /// How many workers, each with a thread and receive queues of its own: a number, or auto (one for each
    /// queue, on half of the cores) [default: 1]
    #[arg(long, value_name = "N")]
    workers: Option<Workers>,
    /// How frames get in and out: xdp
    #[arg(long, value_name = "KIND")]
    device: Option<String>,
    /// Switch work that the device takes over: txcsum, rxcsum, tso, sg, each =on or =off
    #[arg(long, value_name = "FEATURE=on|off", value_delimiter = ',')]
    offload: Vec<String>,
    /// How to wait: efficient, balanced (looks for work before sleeping where that has paid), or latency
    /// (looks for up to a millisecond) [default: balanced]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<Profile>,
    /// Who serves new connections: engine, kernel, or adaptive (the kernel while little comes)
    /// [default: engine]
    #[arg(long, value_name = "PLACE")]
    placement: Option<Placement>,
    /// Longest time to look for work before sleeping, in microseconds; 0 is never
    #[arg(long, value_name = "US")]
    spin: Option<u32>,
    /// How long a stop waits for connections to end by themselves, in seconds
    #[arg(long, value_name = "S")]
    drain: Option<u32>,
    /// How the log is written: text, json (an object a line), or journald (to systemd's journal)
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: crate::log::Format,
    /// Read the configuration, say what is wrong with it, and start nothing
    #[arg(long)]
    check: bool,
    /// Follow no rules of netfilter, and start although the older tables have some
    #[arg(long)]
    ignore_netfilter: bool,
}

impl Args {
    /// Whether nothing is to be started.
    pub fn only_checks(&self) -> bool {
        self.check
    }
}

/// Runs the engine until a signal.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.check {
        return check(args);
    }
    let _log = crate::log::start("info", args.log_format)?;
    let config = configuration(args.clone())?;
    if let Some(ignored) = config.is_ignored() {
        tracing::warn!("{ignored}");
    }
    let stop = crate::stop::signals()?;
    let stop_to_tell_of = crate::stop::signals()?;
    let hangups = crate::reload::hangups()?;
    let socket = config.socket_path();
    let scrape = config.metrics.listen.map(Scrape::listen).transpose()?;
    let what = format!("engine {} on {}", config.name, config.interface);
    let reread = Box::new(move || reread(&args));
    ::engine::run(config, crate::opener::start, stop.as_fd(), reread, || {
        crate::log::sum_up();
        crate::reload::on_hangup(hangups, socket.clone());
        if let Some(scrape) = scrape {
            scrape.serve(socket.clone());
        }
        crate::supervisor::engine_is_ready(&what, socket, stop_to_tell_of);
    })?;
    // Where no connection was left, it has ended before anybody could say so.
    crate::supervisor::engine_is_stopping();
    Ok(ExitCode::SUCCESS)
}

/// The file as it is now, with the same flags on top.
fn reread(args: &Args) -> Result<Config, String> {
    if args.config.is_none() {
        return Err(
            "this engine was started without --config FILE: there is nothing to read".into(),
        );
    }
    let config = configuration(args.clone()).map_err(|error| format!("{error:#}"))?;
    ::engine::find(&config).map_err(|error| error.to_string())?;
    if let Some(ignored) = config.is_ignored() {
        tracing::warn!("{ignored}");
    }
    Ok(config)
}

/// Says whether an engine with this configuration would find what it names.
fn check(args: Args) -> Result<ExitCode> {
    let config = configuration(args)?;
    ::engine::find(&config)?;
    if let Some(ignored) = config.is_ignored() {
        // Who has closed it does not want to know.
        let _ = writeln!(std::io::stderr(), "warning: {ignored}");
    }
    println!(
        "ok: engine {} on {}, control socket {}",
        config.name,
        config.interface,
        config.socket_path().display()
    );
    Ok(ExitCode::SUCCESS)
}

/// The file's settings with the flags on top.
fn configuration(args: Args) -> Result<Config> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if !args.interface.is_empty() {
        config.interface = Interfaces::of(args.interface);
    }
    if let Some(name) = args.name {
        config.name = name;
    }
    if args.socket.is_some() {
        config.socket = args.socket;
    }
    if args.core.is_some() {
        config.core = args.core;
    }
    if let Some(workers) = args.workers {
        config.workers = workers;
    }
    if let Some(queues) = args.queues {
        config.queues = queues;
    }
    if let Some(kind) = &args.device {
        config.device = match kind.as_str() {
            "xdp" => DeviceKind::Xdp,
            other => bail!("--device {other}: only xdp is there yet"),
        };
    }
    if let Some(profile) = args.profile {
        config.profile = profile;
    }
    if let Some(placement) = args.placement {
        config.placement = placement;
    }
    if let Some(spin) = args.spin {
        config.spin_microseconds = spin;
    }
    if let Some(drain) = args.drain {
        config.drain_seconds = drain;
    }
    config.share_core &= !args.own_core;
    config.ignore_netfilter |= args.ignore_netfilter;
    for feature in &args.offload {
        set_offload(&mut config, feature).with_context(|| format!("--offload {feature}"))?;
    }
    config.check()?;
    Ok(config)
}

fn set_offload(config: &mut Config, feature: &str) -> Result<()> {
    let (name, value) = feature
        .split_once('=')
        .context("write FEATURE=on or FEATURE=off")?;
    let on = match value {
        "on" => true,
        "off" => false,
        _ => bail!("write on or off"),
    };
    let offload = &mut config.offload;
    let switch = match name {
        "txcsum" => &mut offload.transmit_checksum,
        "rxcsum" => &mut offload.receive_checksum,
        "tso" => &mut offload.segmentation,
        "sg" => &mut offload.scatter_gather,
        _ => bail!("there are txcsum, rxcsum, tso and sg"),
    };
    *switch = on;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_switched_one_by_one() {
        let mut config = Config::default();
        set_offload(&mut config, "tso=off").expect("valid");
        assert!(!config.offload.segmentation && config.offload.transmit_checksum);
        set_offload(&mut config, "tso=on").expect("valid");
        assert!(config.offload.segmentation);
        for wrong in ["tso", "tso=maybe", "lro=on"] {
            assert!(set_offload(&mut config, wrong).is_err(), "{wrong}");
        }
    }
}
