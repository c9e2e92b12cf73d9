//! An unmodified nginx whose memory grows with what it serves, by its configuration alone: it remembers, of each
//! request for [`PATH`], that a file with a long name of its own is not there.
//!
//! So it can be shown what a server that leaks does. That of document 000 lost 4,053 bytes a request, because its
//! platform's `free` gave nothing back.

use crate::nginx::{LIMIT, PORT, Prepared};
use crate::outboard::Outboard;
use crate::process::{Process, Program};
use crate::sampler;
use crate::world::{Side, World};
use anyhow::{Context, Result};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What to ask it for.
pub const PATH: &str = "/grow";
/// Bytes that it grows by for each request: a multiple of what malloc deals in, near the source's 4,053.
pub const EACH: u64 = 4_048;
/// The name that this takes: nginx keeps 152 bytes beside it, and malloc eight for each of the two.
const NAME: usize = 3_879;
/// Letters of a name that nginx itself draws for each request.
const DRAWN: usize = 32;

/// A guard around it.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    /// The outboard whose guard it is.
    pub binary: &'a Path,
    /// Its options.
    pub options: &'a [&'a str],
}

/// A running nginx of that kind, with one worker.
pub struct Growing {
    process: Process,
    report: PathBuf,
}

impl Growing {
    /// Starts it on the server's side, on the engine behind `outboard` or, without one, on the kernel.
    pub fn start(
        world: &World,
        outboard: Option<&Outboard>,
        guard: Option<Guard<'_>>,
        core: Option<usize>,
    ) -> Result<Self> {
        let prepared = Prepared::new(world, "growing", configure)?;
        let nginx = &prepared.nginx;
        let report = prepared.directory.join("report.jsonl");
        let program = match (guard, outboard) {
            (None, Some(outboard)) => outboard.on_engine(world, nginx),
            (None, None) => world.program(Side::Server, nginx),
            (Some(guard), outboard) => {
                let guarded = |program: Program| {
                    let program = program.arg("--report").arg(&report);
                    program.args(guard.options).arg("--")
                };
                match outboard {
                    Some(outboard) => guarded(outboard.command(world, "guard"))
                        .arg(guard.binary)
                        .args(["run", "--"])
                        .arg(nginx),
                    None => {
                        guarded(world.program(Side::Server, guard.binary).arg("guard")).arg(nginx)
                    }
                }
            }
        };
        let is_up = |_| world.is_reached(Self::address());
        let process = prepared.start(program, outboard, core, PORT, is_up)?;
        Ok(Self { process, report })
    }

    /// Where clients find it.
    pub fn address() -> SocketAddr {
        (Side::Server.ipv4(), PORT).into()
    }

    /// Its processes, master and workers of every generation.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.process.id()];
        let mut at = 0;
        while at < found.len() {
            found.extend(sampler::children(found[at]));
            at += 1;
        }
        let is_nginx = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim_end() == "nginx")
        };
        found.retain(is_nginx);
        found
    }

    /// Bytes of memory that they have.
    pub fn memory(&self) -> u64 {
        let each = self.processes().into_iter();
        each.filter_map(|pid| sampler::private_memory(pid).ok())
            .sum()
    }

    /// What its guard has told so far.
    pub fn told(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(&self.report).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        let lines: serde_json::Result<Vec<Value>> = lines.collect();
        lines.context("the guard's report")
    }

    /// Ends it as its users do (SIGTERM), and waits for that.
    pub fn stop(self) -> Result<()> {
        self.process.stop(LIMIT).map(drop)
    }
}

fn configure(directory: &Path) -> Result<String> {
    let root = directory.display().to_string();
    let rest = NAME.checked_sub(root.len() + 1 + DRAWN);
    let rest = rest.context("the directory's name is too long")?;
    // No word of a configuration may be as long as all of it.
    let (first, second) = (rest / 2, rest - rest / 2);
    Ok(format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid {root}/nginx.pid;
events {{ worker_connections 2000; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    open_file_cache max=100000000 inactive=1d;
    open_file_cache_valid 1d;
    open_file_cache_errors on;
    server {{
        listen 0.0.0.0:{PORT} backlog=4096;
        root {root};
        set $first {};
        set $second {};
        location = {PATH} {{ try_files /$request_id$first$second /small; }}
        location = /small {{ return 200 \"grown\"; }}
    }}
}}
",
        "x".repeat(first),
        "y".repeat(second),
    ))
}
