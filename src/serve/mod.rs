//! `outboard serve`: an event-driven static file server.

mod client;
mod condition;
mod date;
mod directory;
mod exchange;
mod offered;
mod path;
mod range;
pub mod request;
pub mod response;
mod server;
mod uploads;
mod watches;

use anyhow::{Result, bail};
use client::Rules;
use directory::Directory;
use native::{Context, Errno, Mode};
use offered::Offered;
use queue_pair::control::{DEFAULT_NAME, socket_path};
use rustix::process::{Resource, getrlimit, setrlimit};
use server::{BACKLOG, Server};
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use uploads::Uploads;

/// Serve the files of a directory over HTTP
///
/// SIGTERM and SIGINT stop it: nobody new is accepted, and what has been asked for is still
/// answered. A second signal ends it at once.
///
/// On the engine files of ext4, XFS, Btrfs, F2FS and EROFS do not pass through this process: the engine reads
/// them as they leave. On other file systems, and for clients that the kernel serves, it reads them, or
/// the kernel does (sendfile).
#[derive(clap::Args)]
#[command(after_help = "Example:\n  outboard serve ./site -L :8080 --list")]
pub struct Args {
    /// The directory; nothing outside it is ever served
    directory: PathBuf,
    /// Address and port to listen on; without an address, all of this machine's
    #[arg(short = 'L', long, value_name = "[ADDR]:PORT", value_parser = address,
          required_unless_present = "port")]
    listen: Option<SocketAddr>,
    /// The port to listen on, at every address of this machine (as -L :PORT)
    #[arg(short, long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// The engine's name
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = crate::advice::engine_name)]
    engine: String,
    /// Fail if there is no engine, rather than let the kernel serve until there is one
    #[arg(long)]
    strict: bool,
    /// List directories that have no index.html
    #[arg(long)]
    list: bool,
    /// Store what clients PUT and POST into this directory; without it nothing is stored
    ///
    /// PUT makes or replaces the file of that name, POST to a directory makes a file with a name of
    /// the server's. A file is there when it is complete, or not at all. Directories have to exist;
    /// symbolic links are not followed, and names that begin with a dot are refused. Whoever reaches
    /// the port can store: give the directory a file system or a quota of its own.
    #[arg(long, value_name = "DIR")]
    uploads: Option<PathBuf>,
    /// The largest file that is stored, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 1024, requires = "uploads",
          value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    upload_limit: u64,
    /// Print a line for each request
    #[arg(long)]
    log: bool,
    /// Connections open at once; more are told to come back later
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_connections: usize,
    /// Seconds that a connection may be silent between requests
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(..=YEAR))]
    idle_timeout: u64,
    /// Seconds that connections have to end once the server is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(..=YEAR))]
    drain: u64,
}

/// Seconds of a year: nobody waits longer, and a clock ends somewhere.
const YEAR: u64 = 365 * 86_400;

/// Seconds for the head of a request, from its first byte on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until it is told to stop.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.max_connections == 0 {
        bail!("--max-connections: with none, nobody is served; leave it out for 20000");
    }
    let site = Directory::open(&args.directory, args.list)?;
    let rules = Rules {
        idle: Duration::from_secs(args.idle_timeout.max(1)),
        head: HEAD_TIMEOUT,
        drain: Duration::from_secs(args.drain),
        log: args.log,
        uploads: match &args.uploads {
            Some(directory) => Some(Uploads::open(directory, args.upload_limit)?),
            None => None,
        },
    };
    let stop = crate::stop::signals()?;
    raise_descriptor_limit();
    let socket = socket_path(&args.engine);
    let mode = if args.strict { Mode::Engine } else { Mode::Any };
    let context = match Context::attach_at(&socket, "outboard serve", mode) {
        Ok(context) => context,
        Err(error) => bail!(
            "{}; start one with: outboard engine -i IFACE",
            no_engine(&socket, error)
        ),
    };
    if let Some(error) = context.refused() {
        crate::closed_pipe::remark(format_args!(
            "outboard: {}: the kernel serves until there is one",
            no_engine(&socket, error)
        ));
    }
    let mut queue = context.queue()?;
    let everywhere = (Ipv6Addr::UNSPECIFIED, args.port.unwrap_or_default());
    let address = args.listen.unwrap_or(everywhere.into());
    let listener = queue
        .listen(address, BACKLOG, 0)
        .map_err(|error| crate::advice::listening(address, &error.into()))?;
    let by = if queue.is_offloaded(listener)? {
        "engine"
    } else {
        "kernel"
    };
    let what = format!(
        "serving {} on http://{}",
        args.directory.display(),
        queue.local(listener)?
    );
    crate::closed_pipe::remark(format_args!("{what} by the {by}"));
    crate::supervisor::is_ready(&what);
    let site = Offered::new(site, context);
    Server::new(site, rules, queue, listener, args.max_connections, stop)?.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Why this program is not attached, in words.
fn no_engine(socket: &Path, error: Errno) -> String {
    let socket = socket.display();
    match error {
        Errno::NOENT | Errno::CONNREFUSED => format!("no engine at {socket} ({error})"),
        Errno::PROTONOSUPPORT => format!(
            "the engine at {socket} speaks no version of the protocol that this program does; \
             start it again, so that both are what is installed now"
        ),
        _ => format!("the engine at {socket} does not take it ({error}), and its log says why"),
    }
}

/// Takes as many descriptors as this process may have: each client needs one.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer, the server serves fewer clients at once; accepting says so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// `ADDR:PORT`, or `:PORT` for every address of the machine, of both families.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':')
        && let Ok(port) = port.parse()
    {
        return Ok((Ipv6Addr::UNSPECIFIED, port).into());
    }
    text.parse()
        .map_err(|_| "not an address and port, such as 10.0.0.1:80, [::1]:80 or :80".into())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_are_written_as_people_write_them() {
        assert_eq!(address(":80").unwrap().to_string(), "[::]:80");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert_eq!(address("10.0.0.1:80").unwrap().to_string(), "10.0.0.1:80");
        assert!(address("80").is_err() && address("host:80").is_err() && address(":x").is_err());
    }
}
