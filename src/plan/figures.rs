//! What figures 4-1 to 4-7 of the source show, and whether it follows from its own saturation points
//! by the right formulas. It gives no service times, so only what they show can be checked, not
//! their values.

use super::input::Server;
use super::printed::{GOODPUT, SATURATION};
use super::study::{self, Study, answer, at};
use super::written::duration;
use anyhow::{Context, Result};
use lab::table::Table;
use lab::workload::{mixes, surge};
use queueing::Distribution;
use queueing::offload::{Class, System};
use std::fmt::Write;

/// Bytes of a KB and an MB of the source's goodput.
const MEGABYTE: f64 = 1_048_576.0;

/// Changes of connections a minute at saturation of classes 0 and 1 (figure 4-11).
const SMALL_CHANGES: [f64; 2] = [-0.06, -0.01];

/// How idle the engine is at saturation, by class (figure 4-10).
const ENGINE_IDLE: [f64; 5] = [0.80, 0.77, 0.68, 0.02, 0.02];

/// How busy the host with an engine is at saturation: it is what saturates for classes 0 to 3. Of
/// class 4 it is said that it never does; half is an assumption.
const HOST_BUSY: [f64; 5] = [1.0, 1.0, 1.0, 1.0, 0.5];

/// The share of the application in the time of a request without an engine. It is given nowhere,
/// and nothing that is checked below hangs on it: the sum decides.
const APPLICATION: f64 = 0.2;

/// Shares of the lesser saturation at which the figures are looked at.
const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// A class of the source, as far as its tables determine it.
struct Given {
    class: usize,
    /// Saturation without and with an engine, requests a second.
    without: f64,
    with: f64,
}

/// All five. Of classes 0 and 1 the source gives no saturation points; its goodput at saturation by
/// the mean size of SURGE's files in the class is one.
fn given() -> Result<Vec<Given>> {
    let mut all = Vec::new();
    for (class, without, _) in GOODPUT {
        let class = class as usize;
        let known = SATURATION
            .iter()
            .find(|(known, ..)| *known as usize == class);
        all.push(match known {
            Some((_, without, with)) => Given {
                class,
                without: *without,
                with: *with,
            },
            None => {
                let without = without * MEGABYTE / mean_size(class)?;
                Given {
                    class,
                    without,
                    with: without * (1.0 + SMALL_CHANGES[class]),
                }
            }
        });
    }
    Ok(all)
}

/// The mean size of SURGE's files in a class, bytes: the sum of P(size > x) over the class.
fn mean_size(class: usize) -> Result<f64> {
    let limits = mixes::CLASS_LIMITS.map(|limit| limit as f64);
    let (low, high) = (
        class.checked_sub(1).map_or(0.0, |below| limits[below]),
        *limits.get(class).context("a class without an end")?,
    );
    let upto = surge::Sizes::cumulative;
    let share = upto(high) - upto(low);
    let steps = 1_000;
    let step = (high - low) / f64::from(steps);
    let above: f64 = (0..steps)
        .map(|i| upto(high) - upto(low + (f64::from(i) + 0.5) * step))
        .sum();
    Ok(low + above * step / share)
}

impl Given {
    /// The class as a server: every time exponential.
    fn server(&self) -> Result<Server> {
        let exponential = |mean: f64| Distribution::exponential(1.0 / mean);
        let nothing = Distribution::deterministic(0.0)?;
        let host = HOST_BUSY[self.class] / self.with;
        let engine = (1.0 - ENGINE_IDLE[self.class]) / self.with;
        let application = APPLICATION * host.min(1.0 / self.without);
        Ok(Server {
            classes: vec![Class {
                name: format!("class {}", self.class),
                arrival_rate: 1.0,
                application: exponential(application)?,
                protocol: exponential(1.0 / self.without - application)?,
                overhead: exponential(host - application)?,
                control: nothing,
                engine: exponential(engine)?,
            }],
            sizes: None,
            system: System::default(),
            rates: None,
            origin: "document 003, tables 4-1 and 4-4, figures 4-10 and 4-11".into(),
            split: true,
        })
    }
}

/// Where something is so, of the loads that were looked at.
fn often(holds: &[bool]) -> String {
    let percent = |at: usize| LOADS[at] * 100.0;
    let count = holds.iter().filter(|holds| **holds).count();
    let first = holds.iter().take_while(|holds| **holds).count();
    let last = holds.iter().rev().take_while(|holds| **holds).count();
    match count {
        0 => "at no load".into(),
        _ if count == holds.len() => "at every load".into(),
        _ if first == count => {
            format!("up to {:.0} % of the lesser saturation", percent(count - 1))
        }
        _ if last == count => {
            let from = percent(holds.len() - count);
            format!("from {from:.0} % of the lesser saturation on")
        }
        _ => format!("at {count} of {} loads", holds.len()),
    }
}

/// What one class shows: where its host is busier with an engine, where a request takes longer.
struct Shown {
    class: usize,
    busier: Vec<bool>,
    slower: Vec<bool>,
    /// The same by the source's maximum of the stages.
    slower_by_maximum: Vec<bool>,
    /// Delays without and with an engine at a tenth of the lesser saturation, seconds.
    light: (f64, f64),
}

