//! `cargo xtask suites`: the test suites of other projects, on the kernel and on the engine.
//!
//! Most of them are both ends of their connections, so the engine serves what is local to the machine
//! (`local = true`). A suite runs in a network of its own, once on the kernel and once on the engine; a
//! test that passes on the kernel and not on the engine is a defect, or has a reason in `reasons.toml`.
//! How many connections were the engine's, and how many the kernel's, stands in the table, so that
//! nothing passes unnoticed on the kernel's loopback.

mod crates;
mod junit;
mod network;
mod packages;
mod report;
mod results;

use crate::shell;
use anyhow::{Result, bail};
use network::{Connections, Network};
use report::Row;
use results::Results;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Modules of CPython's test suite that make connections.
const PYTHON: &[&str] = &[
    "test_socket",
    "test_ssl",
    "test_socketserver",
    "test_selectors",
    "test_epoll",
    "test_asyncio",
    "test_asyncore",
    "test_asynchat",
    "test_httplib",
    "test_httpservers",
    "test_urllib2_localnet",
    "test_xmlrpc",
    "test_docxmlrpc",
    "test_ftplib",
    "test_smtplib",
    "test_poplib",
    "test_imaplib",
    "test_nntplib",
    "test_telnetlib",
    "test_logging",
];

/// Those that do nothing unless they are told that there is a network.
const NETWORK: &[&str] = &["test_socketserver"];

/// Those whose pairs of sockets are connections over TCP where there is no `socketpair`: they are run as if
/// there were none.
const PAIRS: &[&str] = &["test_selectors"];

/// How often a suite is run again on the engine if tests fail there alone.
const AGAIN: usize = 2;

/// Debian's Python: the suite of another one may not be there.
const PYTHON_AT: &str = "/usr/bin/python3";

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// Suites, such as `test_ssl` or `tokio` [default: all]
    suites: Vec<String>,
    /// Write them to the tables in docs/suites.md, where the others stay as they are
    #[arg(long)]
    write: bool,
}

/// Runs what was asked for.
///
/// # Errors
/// A test passes on the kernel, not on the engine, and there is no reason; or a suite cannot be run.
pub fn run(options: &Options) -> Result<String> {
    let wanted = |name: &str| options.suites.is_empty() || options.suites.iter().any(|s| s == name);
    if PYTHON.iter().any(|module| wanted(module)) {
        check()?;
    }
    shell::loud(shell::cargo().args([
        "build",
        "--package=outboard",
        "--package=outboard-preload",
    ]))?;
    let scratch = shell::target_dir().join("suites");
    std::fs::create_dir_all(&scratch)?;
    let network = Network::new(&scratch, &shell::target_dir().join("debug/outboard"))?;
    let mut rows = Vec::new();
    for module in PYTHON.iter().filter(|module| wanted(module)) {
        rows.push(both(module, |on_engine| {
            python(&network, module, on_engine)
        })?);
    }
    for suite in crates::ALL.iter().filter(|suite| wanted(suite.name)) {
        let programs = suite.build(&scratch)?;
        rows.push(both(suite.name, |on_engine| {
            suite.run(&network, &programs, on_engine)
        })?);
    }
    for suite in packages::ALL.iter().filter(|suite| wanted(suite.name)) {
        let tests = suite.build(&scratch)?;
        rows.push(both(suite.name, |on_engine| {
            suite.run(&network, &tests, on_engine)
        })?);
    }
    if rows.is_empty() {
        bail!("there are no such suites");
    }
    if options.write {
        let page = shell::root().join("docs/suites.md");
        let old = std::fs::read_to_string(&page).unwrap_or_default();
        std::fs::write(page, report::document(&names(), &rows, &old)?)?;
    }
    let unexplained = report::unexplained(&rows)?;
    if unexplained.is_empty() {
        Ok(format!(
            "{} suites: as on the kernel, or with a reason",
            rows.len()
        ))
    } else {
        bail!("on the engine alone these fail: {}", unexplained.join(", "))
    }
}

/// Every suite, in the order of the page.
fn names() -> Vec<&'static str> {
    let crates = crates::ALL.iter().map(|suite| suite.name);
    let packages = packages::ALL.iter().map(|suite| suite.name);
    PYTHON
        .iter()
        .copied()
        .chain(crates)
        .chain(packages)
        .collect()
}

fn check() -> Result<()> {
    let suite = Command::new(PYTHON_AT)
        .args(["-c", "import test.test_socket"])
        .output();
    if !suite.is_ok_and(|output| output.status.success()) {
        bail!("CPython's test suite is missing: as root, apt install libpython3.11-testsuite");
    }
    Ok(())
}

/// A suite on the kernel and on the engine.
fn both(name: &str, run: impl Fn(bool) -> Result<(Results, Connections)>) -> Result<Row> {
    let (kernel, there) = run(false)?;
    let (engine, here) = run(true)?;
    let mut row = Row {
        name: name.to_owned(),
        kernel,
        engine,
        sometimes: BTreeSet::new(),
        there,
        here,
    };
    for _ in 0..AGAIN {
        if row.has_unknown()? {
            let (engine, _) = run(true)?;
            row.again(&engine);
        }
    }
    println!("{}", report::line(&row));
    Ok(row)
}

/// A module of CPython's.
fn python(network: &Network, module: &str, on_engine: bool) -> Result<(Results, Connections)> {
    let file = network.scratch().join("python.xml");
    let file = Path::new(&file);
    let _ = std::fs::remove_file(file);
    let resources: &[&str] = if NETWORK.contains(&module) {
        &["-u", "network"]
    } else {
        &[]
    };
    let mut command = Command::new(PYTHON_AT);
    if PAIRS.contains(&module) {
        let directory = network.scratch().join("without-pairs");
        std::fs::create_dir_all(&directory)?;
        let first = "import socket\ndel socket.socketpair\n";
        std::fs::write(directory.join("sitecustomize.py"), first)?;
        command.env("PYTHONPATH", directory);
    }
    // Sockets of virtual machines and of CAN buses have nothing to do with it, and some machines have
    // them by half.
    let ended = network.run(
        module,
        on_engine,
        network::LONGEST,
        command
            .args(["-m", "test", "-i", "*VSOCK*", "-i", "*CAN*", "--junit-xml"])
            .arg(file)
            .args(resources)
            .arg(module),
    )?;
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut results = junit::read(&text);
    if results.is_empty() {
        results.insert(format!("{module} as a whole: {}", ended.why), false);
    }
    Ok((results, ended.connections))
}
