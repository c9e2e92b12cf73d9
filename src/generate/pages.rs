//! A page of Markdown for each command, for the documentation.

use clap::{Arg, Command};
use std::fmt::Write;

/// Where more is written about a command.
const MORE: &[(&str, &str)] = &[
    ("demo", "first-hour.md"),
    ("divert", "divert.md"),
    ("engine", "install.md"),
    ("guard", "guard.md"),
    ("load", "load.md"),
    ("plan", "plan.md"),
    ("reload", "install.md"),
    ("respond", "stateless.md"),
    ("run", "programs.md"),
    ("service", "install.md"),
    ("ss", "metrics.md"),
    ("stats", "metrics.md"),
    ("top", "metrics.md"),
];

/// Names and texts of the pages of all commands that are shown.
pub fn of(mut program: Command) -> Vec<(String, String)> {
    program.build();
    let commands = program.get_subcommands().filter(|one| is_shown(one));
    commands
        .map(|command| {
            let mut text = String::new();
            write(&mut text, command, 1);
            let name = command.get_name().to_owned();
            if let Some((_, file)) = MORE.iter().find(|(known, _)| *known == name) {
                let _ = writeln!(text, "More: [{file}](../{file})");
            }
            (name, text.trim_end().to_owned() + "\n")
        })
        .collect()
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn write(text: &mut String, command: &Command, depth: usize) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_long_about().or(command.get_about());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = writeln!(text, "{} {name}\n", "#".repeat(depth));
    if let Some(about) = about {
        let _ = writeln!(text, "{}\n", escaped(&about.to_string()));
    }
    let _ = writeln!(text, "```text\n{usage}\n```\n");
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let mut rows = String::new();
    for arg in command.get_arguments().filter(shown) {
        let help = arg.get_long_help().or(arg.get_help());
        let help = help.map_or_else(String::new, ToString::to_string);
        let mut help = escaped(&help.split_whitespace().collect::<Vec<_>>().join(" "));
        for (condition, said) in [
            (!arg.get_default_values().is_empty(), defaults(arg)),
            (!choices(arg).is_empty(), choices(arg)),
        ] {
            if condition {
                help += &format!(" {said}");
            }
        }
        let _ = writeln!(rows, "| {} | {} |", signature(arg), help.trim());
    }
    if !rows.is_empty() {
        let _ = writeln!(text, "| | |\n| --- | --- |\n{rows}");
    }
    if let Some(after) = command.get_after_help() {
        let after = after.to_string();
        let (title, body) = after.split_once('\n').unwrap_or(("", &after));
        let title = title.trim_end_matches(':');
        let lines = body
            .lines()
            .map(|line| line.strip_prefix("  ").unwrap_or(line));
        let body = lines.collect::<Vec<_>>().join("\n");
        let _ = writeln!(text, "{title}:\n\n```text\n{}\n```\n", body.trim_end());
    }
    for below in command.get_subcommands().filter(|one| is_shown(one)) {
        write(text, below, depth + 1);
    }
}

/// `-i`, `--interface IFACE`.
fn signature(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let takes = arg.get_action().takes_values();
    let value: Vec<&str> = values
        .iter()
        .filter(|_| takes)
        .map(|name| name.as_str())
        .collect();
    let value = value.join(" ");
    if arg.is_positional() {
        return format!("`{value}`");
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let whole = format!("{} {value}", names.join(", "));
    format!("`{}`", whole.trim().replace('|', "\\|"))
}

fn defaults(arg: &Arg) -> String {
    let values = arg.get_default_values().iter();
    let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
    if !arg.get_action().takes_values() || values.is_empty() {
        return String::new();
    }
    format!("\\[default: {}\\]", values.join(","))
}

fn choices(arg: &Arg) -> String {
    let values = arg.get_possible_values();
    let names: Vec<&str> = values
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .collect();
    if !arg.get_action().takes_values() || names.is_empty() {
        return String::new();
    }
    format!("\\[{}\\]", names.join(", "))
}

/// What Markdown would read as its own.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if "|<>*_[]`".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
