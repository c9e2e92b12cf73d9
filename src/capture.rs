//! `outboard capture`: the packets that the engine handles, which tcpdump on the interface does
//! not see.

use crate::control::{Engine, out_of_place};
use anyhow::{Context, Result};
use queue_pair::control::{Fds, Reply, Request};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Write the packets that the engine handles to a file (pcapng)
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  outboard capture -w out.pcapng port 80\n  outboard capture -w - | tshark -r -"
)]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
    /// The file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// End after so many seconds (otherwise on Ctrl-C)
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Which packets: words such as "port 80" or "host 10.0.0.2"; all, if none is given
    filter: Vec<String>,
}

/// Copies what the engine sends until it, or the user, ends.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut control = args.engine.connect()?;
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut fds = Fds::new();
    fds.push(OwnedFd::from(theirs));
    let filter = args.filter.join(" ");
    match control.ask_with(&Request::Capture { filter }, fds)? {
        Reply::Done => {}
        other => return Err(out_of_place(&other)),
    }
    let name = args.write.display();
    let mut out: Box<dyn Write> = if args.write.as_os_str() == "-" {
        Box::new(std::io::stdout())
    } else {
        Box::new(File::create(&args.write).with_context(|| format!("cannot write -w {name}"))?)
    };
    crate::closed_pipe::remark(format_args!("capturing to {name}; end with Ctrl-C"));
    let end = args
        .seconds
        .map(|n| Instant::now() + Duration::from_secs(n));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if let Some(end) = end {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            ours.set_read_timeout(Some(left))?;
        }
        match ours.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => out
                .write_all(&buffer[..length])
                .and_then(|()| out.flush())
                .with_context(|| format!("cannot write -w {name}"))?,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("the engine's stream broke"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
