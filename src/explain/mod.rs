//! `outboard explain NAME|PID`: what became of each socket of a process and of its children, and why.

mod processes;

use crate::control::{Control, Engine, out_of_place};
use crate::run::program;
use ::lab::table::Table;
use anyhow::{Result, bail};
use processes::Process;
use queue_pair::control::{Explanation, Reply, Request, SocketRow};
use serde::Serialize;
use std::process::ExitCode;

/// Say which sockets of a process and its children are offloaded, and why the others are not
///
/// What a wrapper (sh -c, env, nice) has started is among its children.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  outboard explain nginx")]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
    /// Name each connection of the engine's, with what lies in its queues
    #[arg(long)]
    all: bool,
    /// Print JSON: each process with what was said of its sockets, and its connections as `ss` has them
    #[arg(long)]
    json: bool,
    /// The process, by its number or by its program's name
    #[arg(value_name = "NAME|PID", value_parser = crate::advice::process_or_name)]
    process: String,
}

/// One process, explained.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    process: Process,
    /// Why the interposer is not in it, if it was meant to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_interposed: Option<String>,
    /// That the interposer in it is not of this build, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    interposer: Option<&'static str>,
    explanations: Vec<Explanation>,
    sockets: Vec<SocketRow>,
}

/// What is said of an interposer that is not of this build.
const ANOTHER: &str = "of another build than this outboard";

/// Prints the explanations.
pub fn run(args: Args) -> Result<ExitCode> {
    let processes = processes::all();
    let roots = match args.process.parse() {
        Ok(pid) if processes.iter().any(|process| process.pid == pid) => vec![pid],
        Ok(pid) => bail!("there is no process {pid}"),
        Err(_) => processes::named(&processes, &args.process),
    };
    if roots.is_empty() {
        bail!("no process runs a program called {}", args.process);
    }
    let mut control = args.engine.connect()?;
    let rows = sockets(&mut control)?;
    let mut explained = Vec::new();
    for process in processes::families(&processes, &roots) {
        let pid = process.pid;
        let mut explanations = match control.ask(&Request::Explain { pid })? {
            Reply::Explained(explanations) => explanations,
            other => return Err(out_of_place(&other)),
        };
        let interposer = processes::interposer(pid);
        // What a process said of the program that it was about to become holds for that one.
        explanations.retain(|one| one.kind != Explanation::EXECUTED || interposer.is_none());
        let told = explanations
            .iter()
            .any(|one| one.kind == Explanation::EXECUTED);
        let own = rows.iter().filter(|row| row.pid == Some(pid));
        explained.push(Explained {
            not_interposed: (interposer.is_none() && !told)
                .then(|| not_interposed(pid))
                .flatten(),
            interposer: interposer
                .filter(|it| it.is_of_another_build(pid))
                .map(|_| ANOTHER),
            explanations,
            sockets: own.cloned().collect(),
            process,
        });
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&explained)?);
    } else {
        print!("{}", render(&explained, args.all));
    }
    Ok(ExitCode::SUCCESS)
}

/// All sockets of the engine.
fn sockets(control: &mut Control) -> Result<Vec<SocketRow>> {
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let request = Request::Sockets {
            after,
            filter: "exclude syn-recv exclude time-wait".into(),
        };
        match control.ask(&request)? {
            Reply::Sockets { rows: some, next } => {
                rows.extend(some);
                after = next;
            }
            other => return Err(out_of_place(&other)),
        }
        if after.is_none() {
            return Ok(rows);
        }
    }
}

/// Why a process without the interposer, if it was started on the engine, is not: its program cannot be
/// interposed.
fn not_interposed(pid: u32) -> Option<String> {
    if !processes::was_meant_for_an_engine(pid) {
        return None;
    }
    let executable = processes::executable(pid);
    let why = program::cannot_be_interposed(&executable).ok().flatten();
    Some(why.unwrap_or("the interposer was not loaded").to_owned())
}