fn look(given: &Given) -> Result<Shown> {
    let server = given.server()?;
    let least = given.without.min(given.with);
    let mut shown = Shown {
        class: given.class,
        busier: Vec::new(),
        slower: Vec::new(),
        slower_by_maximum: Vec::new(),
        light: (f64::NAN, f64::NAN),
    };
    for share in LOADS {
        let classes = at(&server, share * least);
        let predict = |engine| -> Result<_> {
            answer(&server, &classes, engine)?.context("a load below saturation")
        };
        let (without, with) = (predict(false)?, predict(true)?);
        let theirs = queueing::offload::source::predict(&classes[0])?;
        if share == LOADS[0] {
            shown.light = (without.delay, with.delay);
        }
        shown
            .busier
            .push(with.host_utilisation > without.host_utilisation);
        shown.slower.push(with.delay > without.delay);
        shown
            .slower_by_maximum
            .push(theirs.delay_with > theirs.delay_without);
    }
    Ok(shown)
}

/// The figures in words.
pub fn words() -> Result<String> {
    let given = given()?;
    let mut text = String::new();
    let mut table = Table::new([
        "class",
        "without/s",
        "with/s",
        "E[Xa+Xp]",
        "E[Xa+Xo]",
        "engine",
    ]);
    for one in &given {
        table.row([
            one.class.to_string(),
            format!("{:.0}", one.without),
            format!("{:.0}", one.with),
            duration(1.0 / one.without),
            duration(HOST_BUSY[one.class] / one.with),
            duration((1.0 - ENGINE_IDLE[one.class]) / one.with),
        ]);
    }
    let _ = writeln!(
        text,
        "Figures 4-1 to 4-7 again, as far as its tables determine them: service times from saturation \
         (classes 2 to 4: table 4-1; classes 0 and 1: goodput of table 4-4 by the mean size of SURGE's \
         files in the class, connections of figure 4-11), the engine's from its idle share (figure \
         4-10), every time exponential; that class 4 keeps the host half busy is an assumption.\n{table}"
    );
    let mut table = Table::new(["figure", "shows there", "follows here", ""]);
    for column in 0..4 {
        table.left(column);
    }
    for one in &given {
        let shown = look(one)?;
        let small = shown.class < 2;
        let says = |holds: bool| if holds { "the same" } else { "differs" };
        let all = |holds: &[bool], wanted: bool| holds.iter().all(|holds| *holds == wanted);
        table.row([
            format!(
                "{}, class {}",
                if small { "4-1" } else { "4-2" },
                shown.class
            ),
            if small {
                "the host is busier with the engine"
            } else {
                "the host is less busy with it"
            }
            .into(),
            format!("busier {}", often(&shown.busier)),
            says(all(&shown.busier, small)).into(),
        ]);
        table.row([
            format!("4-{}, class {}", shown.class + 3, shown.class),
            if small {
                "a request takes longer with it"
            } else {
                "a request takes less time with it"
            }
            .into(),
            format!(
                "longer {} ({} against {} at a tenth); by its 3.25 {}",
                often(&shown.slower),
                duration(shown.light.1),
                duration(shown.light.0),
                often(&shown.slower_by_maximum),
            ),
            says(all(&shown.slower, small)).into(),
        ]);
    }
    let _ = writeln!(
        text,
        "Its negative result, that an engine does not pay for files up to 10 KB (classes 0 and 1), and \
         what its figures show of the others:\n{table}"
    );
    Ok(text)
}

/// The studies of all classes, for a picture of each.
pub fn studies() -> Result<Vec<(String, Study)>> {
    given()?
        .iter()
        .map(|one| {
            let utilisation = if one.class < 2 { "4-1" } else { "4-2" };
            let title = format!(
                "class {} (003, figures {utilisation} and 4-{})",
                one.class,
                one.class + 3
            );
            Ok((title, study::study(&one.server()?)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_by_goodput_agrees_with_the_table_where_both_are_known() {
        // Class 2: 300 a second in table 4-1; class 3: 100.
        for (class, known) in [(2, 300.0), (3, 100.0)] {
            let (_, goodput, _) = GOODPUT[class];
            let rate = goodput * MEGABYTE / mean_size(class).unwrap();
            assert!((rate / known - 1.0).abs() < 0.25, "class {class}: {rate}");
        }
        let small = mean_size(0).unwrap();
        assert!((500.0..800.0).contains(&small), "{small}");
    }

    #[test]
    fn small_files_lose_and_large_ones_win_as_the_source_found() {
        let given = given().unwrap();
        for one in &given {
            let shown = look(one).unwrap();
            let small = one.class < 2;
            assert!(shown.busier.iter().all(|busier| *busier == small));
            if small {
                assert!(shown.slower.iter().all(|slower| *slower), "{}", one.class);
            }
            if one.class > 2 {
                assert!(shown.slower.iter().all(|slower| !slower), "{}", one.class);
            }
        }
        // Class 2 is where the maximum of the stages hides what the sum shows.
        let two = look(&given[2]).unwrap();
        assert!(two.slower[0] && !two.slower[4] && !two.slower_by_maximum[0]);
        let light = often(&two.slower);
        assert_eq!(light, "up to 30 % of the lesser saturation");
        let heavy = [false, true, true, true, true];
        assert_eq!(often(&heavy), "from 30 % of the lesser saturation on");
        assert_eq!(often(&[true, false, true, true, true]), "at 4 of 5 loads");
    }
}
