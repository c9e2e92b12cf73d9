//! 001, figures 1.3 and 3.3: what the time of a server's core goes into, on the kernel and on the engine; and with
//! Apache, the source's server, on the kernel.

use super::bed::{Bed, ROLES, SERVER_CORE, STACKS, write_file};
use super::each::Each;
use super::{Entry, Extent, Setup, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::left_out::LeftOut;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::Nginx;
use crate::sampler::perf::{self, Class, Whose};
use crate::{apache, tool};
use anyhow::{Context, Result, anyhow};
use std::path::Path;

pub const ENTRY: Entry = Entry {
    name: "cpu-breakdown",
    source: "001",
    about: "what a server's core does: server, engine, TCP/IP and the rest, on kernel and engine",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (10, 2),
    windows: 1,
    declare,
    open,
};

const AXIS: &str = "request";
const CASES: [(&str, &str, bool); 4] = [
    ("16 KB, keep-alive", "/16K", false),
    (SOURCES, "/16K", true),
    ("64 B, keep-alive", "/64", false),
    ("64 B, close", "/64", true),
];
/// That which is most like the source's.
const SOURCES: &str = "16 KB, close";
const CONNECTIONS: usize = 32;

/// The source's server.
const APACHE: &str = apache::SUBJECT;

/// By perf, in parts of the time in which the core served.
const TCP_IP: &str = "TCP/IP of the kernel";
const SERVER: &str = "server, its own code";
const BY_PERF: [(&str, &[Class]); 6] = [
    (TCP_IP, &[Class::Calls, Class::Softirq]),
    (SERVER, &[Class::Server]),
    ("engine, its own code", &[Class::Engine]),
    ("frames of the engine, in the kernel", &[Class::Frames]),
    ("the kernel's rest", &[Class::Rest]),
    ("of TCP/IP: in softirq", &[Class::Softirq]),
];
/// By counters, in parts of the window.
const RUN_SERVER: &str = "run time of the server";
const RUN_ENGINE: &str = "run time of the engine";
const RATE: &str = "requests a second";

fn declare(extent: Extent) -> Experiment {
    let cases = match extent {
        Extent::Full => &CASES[..],
        Extent::Quick => &CASES[..3],
    };
    let names: Vec<&str> = cases.iter().map(|(name, ..)| *name).collect();
    let mut measures: Vec<Measure> = BY_PERF.map(|(name, _)| Measure::new(name, "%")).to_vec();
    measures.extend([
        Measure::new(RUN_SERVER, "%"),
        Measure::new(RUN_ENGINE, "%"),
        Measure::new(RATE, "1/s"),
    ]);
    let picture = |y: &str| {
        Picture::new(
            format!("{y}, of the core's time (001, figure 1.3)"),
            AXIS,
            y,
        )
    };
    // Apache there closed each connection; its files are not said.
    let at = CASES.iter().position(|(name, ..)| *name == SOURCES);
    let at = at.unwrap_or(0) as f64;
    let finding = |measure: &str, percent: f64| Finding {
        name: "Apache there".into(),
        axis: AXIS.into(),
        measure: measure.into(),
        points: vec![(at, percent)],
        at: Vec::new(),
        citation: Citation {
            document: "001".into(),
            place: "figure 1.3".into(),
        },
    };
    let is_there = tool::find(apache::PROGRAM).is_some();
    let (subjects, left_out) = subjects(extent, is_there);
    Experiment {
        name: ENTRY.name.into(),
        title: "What the core of a server does".into(),
        question:
            "Of the time of a server's core, how much goes into TCP/IP, how much into the server? In 001 TCP/IP \
            took 71 % of it, user space 20 %. What is there instead, if an engine does the TCP/IP?"
                .into(),
        workload: format!(
            "wrk, one thread, {CONNECTIONS} connections. By perf where it runs: a stack 997 times a second, by what \
             is in it, in parts of the time in which the core served. By counters besides: the run time of the \
             processes, to the nanosecond, in parts of the window. Work in softirq is that of the core, for \
             whomever: a veth does some of the client's there, too. nginx is on both stacks. Apache, in full runs, is as it is \
             without settings, with its processes by events."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_words(AXIS, &names)],
        claims: claims(&subjects),
        subjects,
        measures,
        pictures: BY_PERF[..5].iter().map(|(name, _)| picture(name)).collect(),
        findings: vec![finding(TCP_IP, 71.0), finding(SERVER, 20.0)],
        left_out,
        model: None,
    }
}

/// Who is compared where Apache is installed or not, and who is not. A first impression has no time for it.
fn subjects(extent: Extent, is_there: bool) -> (Vec<String>, Vec<LeftOut>) {
    let mut subjects = STACKS.map(String::from).to_vec();
    if extent == Extent::Quick {
        return (subjects, Vec::new());
    }
    let left_out = apache::left_out(is_there, "the source's server");
    if left_out.is_empty() {
        subjects.push(APACHE.into());
    }
    (subjects, left_out)
}

/// Where the source's server was, and what the engine is to change.
fn claims(subjects: &[String]) -> Vec<Claim> {
    let there = |says: &str, measure: &str, subject: &str, ratio| Claim {
        says: says.into(),
        citation: Citation {
            document: "001".into(),
            place: "figure 1.3".into(),
        },
        measure: measure.into(),
        subject: subject.into(),
        to: "".into(),
        at: vec![(AXIS.into(), SOURCES.into())],
        ratio,
    };
    let on_kernel = subjects.iter().filter(|name| *name != STACKS[1]);
    let of_servers = on_kernel.flat_map(|subject| {
        [
            there(
                "TCP/IP has more than half of what a server's core does (71 % there)",
                TCP_IP,
                subject,
                Bound::AtLeast(50.0),
            ),
            there(
                "The server itself has less than a third of it (20 % there)",
                SERVER,
                subject,
                Bound::AtMost(33.0),
            ),
        ]
    });
    let mut claims: Vec<Claim> = of_servers.collect();
    claims.push(Claim {
        says:
            "On the engine the kernel's TCP/IP takes less than half of the part that it has without"
                .into(),
        citation: Citation::goal(),
        measure: TCP_IP.into(),
        subject: STACKS[1].into(),
        to: STACKS[0].into(),
        at: vec![(AXIS.into(), CASES[0].0.into())],
        ratio: Bound::AtMost(0.5),
    });
    claims
}

struct Breakdown(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let fill = |site: &Path| write_file(&site.join("16K"), 16 << 10);
    // nginx answers the small ones by itself.
    let fill_all = |site: &Path| {
        fill(site)?;
        write_file(&site.join("64"), 64)
    };
    let beds = Each::of(setup, |subject| match subject {
        APACHE => Bed::bare(setup, STACKS[0])?.serving_by_apache(fill_all),
        stack => Bed::with_nginx(setup, stack, fill),
    });
    Ok(Box::new(Breakdown(beds?)))
}

impl Bench for Breakdown {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.0.get(at.subject)?;
        let name = at.word(AXIS)?;
        let case = CASES.iter().find(|(known, ..)| *known == name);
        let (_, path, close) = case.with_context(|| format!("no request {name}"))?;
        let url = format!("http://{}{path}", Nginx::address());
        bed.server_process().context("no server")?;
        let whose = || Whose {
            servers: bed.server_processes(),
            engine: bed.engine_process(),
        };
        let file = bed.world().scratch().join("perf.data");
        let (looks, rate, cost) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let there = tool::find("perf").context("perf is not installed");
                there.and_then(|_| perf::look(SERVER_CORE, at.window, &file, whose))
            });
            let (rate, cost) =
                bed.account(|| wrk::run(bed, &url, CONNECTIONS, *close, at.window))?;
            let looks = looking.join().map_err(|_| anyhow!("looking panicked"))?;
            anyhow::Ok((looks, rate, cost))
        })?;
        let part = |time: std::time::Duration| 100.0 * time.as_secs_f64() / at.window.as_secs_f64();
        let mut sample = cost
            .sample(at.window)
            .with(RUN_SERVER, part(cost.server()))
            .with(RATE, rate);
        if bed.engine_process().is_some() {
            sample = sample.with(RUN_ENGINE, part(cost.engine()));
        }
        let made = wrk::connections(rate, CONNECTIONS, *close, at.window);
        sample.notes.extend(cost.beside_engine(made));
        match looks {
            Ok(looks) if looks.serving() > 0 => {
                for (measure, classes) in BY_PERF {
                    let found: u64 = classes.iter().map(|class| looks.of(*class)).sum();
                    let percent = 100.0 * found as f64 / looks.serving() as f64;
                    sample = sample.with(measure, percent);
                }
            }
            Ok(_) => sample
                .notes
                .push("perf saw nothing of server and engine".into()),
            Err(error) => sample.notes.push(format!("by counters only: {error:#}")),
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::{APACHE, Extent, STACKS, claims, subjects};

    /// Of a server that is not installed nothing is claimed, and it is said that it is not there.
    #[test]
    fn the_sources_server_is_measured_where_it_is_there() {
        let (there, left_out) = subjects(Extent::Full, true);
        assert_eq!(there, [STACKS[0], STACKS[1], APACHE]);
        assert_eq!(left_out, []);
        let of_it = |subjects: &[String]| {
            let claims = claims(subjects);
            let of = claims.iter().filter(|claim| claim.subject == APACHE);
            (of.count(), claims.len())
        };
        assert_eq!(of_it(&there), (2, 5));
        let (without, left_out) = subjects(Extent::Full, false);
        assert_eq!(without, STACKS);
        assert_eq!(of_it(&without), (0, 3));
        assert_eq!((left_out.len(), left_out[0].name.as_str()), (1, APACHE));
        assert!(left_out[0].why.contains("apache2"), "{}", left_out[0]);
        assert_eq!(
            subjects(Extent::Quick, false),
            (STACKS.map(String::from).to_vec(), Vec::new())
        );
    }
}
