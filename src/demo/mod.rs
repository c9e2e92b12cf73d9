//! `outboard demo`: a site served on a private engine, fetched through the kernel's TCP, and an
//! account of what happened.

mod bystanders;
mod site;
mod stage;

use ::lab::nginx::Nginx;
use ::lab::outboard::total;
use ::lab::table::Table;
use ::lab::{Side, tool};
use anyhow::{Result, bail};
use site::Site;
use stage::{Kind, Stage, Trial};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
        println!("serving with {} and fetching with curl", kind.name());
        let server = on_engine.start(kind, &site)?;
        let by_engine = on_engine.try_out(kind, &server, &site)?;
        // It stays, for those who keep the demo.
        servers.push((kind, server));
        let server = on_kernel.start(kind, &site)?;
        let by_kernel = on_kernel.try_out(kind, &server, &site)?;
        rows.push((kind, by_engine, by_kernel));
    }
    let bystanders = bystanders::look(&on_engine, Kind::BuiltIn.address())?;
    drop(on_kernel);

    println!();
    print!("{}", account_of_servers(&rows));
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
    print!("{}", account_of_cpu(&rows));
    println!("{WHAT_THIS_MEASURES}");
    println!();
    let sound = bystanders.ping
        && bystanders.other_port
        && bystanders.local_client
        && rows.iter().all(|(_, by_engine, _)| is_sound(by_engine));
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
    trial.pages == Site::pages().count()
        && trial.large_equal
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

/// Who answered, and whether it was right.
fn account_of_servers(rows: &[(Kind, Trial, Trial)]) -> String {
    let mut table = Table::new([
        "Served on the engine by",
        "connections of the engine",
        "pages right",
        "100 MB file",
        "speed",
        "on the kernel",
    ]);
    for (kind, by_engine, by_kernel) in rows {
        let (accepted, all) = by_engine.engine_connections.unwrap_or_default();
        table.row([
            kind.name().to_string(),
            format!("{accepted} of {all}"),
            format!("{} of {}", by_engine.pages, Site::pages().count()),
            if by_engine.large_equal {
                "equal hash"
            } else {
                "DIFFERS"
            }
            .to_string(),
            speed(by_engine.speed),
            speed(by_kernel.speed),
        ]);
    }
    table.to_string()
}

fn speed(bytes_a_second: f64) -> String {
    format!("{:.0} MB/s", bytes_a_second / 1e6)
}

/// What the same requests cost, the server's process and everything together.
fn account_of_cpu(rows: &[(Kind, Trial, Trial)]) -> String {
    let mut table = Table::new(["CPU time", "on the kernel", "on the engine", "ratio"]);
    for (kind, by_engine, by_kernel) in rows {
        for (what, kernel, engine) in [
            (
                "server process, a request of 1 KB",
                by_kernel.request_cpu,
                by_engine.request_cpu,
            ),
            (
                "whole machine, a request of 1 KB",
                by_kernel.machine_cpu,
                by_engine.machine_cpu,
            ),
            (
                "server process, the 100 MB file",
                by_kernel.large_cpu,
                by_engine.large_cpu,
            ),
        ] {
            table.row([
                format!("{}: {what}", kind.name()),
                time(kernel),
                time(engine),
                format!(
                    "{:.2}",
                    engine.as_secs_f64() / kernel.as_secs_f64().max(1e-9)
                ),
            ]);
        }
    }
    table.to_string()
}

fn time(time: Duration) -> String {
    if time < Duration::from_millis(1) {
        format!("{:.1} us", time.as_secs_f64() * 1e6)
    } else {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    }
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
