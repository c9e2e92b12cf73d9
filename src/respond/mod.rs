//! `outboard respond`: the stateless HTTP server.

mod args;
mod engine;
mod peer;
mod report;
mod seen;

use anyhow::{Context, Result, bail};
pub use args::Args;
use args::{Close, Place, Way};
use netdev::Interface;
use netdev::steering::Placement;
use report::Report;
use stateless::responder::objects;
use stateless::responder::run::{Mode, Options, Server, ports};
use stateless::responder::settings::{CloseStyle, HEAD_ROOM, MAX_RANGES, Settings};
use stateless::responder::tables::Tables;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
        let ports = |text| super::args::ports_alone(text).map(|listen| listen.ports);
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
