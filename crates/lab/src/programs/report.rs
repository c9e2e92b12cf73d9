//! The table, as it stands in `docs/programs.md`.

use super::Line;
use super::trial::{Check, Trial};
use std::fmt;

/// What was tried and how it came out.
pub struct Report {
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
    missing: Vec<String>,
}

const HEADINGS: [&str; 7] = [
    "program",
    "on the engine",
    "bytes",
    "200 at once",
    "reload under load",
    "stop",
    "÷ kernel",
];

impl Report {
    pub(super) fn new(lines: &[Line], missing: &[(&str, String)]) -> Self {
        let mut notes = Vec::new();
        let rows = lines.iter().map(|line| row(line, &mut notes)).collect();
        let missing = missing
            .iter()
            .map(|(name, brought_by)| format!("{name} (`{brought_by}`)"))
            .collect();
        Self {
            rows,
            notes,
            missing,
        }
    }
}

fn row(line: &Line, notes: &mut Vec<String>) -> Vec<String> {
    let (kernel, engine) = (&line.kernel, &line.engine);
    let mut cells = vec![line.name.to_owned(), placed(engine)];
    let checks: [fn(&Trial) -> Option<&Check>; 4] = [
        |trial| Some(&trial.bytes),
        |trial| Some(&trial.at_once),
        |trial| trial.reload.as_ref(),
        |trial| Some(&trial.stop),
    ];
    for (check, heading) in checks.iter().zip(&HEADINGS[2..]) {
        cells.push(match check(engine) {
            None => "–".into(),
            Some(Ok(said)) => said.clone(),
            Some(Err(wrong)) => {
                let also = match check(kernel) {
                    Some(Err(same)) => format!(" (the kernel likewise: {})", first_line(same)),
                    _ => String::new(),
                };
                notes.push(format!(
                    "{}, {heading}: {}{also}",
                    line.name,
                    first_line(wrong)
                ));
                both(wrong, check(kernel)).unwrap_or_else(|| "**no**".into())
            }
        });
    }
    for (stack, trial) in [("kernel", kernel), ("engine", engine)] {
        if let Err(wrong) = &trial.starts {
            let wrong = first_line(wrong);
            notes.push(format!(
                "{} does not start on the {stack}: {wrong}",
                line.name
            ));
        }
    }
    if let Some(Err(wrong)) = &engine.apart {
        notes.push(format!("{} is not told apart: {wrong}", line.name));
    }
    if !engine.explained.is_empty() && !matches!(engine.apart, Some(Ok(_))) {
        let said = engine.explained.trim().replace('\n', "\n      ");
        notes.push(format!(
            "{}, `outboard explain`:\n\n      {said}\n",
            line.name
        ));
    }
    cells.push(if kernel.rate > 0.0 && engine.rate > 0.0 {
        format!("{:.2}", engine.rate / kernel.rate)
    } else {
        "–".into()
    });
    cells
}

/// How many times as many as on the kernel may be lost on the engine, and how many more, before it is the engine that
/// loses clients: a few of some hundreds vary by so much.
const LIKEWISE: (f64, f64) = (5.0, 2.0);

/// How many clients were lost on the engine and on the kernel, where it is so on both.
fn both(engine: &str, kernel: Option<&Check>) -> Option<String> {
    let lost = |text: &str| {
        let (counts, _) = text.split_once(" lost")?;
        let (some, all) = counts.split_once(" of ")?;
        let (some, all): (f64, f64) = (some.parse().ok()?, all.parse().ok()?);
        Some((counts.to_owned(), some, all))
    };
    let (engine, some, all) = lost(engine)?;
    let (kernel, on_kernel, of_kernel) = lost(kernel?.as_ref().err()?)?;
    let expected = on_kernel / of_kernel * all;
    let more = match some > LIKEWISE.0 * expected + LIKEWISE.1 {
        true => "**no**: ",
        false => "",
    };
    Some(format!("{more}{engine} lost, {kernel} on the kernel"))
}

