//! `outboard divert`: a program of the user's at the driver's edge, beside an engine.

use crate::control::{Engine, out_of_place};
use anyhow::{Context, Result, bail};
use netdev::Interface;
use netdev::diverter::{Diverter, verdicts};
use queue_pair::control::{Fds, Reply, Request};
use std::path::PathBuf;
use std::process::ExitCode;

/// Have a BPF program of yours pass, drop or answer in place what is not the engine's
///
/// An interface has one XDP program, and that is the engine's. It has a slot: a program there is called for each
/// frame that neither the engine nor a stateless responder has to do with, and decides (XDP_PASS, XDP_DROP, XDP_TX).
/// It stays until it is unloaded or the engine ends. For root and the engine's own user.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  sudo outboard divert load -i eth1 icmp_echo.o\n  sudo outboard divert list\n  \
    sudo outboard divert unload"
)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Load a program, in the place of one that is there
    Load {
        #[command(flatten)]
        engine: Engine,
        /// The engine's interface
        #[arg(short, long, value_name = "IFACE")]
        interface: String,
        /// Which program of the file; not needed if there is one
        #[arg(long, value_name = "NAME")]
        program: Option<String>,
        /// An object that clang made (--target=bpf), with a program of section "xdp.frags"
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Say which program is loaded, how many frames it was given, and what it decided
    List {
        #[command(flatten)]
        engine: Engine,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Take the program out again
    Unload {
        #[command(flatten)]
        engine: Engine,
    },
}

/// Does it, and says what it did.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::Load {
            engine,
            interface,
            program,
            file,
        } => load(&engine, &interface, program.as_deref(), &file)?,
        Action::List { engine, json } => list(&engine, json)?,
        Action::Unload { engine } => {
            match engine.connect()?.ask(&Request::Undivert)? {
                Reply::Done => println!("unloaded: what is not the engine's goes to the kernel"),
                other => return Err(out_of_place(&other)),
            };
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn load(
    engine: &Engine,
    interface: &str,
    program: Option<&str>,
    file: &std::path::Path,
) -> Result<()> {
    let mut control = engine.connect()?;
    let interface = Interface::find(interface).with_context(|| interface.to_owned())?;
    let loaded = Diverter::load(file, program).with_context(|| file.display().to_string())?;
    let mut fds = Fds::new();
    fds.push(loaded.program);
    let request = Request::Divert {
        interface: interface.index,
        name: loaded.name.clone(),
        program: loaded.id,
    };
    match control.ask_with(&request, fds)? {
        Reply::Done => println!("loaded {} ({})", loaded.name, loaded.id),
        other => return Err(out_of_place(&other)),
    }
    Ok(())
}

fn list(engine: &Engine, json: bool) -> Result<()> {
    let mut control = engine.connect()?;
    let Reply::Diverted(program) = control.ask(&Request::Diverter)? else {
        bail!("the engine knows of no such programs; is it of another version?");
    };
    let metrics = control.metrics()?;
    let is_given = |label: &(String, String)| label.1 == "diverter";
    let given = metrics
        .iter()
        .find(|metric| metric.labels.iter().any(is_given));
    let given = given.map_or(0.0, |metric| metric.value);
    let decided = program.as_ref().and_then(|(_, id)| verdicts(*id));
    if json {
        let verdicts = decided.map(|it| {
            serde_json::json!({"passed": it.passed, "dropped": it.dropped, "answered": it.answered,
                "redirected": it.redirected, "aborted": it.aborted})
        });
        let all = program.map(|(name, id)| {
            serde_json::json!({"name": name, "id": id, "given": given, "verdicts": verdicts})
        });
        println!("{}", serde_json::to_string(&all)?);
        return Ok(());
    }
    let Some((name, id)) = program else {
        println!("no program is loaded");
        return Ok(());
    };
    println!("{name} ({id})  given {given} frames");
    match decided {
        Some(it) => println!(
            "  passed {}  dropped {}  answered {}  redirected {}  aborted {}",
            it.passed, it.dropped, it.answered, it.redirected, it.aborted
        ),
        None => println!(
            "  it counts nothing that can be read here (outboard_divert.h does; reading takes root)"
        ),
    }
    Ok(())
}
