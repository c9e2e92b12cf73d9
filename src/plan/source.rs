//! The tables and figures of the source (document 003), reprinted from its own data where it gives
//! them, and marked where they cannot be reproduced.

use super::input::Server;
use super::printed::{GOODPUT, SATURATION};
use anyhow::{Context, Result};
use lab::catalogue::AGREEMENT;
use lab::table::Table;
use queueing::Distribution;
use queueing::fit::agreement::exact_survival;
use queueing::offload::{Class, System, source};
use std::fmt::Write;
use std::path::Path;

/// Table 4-3: connection set-up, milliseconds.
const SET_UP: [(u32, f64, f64); 5] = [
    (0, 0.27, 0.09),
    (1, 0.28, 0.08),
    (2, 0.28, 0.09),
    (3, 0.28, 0.12),
    (4, 0.29, 0.78),
];

/// What the source says of its changes in table 4-4, per cent; over the new value, as it turns out.
const GOODPUT_CLAIMED: [(u32, f64); 3] = [(2, 23.0), (3, 58.0), (4, 67.0)];

/// Figure 4-11, connections a minute: only the changes are given, per cent.
const CONNECTIONS: [(u32, f64); 5] = [(0, -6.0), (1, -1.0), (2, 21.0), (3, 62.0), (4, 66.0)];

/// Everything, and pictures of what its figures show.
pub fn reprint(plot: Option<&Path>) -> Result<String> {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Document 003, chapter 4: what it gives, and what follows from it.\n"
    );
    table_4_1(&mut text)?;
    table_4_2(&mut text);
    tables_4_3_and_4_4(&mut text);
    text += &super::figures::words()?;
    text.push('\n');
    figures(&mut text);
    if let Some(path) = plot {
        super::plot::draw_all(&super::figures::studies()?, path)
            .with_context(|| format!("drawing {}", path.display()))?;
        let _ = writeln!(
            text,
            "Drawn to {}: utilisation and delay of each class by the right formulas, from the service \
             times above.",
            path.display()
        );
    }
    Ok(text)
}

/// Table 4-1, and what its saturation points say of the service times.
fn table_4_1(text: &mut String) -> Result<()> {
    let mut table = Table::new([
        "class",
        "without/s",
        "with/s",
        "gain",
        "E[Xa+Xp]",
        "max stage",
    ]);
    for (class, without, with) in SATURATION {
        table.row([
            class.to_string(),
            format!("{without:.0}"),
            format!("{with:.0}"),
            format!("{:+.0} %", (with / without - 1.0) * 100.0),
            super::written::duration(1.0 / without),
            super::written::duration(1.0 / with),
        ]);
    }
    let _ = writeln!(
        text,
        "Table 4-1, saturation. The last two columns follow from it: a stage saturates at one over \
         its mean service time.\n{table}"
    );
    // The source's delay beside the right one, for the class with the greatest change that the
    // host limits. The split between the stages is not given: equal stages are the worst case.
    let server = class_3()?;
    let mut table = Table::new(["load/s", "its T (3.25)", "the sum", "too low by"]);
    for load in [75.0, 150.0, 225.0, 270.0] {
        let class = Class {
            arrival_rate: load,
            ..server.classes[0].clone()
        };
        let theirs = source_of_two_stages(&class)?;
        let right = queueing::offload::predict(std::slice::from_ref(&class), &server.system, true)?;
        table.row([
            format!("{load:.0}"),
            super::written::duration(theirs),
            super::written::duration(right.delay),
            format!("{:.0} %", (1.0 - theirs / right.delay) * 100.0),
        ]);
    }
    let _ = writeln!(
        text,
        "Equation 3.25 takes the maximum of the stages where the sum is right. For class 3, both \
         stages assumed equal:\n{table}"
    );
    Ok(())
}

/// The source's delay with engine, its 3.25, where the host alone would be overloaded.
fn source_of_two_stages(class: &Class) -> Result<f64> {
    // Its formulas for the host alone need a stable host; only its two stages are wanted here.
    let alone = Class {
        protocol: Distribution::deterministic(0.0)?,
        ..class.clone()
    };
    Ok(source::predict(&alone)?.delay_with)
}

/// Class 3 with equal stages: E\[Xa+Xp\] = 1/100 s, both stages 1/300 s. The split is an assumption.
fn class_3() -> Result<Server> {
    let exponential = |mean: f64| Distribution::exponential(1.0 / mean);
    let nothing = Distribution::deterministic(0.0)?;
    Ok(Server {
        classes: vec![Class {
            name: "class 3".into(),
            arrival_rate: 1.0,
            application: exponential(1.0 / 300.0)?,
            protocol: exponential(1.0 / 100.0 - 1.0 / 300.0)?,
            overhead: nothing.clone(),
            control: nothing,
            engine: exponential(1.0 / 300.0)?,
        }],
        sizes: None,
        system: System::default(),
        rates: None,
        origin: "document 003, table 4-1".into(),
        split: true,
    })
}

