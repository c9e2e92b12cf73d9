//! What can be said on the command line.

use std::path::PathBuf;
use std::time::Duration;

use super::foreign::Foreign;
use crate::advice::duration;
use anyhow::{Result, bail};
use stateless::client::Finish;

/// Load an HTTP server, without sessions: millions of connections cost no memory
///
/// By default the client makes its own packets (AF_XDP) and computes from each answer what to do
/// next; see docs/load.md. It works against any server that is reached over a network interface
/// of this namespace. Latencies count from the moment that a request was due.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    outboard load http://10.77.0.1/ -c 100 -d 10s\n  \
    outboard load http://10.77.0.1/ --close --conn-rate 20000 -d 30s --latency\n  \
    outboard load 'http://10.77.0.1/?s={size}' --sizes lognormal:8k,2 -R 50000 --plot run.svg\n  \
    outboard load http://10.77.0.1/ --close --search --expect 20000\n  \
    outboard load http://10.77.0.1/ --path '/logo.png*9' --users 5000 -d 5m\n\n\
    From many addresses (the server needs a route back to them, here by 10.77.0.2):\n  \
    outboard load http://10.77.0.1/ -S 10.78.0.0/20 -k 0 -n 1000000 --conn-rate 100000")]
pub struct Args {
    // Written apart: brackets are links in a doc comment.
    #[arg(help = "What to ask for: http://ADDRESS[:PORT]/PATH")]
    pub url: String,
    /// Connections outstanding at once, at most [default: 32; with a rate: no limit; with
    /// --users: 512]
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub connections: Option<u64>,
    /// Requests a second, due at a fixed rate whether the server keeps up or not
    #[arg(short = 'R', long, value_name = "RATE", value_parser = rate, conflicts_with = "conn_rate")]
    pub rate: Option<f64>,
    /// Connections a second, due at a fixed rate; requests in them follow responses
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub conn_rate: Option<f64>,
    /// So many people instead of a rate, as SURGE has them: each asks over a connection of its own (of the kernel's
    /// sockets), has its answer, pauses for seconds or minutes, and asks again
    #[arg(long, value_name = "N", value_parser = users)]
    pub users: Option<usize>,
    /// End after so many requests (with -k 0: connections)
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub requests: Option<u64>,
    /// Begin nothing more after this time, such as 500ms, 10s, 2m [default: 10s; with -n: none]
    #[arg(short, long, value_name = "TIME", value_parser = lasting)]
    pub duration: Option<Duration>,
    /// Let the rate, or the number of connections, rise to its full height for so long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    pub ramp: Duration,
    /// Requests in each connection; 0: it is opened and held [default: as many as possible]
    #[arg(short = 'k', long, value_name = "N", value_parser = per_connection)]
    pub keep_alive: Option<u32>,
    /// One request in each connection (as -k 1)
    #[arg(long, conflicts_with = "keep_alive")]
    pub close: bool,
    /// Who ends a connection when all is answered: the server (the last request says
    /// Connection: close), the client (FIN), or the client by a reset
    #[arg(long, value_name = "WHO", value_enum, default_value = "server")]
    pub finish: Who,
    /// A further header for every request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Ask for heads only
    #[arg(long)]
    pub head: bool,
    /// A further path; *WEIGHT behind it says how often it is asked for (that of the URL: *1)
    #[arg(long = "path", value_name = "PATH[*WEIGHT]")]
    pub paths: Vec<String>,
    /// Sizes to put for {size} in paths: 1k,10k*3 (these, by weight), uniform:1k-100k, exp:8k,
    /// lognormal:MEAN,SCV (8k,2), pareto:LOW,HIGH,ALPHA (1k,1m,1.2)
    #[arg(long, value_name = "SIZES")]
    pub sizes: Option<String>,
    /// Every body must be the same for the same path; with a value, equal to this file (or, for a
    /// directory, the file of the path in it)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub verify: Option<Option<PathBuf>>,
    /// The interface to the server [default: the one that the kernel's route takes]
    #[arg(short, long, value_name = "IFACE", value_parser = no_url)]
    pub interface: Option<String>,
    /// Addresses to come from: one, a range (10.0.0.2-10.0.0.9) or a prefix (10.78.0.0/16)
    /// [default: the one that the kernel would choose]
    #[arg(short = 'S', long = "source", value_name = "ADDRESSES", value_parser = no_url)]
    pub sources: Vec<String>,
    /// Ports to come from. Those of servers are left out by default: a stateless server answers
    /// nothing that comes from a port of its own [default: 10240-65535]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub ports: Option<(u16, u16)>,
    /// Use ordinary sockets of the kernel's instead
    #[arg(long)]
    pub sockets: bool,
    /// Print the whole distribution of latencies
    #[arg(long)]
    pub latency: bool,
    /// Print the summary as JSON
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print the lines of every second as CSV, and no summary
    #[arg(long)]
    pub csv: bool,
    /// Draw rates and latencies over the time
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print no line every second
    #[arg(short, long)]
    pub quiet: bool,
    /// Counters of `outboard respond --json`, a file or UNIX socket: say on which side of what is
    /// between them something was lost
    #[arg(long, value_name = "FILE")]
    pub responder_json: Option<PathBuf>,
    /// Search the highest rate (of connections with --close or -k, else of requests) without loss
    #[arg(long)]
    pub search: bool,
    /// With --search: fail if that rate is lower than this
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "search")]
    pub expect: Option<f64>,
    /// With --search: how long each rate is tried
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub trial: Duration,
    /// Send again what has stood still for so long (up to twice that) [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub retry: Option<Duration>,
    /// Give a request up, as an error, that is not answered after so long (looked after every
    /// --retry) [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Wait for so long, at the end, for what is outstanding; what is still under way then is an error
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3s")]
    pub grace: Duration,
    /// Exit with failure if more than this share of the requests fails
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0%")]
    pub max_errors: f64,
    /// Make the same walk over addresses and ports, and the same choices, again
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Aim also at what is not in a network that is attached directly
    #[arg(long)]
    pub yes_i_own_this_network: bool,
    #[command(flatten)]
    pub foreign: Foreign,
}

