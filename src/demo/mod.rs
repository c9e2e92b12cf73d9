//! `outboard demo`: a site served on a private engine, fetched through the kernel's TCP, and an
//! account of what happened.

mod account;
mod burden;
mod bystanders;
mod site;
mod stage;
mod trial;

use ::lab::nginx::Nginx;
use ::lab::outboard::total;
use ::lab::{Side, tool};
use account::Row;
use anyhow::{Context, Result, bail};
use burden::Burden;
use site::Site;
use stage::{Kind, Stage};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trial::Trial;

/// Serve a small site on a private engine, fetch it, and account for it
///
/// Makes two network namespaces joined by a veth pair, starts an engine in one, serves a site on
/// it with the built-in server and with an unmodified nginx, fetches it from the other through the
/// kernel's TCP, and compares with the same on the kernel. All of it is gone afterwards, also after
/// Ctrl-C. Needs root: the kernel lets no user namespace load the engine's XDP program.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo outboard demo --keep")]
pub struct Args {
    /// Leave it up afterwards, to be tried by hand, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

/// Runs the demo.
pub fn run(args: Args) -> Result<ExitCode> {
    crate::rights::check("demo")?;
    crate::run::library::check()?;
    for (needed, package) in [("ip", "iproute2"), ("curl", "curl")] {
        if tool::find(needed).is_none() {
            bail!("{needed} is not installed: apt-get install {package}");
        }
    }
    let binary = std::env::current_exe()?;
    let started = Instant::now();
    println!("making two private networks, one with an engine, one with the kernel alone");
    let mut on_engine = Stage::new(&binary, true)?;
    let on_kernel = Stage::new(&binary, false)?;
    let site = Site::make(&on_engine.world().scratch().join("site"))?;
    let mut kinds = vec![Kind::BuiltIn];
    if Nginx::is_installed() {
        kinds.push(Kind::Nginx);
    } else {
        println!("nginx is not installed (apt-get install nginx-light): without it");
    }

    let mut rows = Vec::new();
    let mut servers = Vec::new();
    for kind in kinds {
        println!(
            "serving with {} and fetching, on both in turns",
            kind.name()
        );
        let (row, server) = try_out(kind, &on_engine, &on_kernel, &site)?;
        servers.push((kind, server));
        rows.push(row);
    }
    let bystanders = bystanders::look(&on_engine, Kind::BuiltIn.address())?;
    drop(on_kernel);

    println!();
    print!("{}", account::of_servers(&rows));
    println!();
    if let Some(counters) = on_engine.counters()? {
        println!(
            "The engine handled {:.0} segments in and {:.0} out ({:.0} sent again).",
            total(&counters, "tcp_segments_in"),
            total(&counters, "tcp_segments_out"),
            total(&counters, "tcp_retransmits"),
        );
    }
    println!(
        "The kernel, on the same interface: ping {}, a service on another port {}, a client on \
         the same machine {}; {} TCP segments in all.",
        word(bystanders.ping),
        word(bystanders.other_port),
        word(bystanders.local_client),
        bystanders.kernel_segments,
    );
    println!();
    print!("{}", account::of_costs(&rows));
    print!("{}", account::of_what_is_worse(&rows));
    println!("{WHAT_THIS_MEASURES}");
    println!();
    let sound = bystanders.ping
        && bystanders.other_port
        && bystanders.local_client
        && rows.iter().all(|row| is_sound(&row.engine));
    println!(
        "{} in {:.0} s.",
        if sound {
            "All as it should be,"
        } else {
            "NOT all as it should be,"
        },
        started.elapsed().as_secs_f64()
    );
    if args.keep {
        keep(&binary, &mut on_engine, &servers)?;
    } else {
        println!("Nothing of it stays. To try it by hand: make demo KEEP=1");
    }
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn is_sound(trial: &Trial) -> bool {
    trial.fetched.pages == Site::pages().count()
        && trial.fetched.large_equal
        && trial
            .engine_connections
            .is_none_or(|(accepted, all)| accepted >= all)
}

fn word(good: bool) -> &'static str {
    if good { "answered" } else { "DID NOT ANSWER" }
}

/// What the account is of, so that nobody takes it for more, or for less.
const WHAT_THIS_MEASURES: &str = "\
This is a look, not a measurement: few requests at a fixed rate, and one large file after the other, with
client, server and engine on the same cores. There an engine gains least: work moves from the server to the
engine, and the whole machine may do more of it than before. `outboard lab run web` measures what both carry,
with cores of their own and intervals; `outboard plan` says from which load on it would pay for a server of
yours, if it would.";

/// A load that is measured once says little on a shared machine, and whoever comes first finds it differently.
const ROUNDS: usize = 3;

/// Tries a server on both, in turns. It stays up on the engine, for those who keep the demo.
fn try_out(
    kind: Kind,
    on_engine: &Stage,
    on_kernel: &Stage,
    site: &Site,
) -> Result<(Row, stage::Server)> {
    let stages = [on_kernel, on_engine];
    let servers = [on_kernel.start(kind, site)?, on_engine.start(kind, site)?];
    let accepted = on_engine.accepted()?;
    let mut fetched = Vec::new();
    for (stage, server) in stages.iter().zip(&servers) {
        fetched.push(stage.fetch_all(kind, server, site)?);
    }
    let mut burdens = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for turn in 0..stages.len() {
            let index = (round + turn) % stages.len();
            burdens[index].push(Burden::measure(stages[index], kind, &servers[index])?);
        }
    }
    let came = accepted
        .zip(on_engine.accepted()?)
        .map(|(before, after)| after - before);
    let mut trials = fetched.into_iter().zip(burdens).map(|(fetched, burdens)| {
        Some(Trial {
            engine_connections: came.map(|came| {
                let made = fetched.connections + ROUNDS * burden::CONNECTIONS;
                (came, made as u64)
            }),
            fetched,
            burden: Burden::middle(&burdens)?,
        })
    });
    let (kernel, engine) = (trials.next().flatten(), trials.next().flatten());
    let (kernel, engine) = kernel.zip(engine).context("nothing was measured")?;
    let [_, server] = servers;
    Ok((
        Row {
            kind,
            engine,
            kernel,
        },
        server,
    ))
}

/// Says how to try it by hand, and waits.
fn keep(binary: &Path, stage: &mut Stage, servers: &[(Kind, stage::Server)]) -> Result<()> {
    let client = stage.world().name(Side::Client).to_string();
    let server = stage.world().name(Side::Server).to_string();
    let socket = stage.outboard().socket().display().to_string();
    let binary = binary.display();
    println!("It stays up until Ctrl-C. To try it by hand, as root:");
    for (kind, _) in servers {
        println!(
            "  ip netns exec {client} curl -i http://{}/",
            kind.address()
        );
    }
    println!("  export OUTBOARD_SOCKET={socket}");
    for command in ["ss -ap", "stats", "capture -w - | tcpdump -nr -"] {
        println!("  {binary} {command}");
    }
    println!("  ip netns exec {server} {binary} run -- ANY PROGRAM");
    loop {
        if let Some(engine) = stage.engine()
            && let Some(status) = engine.ended()?
        {
            bail!("the engine ended ({status})");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}