fn table_4_2(text: &mut String) {
    let mut table = Table::new(["data", "D", "p printed", "points each", "exact p", ""]);
    table.left(0);
    table.left(5);
    for row in AGREEMENT {
        let (distance, printed) = (row.distance, row.p);
        let with = if row.with_engine { "TOE" } else { "Non-TOE" };
        let (n, p, off) = points_that_fit(distance, printed);
        let remark = if off > PRINTED {
            "D is no multiple of 1/n"
        } else if (p - printed).abs() > 2.0 * PRINTED {
            "no n gives this p"
        } else {
            "follows"
        };
        table.row([
            format!("{with}, class {}", row.class),
            format!("{distance:.4}"),
            format!("{printed:.4}"),
            n.to_string(),
            format!("{p:.4}"),
            remark.to_string(),
        ]);
    }
    let _ = writeln!(
        text,
        "Table 4-2, Kolmogorov–Smirnov. The sizes of the samples are not given; these, equal for \
         both, explain D and the printed p best. So the samples are a dozen mean values each, and \
         the printed p is the exact one, not the series of its appendix C.1. The test has almost no \
         power there: delays that are 50 % too high pass it.\n{table}"
    );
}

/// Half of the last digit that is printed of D and p, and a little.
const PRINTED: f64 = 6e-5;

/// The size of two equal samples that explains a printed distance and its probability best, the
/// exact probability for it, and how far the distance is from one that such samples can have: D is a
/// multiple of 1/n for two samples of n points each.
fn points_that_fit(distance: f64, printed: f64) -> (usize, f64, f64) {
    let candidate = |n: usize| {
        let steps = (distance * n as f64).round();
        let off = (steps / n as f64 - distance).abs();
        (n, exact_survival(n, n, steps / n as f64), off)
    };
    (5..=20)
        .map(candidate)
        .min_by(|a, b| {
            // Among the sizes that give the printed digits of D, p decides.
            let fits = |c: &(usize, f64, f64)| (c.2 > PRINTED, (c.1 - printed).abs());
            let (a, b) = (fits(a), fits(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
        .unwrap_or((0, f64::NAN, f64::NAN))
}

fn tables_4_3_and_4_4(text: &mut String) {
    let mut table = Table::new(["class", "without", "with", "change"]);
    for (class, without, with) in SET_UP {
        table.row([
            class.to_string(),
            format!("{without:.2} ms"),
            format!("{with:.2} ms"),
            format!("{:+.0} %", (with / without - 1.0) * 100.0),
        ]);
    }
    let _ = writeln!(text, "Table 4-3, connection set-up.\n{table}");
    let mut table = Table::new(["class", "without", "with", "over the old", "claimed"]);
    for (class, without, with) in GOODPUT {
        let claimed = GOODPUT_CLAIMED.iter().find(|(of, _)| *of == class);
        table.row([
            class.to_string(),
            format!("{without:.3} MB/s"),
            format!("{with:.3} MB/s"),
            format!("{:+.0} %", (with / without - 1.0) * 100.0),
            claimed.map_or("—".into(), |(_, claimed)| format!("+{claimed:.0} %")),
        ]);
    }
    let _ = writeln!(
        text,
        "Table 4-4, goodput at saturation. The source divides the gain by the new value; over the \
         old one it is:\n{table}"
    );
}

fn figures(text: &mut String) {
    let changes: Vec<String> = CONNECTIONS
        .iter()
        .map(|(class, change)| format!("class {class} {change:+.0} %"))
        .collect();
    let _ = writeln!(
        text,
        "Figure 4-11, connections a minute, as told in its text: {}.\n",
        changes.join(", ")
    );
    let mut table = Table::new(["figure", "shows", "why its values cannot be redrawn"]);
    table.left(0);
    table.left(1);
    table.left(2);
    for (figure, shows, why) in [
        (
            "4-1, 4-2",
            "utilisation against load",
            "no service time is given; what they show is checked above",
        ),
        (
            "4-3 … 4-7",
            "delay against load",
            "no service time, no distribution's parameters, no measured value; what they show is above",
        ),
        (
            "4-8 … 4-10",
            "CPU by category",
            "values of some bars in the text only",
        ),
        ("4-12", "goodput", "as table 4-4 above"),
    ] {
        table.row([figure, shows, why]);
    }
    let _ = writeln!(text, "What cannot be reproduced:\n{table}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corrected_percentages_are_those_of_the_tables() {
        let text = reprint(None).unwrap();
        for claim in ["+31 %", "+137 %", "+199 %", "+17 %", "+200 %", "+233 %"] {
            assert!(text.contains(claim), "{claim} is missing in\n{text}");
        }
        assert!(text.contains("50 %"), "equal stages: half of the sum");
        let follow = text.lines().filter(|line| line.ends_with("follows"));
        assert_eq!(
            follow.count(),
            8,
            "rows of table 4-2 whose p is the exact one"
        );
    }
}
