//! SURGE (Barford and Crovella, SIGMETRICS 1998) as a load: users who ask for a page and what is embedded in it, pause,
//! and ask for the next. The others of these loads ask at a rate, whether they are answered or not.

use super::bed::{Bed, ROLES, STACKS};
use super::each::Each;
use super::offered::{self, BUSY, GRACE, REPLIES, TIME};
use super::{Entry, Extent, Setup};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::users::Users;
use crate::nginx::Nginx;
use crate::workload::files;
use crate::workload::surge::Popularity;
use crate::workload::users::{User, site};
use anyhow::{Result, bail};
use std::sync::Arc;

pub const ENTRY: Entry = Entry {
    name: "surge",
    source: "",
    about: "SURGE's users, who ask, pause and ask again: throughput, CPU and the time of a request by their number",
    needs: &["nginx", "taskset"],
    seconds: (20, 2),
    windows: 1,
    declare,
    open,
};

const USERS: &str = "users";
const HIGH: &str = "time of a request, 99 %";
/// One asks for something each four or five seconds: the most, somewhat more often than the other loads do.
const LEVELS: [f64; 7] = [
    2_000.0, 5_000.0, 10_000.0, 20_000.0, 35_000.0, 50_000.0, MOST,
];
const MOST: f64 = 80_000.0;
const QUICK: [f64; 2] = [10_000.0, MOST];
/// Files of the site: some 60 MB.
const FILES: usize = 1_000;
/// What their sizes, and what is in them, are drawn from.
const SEED: u64 = 98;
/// Connections at once, at most: fewer than a process may have descriptors.
const CONNECTIONS: usize = 512;

fn declare(extent: Extent) -> Experiment {
    let levels = match extent {
        Extent::Full => &LEVELS[..],
        Extent::Quick => &QUICK[..],
    };
    let mut measures = offered::measures();
    measures.push(Measure::new(HIGH, "ms"));
    let picture = |title: &str, measure: &str| Picture::new(title, USERS, measure);
    Experiment {
        name: ENTRY.name.into(),
        title: "SURGE's users, by their number".into(),
        question: "How many people does a server serve, and how long do they wait, if they ask as people did: for \
            pages with objects, of sizes without a typical one, some of them much more often than others, and with \
            pauses of seconds and of minutes?"
            .into(),
        workload: format!(
            "GET by HTTP/1.0, a connection for each object, at most {CONNECTIONS} at once. A user asks for a page and, \
             one after the other, for the objects in it (Pareto), with pauses between them (Weibull), and reads before \
             the next page (Pareto); it asks when it has the answer before, so that a slow server is asked less. The \
             site has {FILES} files, of sizes with a lognormal body and a Pareto tail up to 50 MB, asked for by Zipf's \
             law, and matched so that the sizes of what is asked for are as near to SURGE's own (Pareto) as so few \
             files allow: the first alone is an eighth of all that is asked for. Parameters and pauses are as \
             published, in real time; tails are cut, and numbers of objects rounded down. Each object is drawn anew \
             from all files and belongs to no page, and that what was asked for is asked for again soon (temporal \
             locality) is left out. All users have been there for ten minutes, of their own time, when they begin. \
             Where they ask for more than the server carries, the window shows how the queue of those who wait grows, \
             not where it settles: that takes longer, as pauses of minutes do."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_numbers(USERS, "", levels)],
        subjects: STACKS.map(String::from).to_vec(),
        measures,
        pictures: vec![
            picture("Throughput", REPLIES),
            picture("CPU", BUSY),
            picture("The time of a request", TIME).log_y(),
        ],
        findings: Vec::new(),
        claims: vec![Claim {
            says: "The engine answers no fewer requests of as many users".into(),
            citation: Citation::goal(),
            measure: REPLIES.into(),
            subject: STACKS[1].into(),
            to: STACKS[0].into(),
            at: vec![(USERS.into(), MOST.to_string())],
            ratio: Bound::AtLeast(1.0),
        }],
        left_out: Vec::new(),
        model: None,
    }
}

struct Surge {
    beds: Each<Bed>,
    /// A request for each file.
    texts: Vec<Vec<u8>>,
    popular: Arc<Popularity>,
    /// Those of the measurement that comes next.
    users: Vec<User>,
}

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let set = site(FILES, SEED);
    let beds = Bed::both(setup, |directory| files::write(&set, directory, SEED))?;
    let texts = set.iter();
    let texts = texts.map(|file| offered::get(&format!("/{}", file.name)));
    Ok(Box::new(Surge {
        beds,
        texts: texts.collect(),
        popular: Arc::new(Popularity::of(FILES)?),
        users: Vec::new(),
    }))
}

impl Bench for Surge {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        let user = |number| User::new(&self.popular, at.seed, number);
        self.users = (0..at.number(USERS)? as u64).map(user).collect();
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let users = std::mem::take(&mut self.users);
        if users.is_empty() {
            bail!("no users were made ready");
        }
        let load = Users {
            server: Nginx::address(),
            texts: &self.texts,
            connections: CONNECTIONS,
            duration: at.window,
            grace: GRACE,
        };
        let bed = self.beds.get(at.subject)?;
        let (outcome, cost) = bed.account_closing(&[], |closed| {
            bed.on_client(|| load.run_closing(users, closed))
        })?;
        let sample = offered::sample(&outcome, &cost);
        if outcome.answered == 0 {
            return Ok(sample);
        }
        let high = outcome.latency.value_at_quantile(0.99) as f64 / 1e6;
        Ok(sample.with(HIGH, high))
    }
}
