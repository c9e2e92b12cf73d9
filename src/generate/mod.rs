//! `outboard generate`: manual pages, pages of the documentation and completions, from the same
//! definitions as the parser and the help. Not shown: packagers call it (`make install`, `make pages`).

mod calls;
mod pages;
mod settings;

use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write manual pages (DIR/man1, DIR/man3, DIR/man5), pages of the documentation (DIR/commands) and completions
/// (DIR/bash, DIR/zsh, DIR/fish)
#[derive(clap::Args)]
pub struct Args {
    /// Where to; it is made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes those of `cli`.
pub fn run(args: Args, cli: &clap::Command) -> Result<ExitCode> {
    let pages = made(&args.directory.join("man1"))?;
    // Of every command, those of commands included; not of what is hidden.
    clap_mangen::generate_to(cli.clone(), &pages)
        .with_context(|| format!("cannot write to {}", pages.display()))?;
    let configuration = made(&args.directory.join("man5"))?.join("outboard.toml.5");
    write(&configuration, &settings::page())?;
    let of_calls = made(&args.directory.join("man3"))?;
    for (name, page) in calls::pages()? {
        write(&of_calls.join(name), &page)?;
    }
    let documentation = made(&args.directory.join("commands"))?;
    for (name, page) in pages::of(cli.clone()) {
        write(&documentation.join(name + ".md"), &page)?;
    }
    for (name, shell) in [
        ("bash", Shell::Bash),
        ("zsh", Shell::Zsh),
        ("fish", Shell::Fish),
    ] {
        let directory = made(&args.directory.join(name))?;
        clap_complete::generate_to(shell, &mut cli.clone(), "outboard", &directory)
            .with_context(|| format!("cannot write to {}", directory.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn made(directory: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.to_owned())
}
