//! What a segment costs in instructions, which unlike time is the same in every run: counted by
//! callgrind and held against a committed baseline.

use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// A part of the benchmark.
struct Part {
    name: &'static str,
    /// How many segments a round handles.
    segments: u64,
    /// What its baseline may be at most (`segments-are-predicted.md`).
    goal: u64,
}

const PARTS: [Part; 6] = [
    Part {
        name: "connect",
        segments: 9,
        goal: 1_100,
    },
    Part {
        name: "receive",
        segments: 33,
        goal: 250,
    },
    Part {
        name: "respond",
        segments: 2,
        goal: 900,
    },
    Part {
        name: "send",
        segments: 46,
        // None was set: what is sent in bursts costs little.
        goal: u64::MAX,
    },
    Part {
        // A list of holes would cost thirty times as much for thirty times as many of them.
        name: "sack_1000",
        segments: 1,
        goal: 10_000,
    },
    Part {
        name: "sack_30000",
        segments: 1,
        goal: 30_000,
    },
];
/// Rounds of each.
const ROUNDS: u64 = 200;
/// By how much a count may exceed its baseline: other compilers lay code out differently.
const TOLERANCE: f64 = 1.10;

/// Counts, and compares; with `accept`, writes the baseline anew. `None` without valgrind.
///
/// # Errors
/// A segment costs more than it may: a tenth more than its baseline; with `accept`, more than its goal.
pub fn check(accept: bool) -> Result<Option<String>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok(None);
    }
    let benchmark = benchmark()?;
    let mut counted = BTreeMap::new();
    for Part { name, segments, .. } in PARTS {
        let out = shell::target_dir().join(format!("callgrind.{name}"));
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--toggle-collect=*::measured*"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(&benchmark)
            .arg(name)
            .env("ROUNDS", ROUNDS.to_string());
        shell::quiet(&mut command)?;
        let text = std::fs::read_to_string(&out)?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let total: u64 = total.context("no totals from callgrind")?.trim().parse()?;
        counted.insert(name.to_string(), total / (ROUNDS * segments));
    }
    let path = shell::root().join("crates/tcp/benches/instructions.toml");
    let text = std::fs::read_to_string(&path)?;
    let baseline: BTreeMap<String, u64> = toml::from_str(&text)?;
    let mut wrong = Vec::new();
    for Part { name, goal, .. } in PARTS {
        let (count, allowed) = (counted[name], baseline.get(name).copied().unwrap_or(0));
        println!("  {name:10} {count:6} instructions a segment, baseline {allowed}");
        let most = if accept {
            goal
        } else {
            (allowed as f64 * TOLERANCE) as u64
        };
        if count > most {
            wrong.push(format!(
                "{name} costs {count} instructions a segment, at most {most} are allowed"
            ));
        }
        if allowed > goal {
            wrong.push(format!(
                "the baseline of {name} is beyond its goal of {goal}"
            ));
        }
    }
    if accept && wrong.is_empty() {
        let comments = text.lines().filter(|line| line.starts_with('#'));
        let mut lines: Vec<String> = comments.map(str::to_string).collect();
        lines.extend(
            counted
                .iter()
                .map(|(part, count)| format!("{part} = {count}")),
        );
        std::fs::write(&path, lines.join("\n") + "\n")?;
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let said = counted
        .iter()
        .map(|(part, count)| format!("{part} {count}"));
    Ok(Some(said.collect::<Vec<_>>().join(", ")))
}

/// Builds the benchmark, optimised, and says where it is.
fn benchmark() -> Result<PathBuf> {
    let messages = shell::quiet(shell::cargo().args([
        "bench",
        "--package=outboard-tcp",
        "--bench=segments",
        "--no-run",
        "--message-format=json",
    ]))?;
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "segments")
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .context("cargo names no executable")
}