/// Where its connections were.
fn placed(trial: &Trial) -> String {
    match trial.connections {
        _ if trial.starts.is_err() => "–".into(),
        _ if matches!(trial.apart, Some(Ok(_))) => "none, and is told apart".into(),
        (made, accepted) if accepted >= made => format!("all of {made}"),
        (made, 0) => format!("**none** of {made}"),
        (made, accepted) => format!("**{accepted}** of {made}"),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", HEADINGS.join(" | "))?;
        writeln!(f, "|{}", " --- |".repeat(HEADINGS.len()))?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        if !self.notes.is_empty() {
            writeln!(f, "\nWhat is not as it should be:\n")?;
            for note in &self.notes {
                writeln!(f, "- {note}")?;
            }
        }
        if !self.missing.is_empty() {
            writeln!(f, "\nNot there: {}", self.missing.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(accepted: u64, bytes: Check) -> Trial {
        Trial {
            starts: Ok("yes".into()),
            connections: (10, accepted),
            bytes,
            at_once: Ok("all".into()),
            reload: None,
            stop: Ok("ends".into()),
            rate: 50.0,
            explained: String::new(),
            apart: None,
        }
    }

    #[test]
    fn what_fails_or_was_the_kernels_is_told() {
        let line = Line {
            name: "a server",
            kernel: trial(0, Ok("right".into())),
            engine: trial(4, Err("wrong bytes after 17\nand more".into())),
        };
        let text = Report::new(&[line], &[("b", "apt-get install b-package".into())]).to_string();
        let row = "| a server | **4** of 10 | **no** | all | – | ends | 1.00 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("- a server, bytes: wrong bytes after 17\n"),
            "{text}"
        );
        assert!(text.contains("Not there: b (`apt-get install b-package`)"));
    }

    #[test]
    fn what_the_kernel_loses_too_stands_beside_what_the_engine_does() {
        let lost = |count: &str| Some(Err(format!("{count} lost: 503")));
        let line = |engines, kernel| {
            let (mut on_kernel, mut engine) =
                (trial(0, Ok("right".into())), trial(10, Ok("right".into())));
            on_kernel.reload = kernel;
            engine.reload = lost(engines);
            Line {
                name: "a server",
                kernel: on_kernel,
                engine,
            }
        };
        let text = Report::new(&[line("2 of 182", lost("10 of 6337"))], &[]).to_string();
        let row = "| a server | all of 10 | right | all | 2 of 182 lost, 10 of 6337 on the kernel | ends | 1.00 |";
        assert!(text.contains(row), "{text}");
        let note = "2 of 182 lost: 503 (the kernel likewise: 10 of 6337 lost: 503)";
        assert!(text.contains(note), "{text}");
        let text = Report::new(&[line("180 of 182", lost("10 of 6337"))], &[]).to_string();
        assert!(
            text.contains("| **no**: 180 of 182 lost, 10 of 6337 on the kernel |"),
            "{text}"
        );
        let one = Some(Ok("0 of 6337 lost".into()));
        let text = Report::new(&[line("2 of 182", one)], &[]).to_string();
        assert!(text.contains("| all | **no** | ends |"), "{text}");
    }

    #[test]
    fn who_is_told_apart_is_as_it_should_be() {
        let mut engine = trial(0, Ok("right".into()));
        engine.apart = Some(Ok("told apart".into()));
        engine.explained = "it is a Go program".into();
        let line = |engine| Line {
            name: "a server",
            kernel: trial(0, Ok("right".into())),
            engine,
        };
        let text = Report::new(&[line(engine.clone())], &[]).to_string();
        assert!(
            text.contains("| a server | none, and is told apart | right |"),
            "{text}"
        );
        assert!(!text.contains("not as it should be"), "{text}");
        engine.apart = Some(Err("it is not refused".into()));
        let text = Report::new(&[line(engine)], &[]).to_string();
        assert!(text.contains("| a server | **none** of 10 |"), "{text}");
        assert!(
            text.contains("- a server is not told apart: it is not refused"),
            "{text}"
        );
    }
}