/// Ports to come from, if nothing is said: servers seldom listen on these.
const PORTS: (u16, u16) = (10_240, 65_535);

/// Who ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Who {
    /// The server, being asked to.
    Server,
    /// The client, by FIN.
    Client,
    /// The client, by RST.
    Reset,
}

impl From<Who> for Finish {
    fn from(who: Who) -> Self {
        match who {
            Who::Server => Self::ByServer,
            Who::Client => Self::ByClient,
            Who::Reset => Self::ByReset,
        }
    }
}

impl Args {
    /// What clap cannot see.
    pub fn check(&self) -> Result<()> {
        self.foreign.check()?;
        let (timeout, retry) = (self.timeout(), self.retry());
        if timeout < retry {
            bail!(
                "--timeout {timeout:?} is shorter than --retry {retry:?}, by which it is looked after: make \
                 --retry shorter, too"
            );
        }
        self.check_users()?;
        if self.is_by_sockets() {
            let with = if self.users.is_some() {
                "--users"
            } else {
                "--sockets"
            };
            let refused = [
                (
                    self.keep_alive.is_some_and(|per| per != 1),
                    "-k other than 1",
                    "a socket is used for one request (--close), or for as many as the rate asks",
                ),
                (
                    !self.sources.is_empty(),
                    "-S",
                    "sockets have addresses of the machine's",
                ),
                (self.head, "--head", "its sockets wait for bodies"),
                (
                    self.verify.is_some(),
                    "--verify",
                    "its sockets count bodies only",
                ),
                (
                    self.responder_json.is_some(),
                    "--responder-json",
                    "the kernel does not tell what it sent again",
                ),
                (!self.ramp.is_zero(), "--ramp", "all of it is there at once"),
                (
                    self.finish != Who::Server,
                    "--finish",
                    "the kernel ends connections its own way",
                ),
                (
                    // What people do can be done again.
                    self.seed.is_some() && self.users.is_none(),
                    "--seed",
                    "the kernel chooses ports",
                ),
                (self.ports.is_some(), "--ports", "the kernel chooses them"),
                (
                    self.timeout.is_some(),
                    "--timeout",
                    "its sockets wait for their answers until the end, which --grace TIME puts off",
                ),
                (self.retry.is_some(), "--retry", "the kernel sends again"),
            ];
            refuse_with(with, &refused)?;
        }
        if self.search && (self.requests.is_some() || self.duration.is_some()) {
            bail!("--search tries each rate for --trial TIME: leave out -n and -d");
        }
        if self.keep_alive == Some(0) && self.rate.is_some() {
            bail!("-k 0 makes no requests: give --conn-rate instead of -R");
        }
        if self.keep_alive == Some(0) && self.conn_rate.is_none() && self.connections.is_none() {
            bail!("-k 0 holds connections: say how many (-c), or at which rate (--conn-rate)");
        }
        Ok(())
    }

