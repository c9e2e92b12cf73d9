//! The client of `stateless::client`, on AF_XDP.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use ::lab::clock::now;
use ::stateless::client::reply::{Addressing, Frames};
use ::stateless::client::request::Pattern;
use ::stateless::client::run::{Due, Next, Plan, Runner};
use ::stateless::client::sources::{AddressRange, Sources};
use ::stateless::client::{Client, Config, Verify};
use anyhow::{Context, Result, anyhow, bail};
use netdev::steering::SteeringError;
use netdev::{Claim, Claimed, Device, Placement, XdpDevice, xdp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Args;
use super::job::Job;
use super::outcome::{Details, Outcome, Reached};
use super::progress::{Clock, Progress};
use super::target::{Target, Way};

/// Connections that are outstanding if nothing is said.
const CONNECTIONS: u64 = 32;
/// Least and greatest size of the ledger, in connections.
const WINDOWS: (u64, u64) = (1 << 16, 1 << 26);
/// Responses in pieces at once, at most.
const PARTIAL: usize = 1 << 16;
/// A window that a server can fill without our receive ring running over.
const WINDOW: u16 = 65_535;
const WINDOW_SCALE: u8 = 2;
/// Frames that may wait to be received, and to be sent.
const FRAMES: (u32, u32) = (16_384, 4096);
/// The next turn follows at once if what is due is nearer than this; to sleep would take longer.
const NOT_WORTH_SLEEPING: Duration = Duration::from_micros(30);

/// After so long without a frame the client sleeps until one comes: to be woken costs as much, and
/// it costs the core most from which the frame comes.
const IDLE: Duration = Duration::from_micros(50);

/// What is under way to a server that answers as fast as it can comes within this, for each.
const ANSWER: Duration = Duration::from_micros(2);

/// It is not worth more, however much is under way.
const IDLE_MOST: Duration = Duration::from_micros(500);

/// Runs the load.
pub fn run(job: &Job<'_>, rate: Option<f64>, progress: &mut Progress) -> Result<Outcome> {
    let Target::Network(way) = &job.target else {
        bail!("there is no interface to the server");
    };
    let (config, plan) = describe(job, way, rate)?;
    let sources = config.sources.clone();
    let seed = config.key;
    let addressing = Addressing {
        link: way.link,
        server: job.url.server,
        mss: mss(way.interface.mtu, job.url.server.is_ipv4()),
        window: WINDOW,
        window_scale: WINDOW_SCALE,
        hop_limit: 64,
    };
    let frames = Frames::new(&addressing, &sources, &config.requests)?;
    let device = XdpDevice::open(
        &way.interface,
        xdp::Config {
            receive_frames: FRAMES.0,
            transmit_frames: FRAMES.1,
            ..xdp::Config::default()
        },
    )?;
    if frames.longest() > device.limits().frame {
        bail!(
            "a request of {} bytes does not fit the MTU of {}",
            config.requests.length(),
            way.interface.name
        );
    }
    let mut claim =
        Claim::attach(&way.interface, Placement::Auto, &claimed(job, &sources)).map_err(refused)?;
    claim.connect_queue(device.queue(), &device)?;
    let client = Client::new(config)?;
    let stop = OwnedFd::from(crate::stop::signals()?);
    // Without this the kernel may let us sleep 50 µs longer than asked.
    rustix::thread::set_current_timer_slack(std::num::NonZero::new(1))?;
    let of_connections = matches!(plan.due, Due::Connections(_));
    let runner = Runner::new(device, client, frames, plan, now());
    drive(runner, &addressing, &stop, progress).map(|mut outcome| {
        outcome.of_connections = of_connections;
        outcome.seed = Some(seed);
        outcome
    })
}

/// Turns until it is over.
fn drive(
    mut runner: Runner<XdpDevice>,
    addressing: &Addressing,
    stop: &OwnedFd,
    progress: &mut Progress,
) -> Result<Outcome> {
    let mut clock = Clock::new();
    let mut interrupted = false;
    let mut busy = now();
    let end = loop {
        let time = now();
        let next = runner.turn(time);
        let so_far = runner.elapsed_ns(time) as f64 / 1e9;
        if clock.is_due(so_far) {
            clock.tick(reached(&runner, time), runner.client().latency(), progress);
            let mut fds = [PollFd::new(stop, PollFlags::IN)];
            if poll(&mut fds, Some(&Timespec::default()))? > 0 {
                interrupted = true;
            }
        }
        if interrupted {
            runner.stop(time);
        }
        match next {
            Next::Over => break time,
            Next::Now => busy = time,
            Next::At(_) if time.saturating_sub(busy) < patience(runner.client()) => {
                std::thread::yield_now();
            }
            Next::At(at) => {
                let pause = Duration::from_nanos(at.saturating_sub(now()));
                if pause > NOT_WORTH_SLEEPING {
                    interrupted |= sleep(&runner, stop, pause)?;
                }
            }
        }
    };
    let reached = reached(&runner, end);
    clock.finish(reached, runner.client().latency(), progress);
    let device = runner.device_mut().counters();
    let client = runner.client();
    Ok(Outcome {
        progress: Reached {
            seconds: runner.worked_ns(end) as f64 / 1e9,
            ..reached
        },
        lasted: runner.lasted_ns(end) as f64 / 1e9,
        of_connections: false,
        latency: client.latency().clone(),
        seconds: clock.seconds,
        details: Some(Details {
            counters: *client.counters(),
            path: client.path().clone(),
            sent: client.sent(),
            addressing: *addressing,
            device,
            connect: client.connect_latency().clone(),
            memory: client.ledger_memory(),
        }),
        users: None,
        seed: None,
    })
}

/// How long to go on without a frame before sleeping, in nanoseconds.
fn patience(client: &Client) -> u64 {
    let under_way = if client.is_holding() {
        0
    } else {
        u32::try_from(client.outstanding()).unwrap_or(u32::MAX)
    };
    let patience = ANSWER.saturating_mul(under_way).clamp(IDLE, IDLE_MOST);
    patience.as_nanos() as u64
}

/// Waits for frames, a signal, or the time; whether it was a signal.
fn sleep(runner: &Runner<XdpDevice>, stop: &OwnedFd, pause: Duration) -> Result<bool> {
    let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
    runner.device().poll_fds(&mut fds);
    match poll(&mut fds, Some(&Timespec::try_from(pause)?)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("poll"),
    }
    Ok(!fds[0].revents().is_empty())
}

fn reached(runner: &Runner<XdpDevice>, time: u64) -> Reached {
    let client = runner.client();
    let counters = client.counters();
    Reached {
        seconds: runner.elapsed_ns(time) as f64 / 1e9,
        outstanding: client.outstanding(),
        connections: counters.syn_acks,
        requests: counters.responses,
        bytes: counters.bytes_received,
        errors: counters.errors(),
        backlog: runner.backlog(time),
        unfinished: counters.unfinished,
    }
}

/// What the client is to do, and how much of it.
fn describe(job: &Job<'_>, way: &Way, rate: Option<f64>) -> Result<(Config, Plan)> {
    let args = job.args;
    let patterns = job.url.patterns(&args.paths, args.sizes.as_deref())?;
    let requests = super::request::all(job)?;
    let most = Client::most_requests(&requests);
    let per_connection = args.per_connection().unwrap_or(most);
    let sources = sources(args, way)?;
    let due = due((args.rate, args.conn_rate), rate, per_connection, most);
    let default = match due {
        Due::AsTheyReturn => CONNECTIONS,
        _ => u64::MAX,
    };
    let connections = args.connections.unwrap_or(default);
    if connections != u64::MAX && connections > sources.places() {
        bail!(
            "{connections} connections at once from {} pairs of address and port: give more by -S \
             or --ports",
            sources.places()
        );
    }
    let window = match due {
        _ if connections != u64::MAX => connections.saturating_mul(4),
        Due::Connections(rate) | Due::Requests(rate) => (rate * 8.0) as u64,
        Due::AsTheyReturn => 0,
    };
    let holding = if per_connection == 0 {
        args.requests.unwrap_or(0)
    } else {
        0
    };
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let verify = verify(args, &patterns)?;
    let key = job.seed()?;
    let config = Config {
        server: job.url.server,
        sources,
        requests,
        per_connection,
        requests_in_all: args.requests.filter(|_| per_connection > 0),
        finish: args.finish.into(),
        timeout_us: u32::try_from(args.timeout().as_micros()).unwrap_or(u32::MAX),
        paced: matches!(due, Due::Requests(_)),
        verify,
        window: usize::try_from(window.max(holding).clamp(WINDOWS.0, WINDOWS.1))?,
        partial: PARTIAL,
        key,
    };
    let plan = Plan {
        due,
        connections,
        requests: args.requests,
        duration_ns: args.lasts().map(nanos),
        ramp_ns: nanos(args.ramp),
        grace_ns: nanos(args.grace),
        retry_ns: nanos(args.retry()),
    };
    Ok((config, plan))
}

/// What is due at the rates of requests and connections that are asked for; instead of them at the one
/// that is tried, which is of the same, or of connections where those have so many requests.
fn due(
    (requests, connections): (Option<f64>, Option<f64>),
    tried: Option<f64>,
    per_connection: u32,
    most: u32,
) -> Due {
    let of_requests = requests.is_some() || (connections.is_none() && per_connection == most);
    let (requests, connections) = match tried {
        Some(_) if of_requests => (tried, None),
        Some(_) => (None, tried),
        None => (requests, connections),
    };
    match (requests, connections) {
        // A connection for each request: both rates are one.
        (Some(rate), _) if per_connection == 1 => Due::Connections(rate),
        (Some(rate), _) => Due::Requests(rate),
        (None, Some(rate)) => Due::Connections(rate),
        (None, None) => Due::AsTheyReturn,
    }
}

fn sources(args: &Args, way: &Way) -> Result<Sources> {
    let mut ranges = Vec::new();
    for text in &args.sources {
        ranges.push(AddressRange::parse(text)?);
    }
    if ranges.is_empty() {
        ranges.push(AddressRange::single(way.source));
    }
    let (first, last) = args.ports();
    Ok(Sources::new(ranges, first..=last)?)
}

/// Why there is no claim. A responder that was told of its peer by `--peer` holds this interface only
/// to have it poll, which ours does as well.
fn refused(error: SteeringError) -> anyhow::Error {
    if let SteeringError::Occupied {
        interface,
        owner: Some(owner),
        ..
    } = &error
        && is_peer(interface, &owner.command)
    {
        return anyhow!(
            "{interface} is held by `outboard respond --peer` (process {}), and there can be one XDP \
             program only: start the responder without --peer, which is not needed while \
             `outboard load` runs on {interface}",
            owner.process
        );
    }
    error.into()
}

/// Whether a command names `interface` as the peer of a responder.
fn is_peer(interface: &str, command: &[String]) -> bool {
    let named = command.iter().enumerate().find_map(|(index, word)| {
        let value = word.strip_prefix("--peer")?;
        match value.strip_prefix('=') {
            Some(value) => Some(value),
            None if value.is_empty() => command.get(index + 1).map(String::as_str),
            None => None,
        }
    });
    let of_responder = command.iter().any(|word| word == "respond");
    of_responder && named.and_then(|peer| peer.rsplit('/').next()) == Some(interface)
}

fn claimed(job: &Job<'_>, sources: &Sources) -> Claimed {
    Claimed {
        server: job.url.server,
        addresses: sources
            .ranges()
            .iter()
            .map(|range| (range.first(), range.last()))
            .collect(),
        ports: sources.ports(),
    }
}

fn verify(args: &Args, patterns: &[Pattern]) -> Result<Verify> {
    let path = match &args.verify {
        None => return Ok(Verify::Nothing),
        Some(None) => return Ok(Verify::Same),
        Some(Some(path)) => path,
    };
    let mut bodies = Vec::new();
    for pattern in patterns {
        let file = if path.is_dir() {
            let name = pattern.path.split('?').next().unwrap_or("");
            let name = Path::new(name.trim_start_matches('/'));
            if name.components().any(|part| part.as_os_str() == "..") {
                bail!("{} leads out of {}", name.display(), path.display());
            }
            path.join(name)
        } else {
            path.clone()
        };
        let bytes =
            std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        bodies.push(bytes.into_boxed_slice());
    }
    Ok(Verify::Bytes(bodies))
}

fn mss(mtu: usize, v4: bool) -> u16 {
    let headers = if v4 { 40 } else { 60 };
    u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Due, due, is_peer};

    #[test]
    fn what_is_tried_is_what_was_asked_for_at_another_rate() {
        let most = 1_000;
        let both = (None, None);
        assert_eq!(due(both, None, most, most), Due::AsTheyReturn);
        assert_eq!(due((Some(5.0), None), None, 3, most), Due::Requests(5.0));
        assert_eq!(due((Some(5.0), None), None, 1, most), Due::Connections(5.0));
        assert_eq!(due((None, Some(5.0)), None, 3, most), Due::Connections(5.0));
        for per_connection in [3, most] {
            let tried = |rates| due(rates, Some(7.0), per_connection, most);
            assert_eq!(tried((Some(5.0), None)), Due::Requests(7.0));
            assert_eq!(tried((None, Some(5.0))), Due::Connections(7.0));
        }
        assert_eq!(due(both, Some(7.0), 3, most), Due::Connections(7.0));
        assert_eq!(due(both, Some(7.0), most, most), Due::Requests(7.0));
        assert_eq!(due(both, Some(7.0), 1, most), Due::Connections(7.0));
    }

    #[test]
    fn the_peer_of_a_responder_is_found_in_its_command() {
        let is_peer = |command: &str| {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            is_peer("veth1", &words)
        };
        assert!(is_peer(
            "outboard respond -i veth0 --peer blue/veth1 -L :80"
        ));
        assert!(is_peer("outboard respond --peer=veth1"));
        assert!(!is_peer("outboard respond -i veth1"));
        assert!(!is_peer("outboard respond --peer blue/veth2"));
        assert!(!is_peer("outboard respond --peer"));
        assert!(!is_peer("another --peer veth1"));
    }
}
