//! `outboard service`: services of the system, as their distribution installs them, on the engine.
//!
//! | file | what |
//! | --- | --- |
//! | here | what is asked for, and what is said of it |
//! | `unit` | what a unit of systemd's says of its program |
//! | `dropin` | the file that is written beside it |
//! | `environment` | where else a program gets its environment from |

mod dropin;
mod environment;
mod unit;

use anyhow::{Context, Result, bail};
use queue_pair::control::DEFAULT_NAME;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use unit::Unit;

/// Put a service of the system on the engine, or take it off again
///
/// A drop-in for systemd has the service's program started with outboard's library, as `outboard
/// run` does it by hand, and after the engine. While there is no engine the service runs on the
/// kernel's TCP.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  sudo outboard service enable nginx && sudo systemctl restart nginx\n  \
    outboard service list\n  sudo outboard service disable nginx && sudo systemctl restart nginx"
)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Have a service run on the engine from its next start on
    Enable {
        #[command(flatten)]
        of: Of,
        /// The engine's name: the service is started after outboard@NAME
        #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME,
              value_parser = crate::advice::engine_name)]
        engine: String,
        /// Have it fail, rather than leave a socket to the kernel, where the engine cannot take it
        #[arg(long)]
        strict: bool,
    },
    /// Have it run on the kernel again from its next start on
    Disable {
        #[command(flatten)]
        of: Of,
    },
    /// List the services that were enabled
    List {
        /// Look below this directory instead of /
        #[arg(long, value_name = "DIR", default_value = "/")]
        root: PathBuf,
    },
}

#[derive(clap::Args)]
struct Of {
    /// The service, such as nginx or postgresql@15-main
    #[arg(value_name = "SERVICE", value_parser = unit::name)]
    service: String,
    /// Work below this directory instead of /, without telling systemd: for images and packages
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Does it, and says what it did.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::Enable { of, engine, strict } => enable(&of, &engine, strict)?,
        Action::Disable { of } => disable(&of)?,
        Action::List { root } => {
            for (service, engine) in dropin::all(&root)? {
                println!("{service}  on outboard@{engine}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn enable(of: &Of, engine: &str, strict: bool) -> Result<()> {
    let service = &of.service;
    let unit = Unit::find(&of.root, service)?;
    let program = unit.program()?;
    if program.file_name().is_some_and(|name| name == "true") {
        bail!(
            "{service} starts nothing itself, but others do with it: name those, which \
             `systemctl list-units '{service}@*'` shows"
        );
    }
    let place = below(&of.root, &program);
    crate::run::program::check(&place)
        .with_context(|| format!("{service} stays on the kernel: {}", program.display()))?;
    if unit.sets_preload() {
        bail!(
            "{} sets LD_PRELOAD itself; add outboard's library to that by hand (outboard run shows \
             how)",
            unit.path.display()
        );
    }
    let library = crate::run::library::find()?;
    // In an image the library is where the image will have it.
    let library = match library.strip_prefix(&of.root) {
        Ok(inside) => Path::new("/").join(inside),
        Err(_) => library,
    };
    if let Some(file) = environment::file(&of.root, service, &program) {
        let variables = dropin::variables(engine, strict, &library);
        environment::write(&file, &variables)?;
        println!(
            "wrote {}, from which the program gets its environment",
            file.display()
        );
    }
    let text = dropin::text(&dropin::Wanted {
        service,
        engine,
        strict,
        library: &library,
        needs_unix_sockets: unit.forbids_unix_sockets(),
    });
    let path = dropin::write(&of.root, service, &text)?;
    println!("wrote {}", path.display());
    reload(&of.root)?;
    println!(
        "{service} runs on the engine {engine} from its next start on: systemctl restart {service}"
    );
    let configuration = of.root.join(format!("etc/outboard/{engine}.toml"));
    if !configuration.exists() {
        println!(
            "There is no {} yet: copy engine.toml from outboard's documentation, name the \
             interface in it, and: systemctl enable --now outboard@{engine}",
            configuration.display()
        );
    }
    Ok(())
}

fn disable(of: &Of) -> Result<()> {
    let service = &of.service;
    let path = dropin::remove(&of.root, service)?;
    println!("removed {}", path.display());
    if let Some(file) = environment::remove(&of.root, service)? {
        println!("took out of {} what was added to it", file.display());
    }
    reload(&of.root)?;
    println!("{service} runs on the kernel from its next start on: systemctl restart {service}");
    Ok(())
}

/// Has systemd read its units again, where it runs.
fn reload(root: &Path) -> Result<()> {
    if root != Path::new("/") || !sd_notify::booted().unwrap_or(false) {
        return Ok(());
    }
    let status = Command::new("systemctl")
        .arg("daemon-reload")
        .status()
        .context("cannot run systemctl daemon-reload")?;
    if !status.success() {
        bail!("systemctl daemon-reload failed: run it by hand, and look at `systemctl status`");
    }
    Ok(())
}

/// An absolute path below another root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
