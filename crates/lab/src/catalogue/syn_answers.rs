//! 004: how many SYNs of a flood are answered, by the stateless responder in the driver and by the kernel's cookies.

use super::respond::Server;
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Finding, Measure, Picture};
use crate::experiment::used::Used;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::flood::{STRANGERS_NETWORK, SynFlood};
use crate::nginx::Nginx;
use crate::respond::flood::{answered, client};
use crate::respond::{Pair, end};
use crate::tool;
use crate::world::Side;
use anyhow::{Result, bail};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "syn-answers",
    source: "004",
    about: "SYNs of a flood that are answered, by rate: the stateless responder, and the kernel's cookies",
    needs: &["nginx"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const RATE: &str = "asked of the flood, a second";
/// The last is more than a core sends.
const RATES: [f64; 5] = [1e4, 3e4, 1e5, 3e5, 1e7];
const QUICK: [f64; 1] = [1e7];
const SUBJECTS: [&str; 2] = ["kernel", "responder"];
const SENT: &str = "SYNs sent";
const BACK: &str = "answers that came back";
const SHARE: &str = "answered, of those that arrived";
const LOST: &str = "lost before the server";
/// A gigabit has room for so many SYNs a second.
const THERE: f64 = 1_488_000.0;
/// More than this, in percent, is not answered but once.
const MOST: f64 = 101.0;
/// How long what is on its way is given to come.
const AFTER: Duration = Duration::from_millis(200);
/// Connections of the pair's other clients, of which there are none here.
const NO_CLIENTS: usize = 1;

fn declare(extent: Extent) -> Experiment {
    let rates = match extent {
        Extent::Full => &RATES[..],
        Extent::Quick => &QUICK[..],
    };
    let axis = Axis::of_numbers(RATE, "", rates);
    let cited = || Citation {
        document: "004".into(),
        place: "its results, SYN flood".into(),
    };
    let levels = axis.levels.iter().map(|level| level.name.clone());
    let claims = levels.map(|level| Claim {
        says: "The responder answers every SYN that arrives, but for one in a hundred".into(),
        citation: cited(),
        measure: SHARE.into(),
        subject: SUBJECTS[1].into(),
        to: "".into(),
        at: vec![(RATE.into(), level)],
        ratio: Bound::AtLeast(99.0),
    });
    let picture = |measure: &str| Picture::new(measure, RATE, measure).log_x();
    Experiment {
        name: ENTRY.name.into(),
        title: "Answers to a flood of SYNs".into(),
        question: "How many SYNs does a server answer that keeps nothing of them? In 004 it answered as many as a \
            gigabit has room for, 1,488,000 a second."
            .into(),
        workload: "SYNs, each from another made-up address and port, with options as Linux sends them, from an AF_XDP \
            socket. Answers come back to the interface of the sender, if that has room for them. What was answered of \
            what arrived is by the responder's own count; of the kernel, what came back. The kernel has an nginx that \
            listens, answers by cookies (RFC 4987) once its queue is full, and answers no SYN a second time \
            (tcp_synack_retries is 0)"
            .into(),
        roles: "nothing is pinned; a veth does the driver's work, and so the responder's, where the sender is".into(),
        claims: claims.collect(),
        axes: vec![axis],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(BACK, "1/s"),
            Measure::new(SENT, "1/s"),
            Measure::new(SHARE, "%"),
            Measure::new(LOST, "%"),
        ],
        pictures: vec![picture(BACK).log_y(), picture(SHARE)],
        findings: vec![Finding {
            name: "on a full gigabit there".into(),
            axis: RATE.into(),
            measure: BACK.into(),
            points: vec![(THERE, THERE)],
            at: Vec::new(),
            citation: cited(),
        }],
        left_out: Vec::new(),
        model: None,
    }
}

struct Answers {
    /// That of the measurement that comes next. Before the network that it is in.
    server: Option<Server>,
    pair: Pair,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let pair = Pair::new(&setup.binary, NO_CLIENTS)?;
    // The kernel answers nobody whom it has no way to.
    let (server, by) = (pair.world().name(Side::Server), Side::Client.ipv4());
    tool::run(&format!(
        "ip -n {server} route add {STRANGERS_NETWORK} via {by}"
    ))?;
    // Nobody takes its answers: to repeat them would count a SYN twice.
    pair.world()
        .sysctl(Side::Server, "net.ipv4.tcp_synack_retries", "0")?;
    Ok(Box::new(Answers { server: None, pair }))
}

impl Bench for Answers {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        // What one has left that failed is in the way.
        self.server = None;
        self.server = Some(match at.subject == SUBJECTS[0] {
            true => Server::Nginx(self.pair.nginx()?),
            false => Server::Responder(self.pair.counting_responder()?),
        });
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let Some(server) = self.server.take() else {
            bail!("no server was started");
        };
        let target = match server {
            Server::Nginx(_) => Nginx::address(),
            Server::Responder(_) => Pair::target(),
        };
        let world = self.pair.world();
        let (lost, back) = client(world)?;
        let rate = at.number(RATE)?;
        let (report, spent) = server.watched().during(|_| {
            let flood = SynFlood::start_slower(world, target, rate)?;
            std::thread::sleep(at.window);
            flood.stop()
        })?;
        std::thread::sleep(AFTER);
        let (lost_then, back_then) = client(world)?;
        let answered = match server {
            Server::Nginx(nginx) => {
                nginx.stop()?;
                back_then - back
            }
            Server::Responder(responder) => {
                end(responder)?;
                answered(world)?
            }
        };
        let sent = report.sent as f64;
        if sent == 0.0 {
            bail!("nothing was sent");
        }
        let (lost, back) = ((lost_then - lost) as f64, (back_then - back) as f64);
        let share = 100.0 * answered as f64 / (sent - lost).max(1.0);
        // The driver's work is on the core of the sender: whose limit it is there is no saying.
        let mut sample = Sample::default()
            .using(&Used::with_client(&spent))
            .with(SENT, report.rate())
            .with(BACK, back / report.took.as_secs_f64())
            .with(SHARE, share)
            .with(LOST, 100.0 * lost / sent);
        if share > MOST {
            sample.notes.push(format!(
                "{} had more answers than SYNs arrived ({share:.1} %): some were no answers, or repeated",
                at.subject
            ));
        }
        Ok(sample)
    }
}
