//! `outboard lab report` and `lab compare`: what runs left.

use ::lab::experiment::group::Group;
use ::lab::experiment::{Directory, comparison, report};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the report of a run anew, from what it measured
#[derive(clap::Args)]
pub struct Report {
    /// The directory of the run, or of a group of them
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Compare two runs of the same experiment, or two groups: what differs, beyond the rounds' own spread
///
/// Of two groups each experiment that was run in both is compared.
/// The machines' settings are compared, too. Ratios are of medians, second to first, with 95 %
/// bootstrap intervals, if there are five rounds of each; runs are not paired, so what changed in the
/// machine between them is in the ratio as well.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  outboard lab compare outboard-lab/web-1 outboard-lab/web-2")]
pub struct Compare {
    /// The directory of the first run, or group
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// The directory of the second
    #[arg(value_name = "SECOND")]
    second: PathBuf,
}

/// Writes the report.
pub fn report(args: &Report) -> Result<ExitCode> {
    if let Some(group) = Group::open(&args.directory)? {
        for name in &group.experiments {
            let path = args.directory.join(name);
            if Directory::is_there(&path) {
                report::write(&Directory::open(&path)?)?;
            }
        }
        let page = group.write(&args.directory)?;
        println!("Report: {}", page.with_extension("html").display());
        return Ok(ExitCode::SUCCESS);
    }
    let directory = Directory::open(&args.directory)?;
    let (analysis, file) = report::write(&directory)?;
    print!("{}", report::summary(&directory, &analysis));
    println!("\nReport: {}", file.with_extension("html").display());
    Ok(ExitCode::SUCCESS)
}

/// Compares.
pub fn compare(args: &Compare) -> Result<ExitCode> {
    let groups = (Group::open(&args.first)?, Group::open(&args.second)?);
    match &groups {
        (Some(one), Some(other)) => {
            let text = comparison::compare_groups((&args.first, one), (&args.second, other))?;
            print!("{text}");
            return Ok(ExitCode::SUCCESS);
        }
        (None, None) => {}
        _ => bail!("one of the two is a group, and the other a single run"),
    }
    let first = Directory::open(&args.first)?;
    let second = Directory::open(&args.second)?;
    print!("{}", comparison::compare(&first, &second)?);
    Ok(ExitCode::SUCCESS)
}