    /// What goes with a rate does not go with people.
    fn check_users(&self) -> Result<()> {
        if self.users.is_none() {
            return Ok(());
        }
        let (asks, ends) = (
            "people ask when they have had their answer and read it",
            "people ask without end: -d TIME says for how long",
        );
        let refused = [
            (self.rate.is_some(), "-R", asks),
            (self.conn_rate.is_some(), "--conn-rate", asks),
            (self.search, "--search", asks),
            (self.requests.is_some(), "-n", ends),
        ];
        refuse_with("--users", &refused)
    }

    /// Whether it is by sockets of the kernel's.
    pub fn is_by_sockets(&self) -> bool {
        self.sockets || self.users.is_some()
    }

    /// After how long something is sent again.
    pub fn retry(&self) -> Duration {
        self.retry.unwrap_or(Duration::from_secs(1))
    }

    /// After how long a request is given up.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(30))
    }

    /// Ports to come from, the first and the last.
    pub fn ports(&self) -> (u16, u16) {
        self.ports.unwrap_or(PORTS)
    }

    /// Requests in each connection, if that is limited.
    pub fn per_connection(&self) -> Option<u32> {
        if self.close { Some(1) } else { self.keep_alive }
    }

    /// How long it lasts, unless that follows from the number of requests.
    pub fn lasts(&self) -> Option<Duration> {
        if self.search {
            return Some(self.trial);
        }
        match (self.duration, self.requests) {
            (None, None) => Some(Duration::from_secs(10)),
            (duration, _) => duration,
        }
    }
}

fn count(text: &str) -> Result<u64, String> {
    match super::url::number(text) {
        Some(number) if (1.0..=1e15).contains(&number) => Ok(number as u64),
        _ => Err("write a number such as 100, 20k or 1.5m".into()),
    }
}

fn users(text: &str) -> Result<usize, String> {
    const MOST: f64 = 1e6;
    match super::url::number(text) {
        Some(number) if (1.0..=MOST).contains(&number) => Ok(number as usize),
        _ => Err("write how many people, from 1 to a million, such as 500 or 20k".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match super::url::number(text) {
        Some(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err("write a number a second, such as 500 or 20k".into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a share such as 1% or 0.5%".into()),
    }
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first >= 1 && first <= last => Ok((first, last)),
        _ => Err("write ports as 10240-65535".into()),
    }
}

/// Refuses the first of these that is given, beside what it does not go with.
fn refuse_with(with: &str, options: &[(bool, &str, &str)]) -> Result<()> {
    match options.iter().find(|(given, ..)| *given) {
        Some((_, name, why)) => bail!("{name} does not go with {with}: {why}"),
        None => Ok(()),
    }
}

/// How long a load lasts. Elsewhere `-d` is a body.
fn lasting(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|wrong| match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => wrong,
        false => "-d is for how long here, such as 10s; requests have no bodies, since a stateless client \
                  has none to repeat: use oha or h2load"
            .into(),
    })
}

/// What ab's `-i` and `-S`, which have no value, would take the URL for.
fn no_url(text: &str) -> Result<String, String> {
    match text.contains("://") {
        true => Err("that is a URL; -i IFACE names the interface to the server, -S ADDRESSES where to come \
                     from, and --head asks for heads only"
            .into()),
        false => Ok(text.into()),
    }
}

/// How many requests a connection has. Elsewhere `-k` has no value, and asks for what is so anyway here.
fn per_connection(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        "-k says how many requests a connection has; without it connections are kept alive, and \
         --close makes one for each request"
            .into()
    })
}