/// `all`: with a line for each connection.
fn render(explained: &[Explained], all: bool) -> String {
    let told: Vec<&Explained> = explained
        .iter()
        .filter(|one| {
            let is_told = one.not_interposed.is_some() || one.interposer.is_some();
            is_told || !one.explanations.is_empty()
        })
        .collect();
    let Some(first) = told.first() else {
        let (one, pid) = (
            explained.len() == 1,
            explained.first().map(|it| it.process.pid),
        );
        return format!(
            "process {} {} no socket to the engine: {} sockets are the kernel's, \
             or it was not started with: outboard run\n",
            pid.unwrap_or_default(),
            if one {
                "has shown"
            } else {
                "and its children have shown"
            },
            if one { "its" } else { "their" },
        );
    };
    // Whoever asks for one process and is told of that alone knows which it is.
    let asked = explained.first().map(|it| it.process.pid);
    if told.len() == 1 && Some(first.process.pid) == asked {
        return table(first, all);
    }
    let parts = told.iter().map(|one| {
        let Process { pid, parent, name } = &one.process;
        format!(
            "process {pid} ({name}), child of {parent}\n{}",
            table(one, all)
        )
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn table(explained: &Explained, all: bool) -> String {
    let mut table = Table::new(["Descriptor", "Kind", "Handled by", "Because"]);
    for explanation in &explained.explanations {
        let (by, reason) = if explanation.reason.is_empty() {
            ("engine", queued(explanation, &explained.sockets))
        } else {
            ("kernel", explanation.reason.clone())
        };
        let fd = match explanation.fd {
            Explanation::NO_DESCRIPTOR => "-".to_owned(),
            fd => fd.to_string(),
        };
        table.row([fd.as_str(), &explanation.kind, by, &reason]);
    }
    for row in explained.sockets.iter().filter(|_| all) {
        let Some(peer) = row.peer else { continue };
        let kind = format!("connection with {peer}");
        let (state, queued) = (&row.state, queues(row.receive_queue, row.send_queue));
        table.row(["-", &kind, "engine", &format!("{state}, {queued}")]);
    }
    if let Some(why) = &explained.not_interposed {
        table.row(["-", "program", "kernel", why]);
    }
    for column in 1..4 {
        table.left(column);
    }
    let interposer = explained.interposer.map_or_else(String::new, |what| {
        format!(
            "The interposer in it is {what}, older or newer: if the program was started before an upgrade, start it \
             anew\n"
        )
    });
    if explained.explanations.is_empty() && explained.not_interposed.is_none() {
        return interposer;
    }
    table.to_string() + &interposer
}

/// What the engine has of a listener, or what lies in the queues of the connections that an explanation
/// speaks of, if anything does.
fn queued(explanation: &Explanation, sockets: &[SocketRow]) -> String {
    if !explanation.kind.contains("connection") {
        return explanation.detail.clone();
    }
    let local = explanation.kind.contains("local");
    let rows = sockets
        .iter()
        .filter(|row| row.peer.is_some() && row.within == local);
    let (unread, unsent) = rows.fold((0, 0), |(unread, unsent), row| {
        (unread + row.receive_queue, unsent + row.send_queue)
    });
    match (unread, unsent) {
        (0, 0) => String::new(),
        _ => queues(unread, unsent),
    }
}

fn queues(unread: u64, unsent: u64) -> String {
    format!("{unread} bytes to be read, {unsent} to be acknowledged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(pid: u32, explanations: Vec<Explanation>) -> Explained {
        Explained {
            process: Process {
                pid,
                parent: 1,
                name: "server".into(),
            },
            not_interposed: None,
            interposer: None,
            explanations,
            sockets: Vec::new(),
        }
    }

    fn explanation(fd: i32, kind: &str, reason: &str) -> Explanation {
        Explanation {
            fd,
            kind: kind.into(),
            reason: reason.into(),
            detail: String::new(),
        }
    }

    #[test]
    fn each_socket_has_its_line() {
        let text = render(
            &[explained(
                7,
                vec![
                    Explanation {
                        detail: "0 of 8 wait to be accepted, credit for 4".into(),
                        ..explanation(6, "listener", "")
                    },
                    explanation(Explanation::NO_DESCRIPTOR, "2 connections", ""),
                    explanation(11, "datagram", "only TCP is offloaded"),
                ],
            )],
            false,
        );
        let expected = "Descriptor  Kind           Handled by  Because\n\
            6           listener       engine      0 of 8 wait to be accepted, credit for 4\n\
            -           2 connections  engine\n\
            11          datagram       kernel      only TCP is offloaded\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn each_connection_has_its_line_if_all_are_asked_for() {
        let mut one = explained(7, vec![explanation(-1, "1 connection", "")]);
        let row = serde_json::json!({
            "conn": null, "session": 1, "pid": 7, "program": "server", "local": "10.0.0.1:80",
            "peer": "10.0.0.2:5000", "within": false, "state": "ESTABLISHED", "receive_queue": 12, "send_queue": 3,
            "info": null,
        });
        one.sockets = vec![serde_json::from_value(row).expect("a row")];
        let line = "-  connection with 10.0.0.2:5000  engine  ESTABLISHED, 12 bytes to be read, 3 to be acknowledged";
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let has = |all| {
            let text = render(std::slice::from_ref(&one), all);
            text.lines().any(|it| words(it) == words(line))
        };
        assert!(has(true) && !has(false));
    }

    #[test]
    fn an_interposer_of_another_build_is_told_of() {
        let mut one = explained(7, vec![explanation(6, "listener", "")]);
        one.interposer = Some(ANOTHER);
        let text = render(&[one], false);
        assert!(text.contains("listener"), "{text}");
        let last = text.lines().last().expect("a line");
        assert!(last.contains("of another build"), "{text}");
        // It need not be old: of a package and a build for development neither is.
        assert!(last.contains("older or newer: if"), "{text}");
        // Also where it has shown nothing.
        let mut silent = explained(7, vec![]);
        silent.interposer = Some(ANOTHER);
        assert_eq!(render(&[silent], false), format!("{last}\n"));
    }

    #[test]
    fn children_are_named_with_what_they_have() {
        let mut child = explained(8, vec![explanation(6, "listener", "")]);
        child.not_interposed = Some("it is a Go program".into());
        let text = render(&[explained(7, vec![]), child], false);
        let expected = "process 8 (server), child of 1\n\
            Descriptor  Kind      Handled by  Because\n\
            6           listener  engine\n\
            -           program   kernel      it is a Go program\n";
        assert_eq!(text, expected);
        let none = render(&[explained(7, vec![]), explained(8, vec![])], false);
        assert!(none.starts_with("process 7 and its children have shown no socket"));
    }
}
