//! A table of programs: unmodified ones, on the kernel and on the engine.
//!
//! Each is started as people start it, in a private network, serves clients on the kernel's TCP at
//! the other side, and what they get is held against what it has to be, byte by byte. That its
//! connections were on the engine is counted, not believed.

mod apart;
mod behind;
mod clients;
mod crowd;
mod exchange;
mod line;
mod place;
mod report;
mod serving;
mod subject;
mod subjects;
mod successor;
mod trial;

use line::Line;
pub use report::Report;
pub(crate) use subject::find;

use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// What to try.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `outboard`.
    pub binary: PathBuf,
    /// Only programs whose names contain one of these words; all, without any.
    pub only: Vec<String>,
    /// Whether to install what is missing.
    pub install: bool,
}

/// Tries all programs that are installed; `say` is told what goes on.
///
/// # Errors
/// No program is chosen, or a network or an engine cannot be made.
pub fn run(plan: &Plan, say: &mut dyn FnMut(&str)) -> Result<Report> {
    let chosen = subjects::chosen(&plan.only);
    if chosen.is_empty() {
        let all: Vec<&str> = subjects::all().map(|one| one.name).collect();
        bail!("no program is called so; there are: {}", all.join("; "));
    }
    let (mut lines, mut missing) = (Vec::new(), Vec::new());
    for subject in chosen {
        if !subject.missing().is_empty() && !subject.packages.is_empty() && plan.install {
            say(&format!("installing {}", subject.packages));
            // What could not be installed is missed below.
            if let Err(error) = install(subject.packages) {
                say(&format!("{error:#}"));
            }
        }
        if !subject.missing().is_empty() {
            missing.push((subject.name, subject.brought_by()));
            continue;
        }
        say(&format!("{} on the kernel", subject.name));
        let mut kernel = trial::run(subject, None)?;
        say(&format!("{} on the engine", subject.name));
        let engine = trial::run(subject, Some(&plan.binary))?;
        if matches!(engine.reload, Some(Err(_))) && !matches!(kernel.reload, Some(Err(_))) {
            say(&format!(
                "{} on the kernel, more reloads, to compare",
                subject.name
            ));
            match trial::reloads_on_kernel(subject) {
                Ok(check) => kernel.reload = check,
                // What was tried before stands.
                Err(error) => say(&format!("{error:#}")),
            }
        }
        lines.push(Line {
            name: subject.name,
            kernel,
            engine,
        });
    }
    Ok(Report::new(&lines, &missing))
}

/// By the distribution's own means. No service is started: what a server's package would start would
/// serve the machine.
fn install(packages: &str) -> Result<()> {
    let mut command = Command::new("sh");
    command
        .args(["-euc", INSTALL, "sh"])
        .args(packages.split_whitespace())
        .env("DEBIAN_FRONTEND", "noninteractive");
    crate::tool::output(&mut command, &format!("apt-get install {packages}")).map(drop)
}

/// Packages ask policy-rc.d whether they may start what they bring; 101 is no.
const INSTALL: &str = r#"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get install -y --no-install-recommends "$@"
"#;
