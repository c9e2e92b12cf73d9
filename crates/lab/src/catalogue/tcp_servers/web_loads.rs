//! 001, figures 6.9, 6.10, 6.14 and 6.15: a web server in each variant by what is offered to it. `static` has nginx and
//! `serve` so.

use super::super::bed::ROLES;
use super::super::offered::{self, CONNECTIONS, LOAD};
use super::super::{Entry, Extent, Setup};
use super::web_sends::{PIECES, SENDS, SIZE, piece, places};
use super::web_server::{Beds, EAGER, KERNEL, PULL, PUSH, SETUP, SUBJECTS, VARIANTS};
use super::{REGISTERED, SYNCHRONOUS_REGISTERED};
use crate::experiment::declaration::{Axis, Bound, Claim};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::world::World;
use anyhow::Result;

pub const ENTRY: Entry = Entry {
    name: "web-loads",
    source: "001",
    about: "a web server in each variant by load, in sends of 4 KB and 16 KB: throughput, CPU of host and engine",
    needs: &["nginx", "taskset"],
    seconds: (1, 1),
    windows: 1,
    declare,
    open,
};

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let [four, sixteen] = PIECES.map(|(name, ..)| name);
    let pieces = match quick {
        true => &[sixteen][..],
        false => &[four, sixteen],
    };
    let mut pictures = Vec::new();
    for (what, sends, figures) in [
        ("Sends of 4 KB", four, ["6.9", "6.10"]),
        ("Sends of 16 KB", sixteen, ["6.14", "6.15"]),
    ] {
        if pieces.contains(&sends) {
            pictures.extend(offered::pictures(what, figures, &[(SENDS, sends)]));
        }
    }
    let loads = match quick {
        true => Axis::of_numbers(LOAD, "req/s", &[offered::full()]),
        false => offered::loads(extent),
    };
    let claim = |says: &str, figure: &str, sends: &str, subject: &str, ratio| Claim {
        subject: subject.into(),
        to: KERNEL.into(),
        ..offered::claim(says, figure, &[(SENDS, sends)], ratio)
    };
    let mut claims = vec![claim(
        "In sends of 16 KB that nobody waits for, with set-up, a full server answers 30 % more",
        "6.14",
        sixteen,
        SETUP,
        Bound::AtLeast(1.3),
    )];
    if !quick {
        claims.extend([
            claim(
                "In sends of 4 KB that wait for the engine a full server answers 7 % more",
                "6.9",
                four,
                SYNCHRONOUS_REGISTERED.0,
                Bound::AtLeast(1.07),
            ),
            claim(
                "In sends of 4 KB that nobody waits for it answers 17 % more",
                "6.9",
                four,
                REGISTERED.0,
                Bound::AtLeast(1.17),
            ),
            claim(
                "In sends of 16 KB that wait for the engine it answers 22 % more",
                "6.14",
                sixteen,
                SYNCHRONOUS_REGISTERED.0,
                Bound::AtLeast(1.22),
            ),
        ]);
    }
    // Ways to receive and to accept alone are in web-variants.
    let is_meant = |name: &&str| match quick {
        true => [KERNEL, SETUP].contains(name),
        false => ![EAGER, PULL, PUSH].contains(name),
    };
    let subjects = SUBJECTS.iter().map(|(name, _)| *name).filter(is_meant);
    Experiment {
        name: ENTRY.name.into(),
        title: "A web server in each variant, by load".into(),
        question: "How much of what is offered does a web server answer, and what has its host to do for it, by the way \
            in which it sends? In 001 all variants did the same until the server was full; then sends that waited for \
            the engine had 7 % (4 KB) and 22 % (16 KB) more answered, and sends that nobody waited for 17 % and (with \
            set-up) 30 %."
            .into(),
        workload: format!(
            "GET by HTTP/1.1, due at a fixed rate, a connection for each, at most {CONNECTIONS} at once, of 512 files of \
             {SIZE} bytes in turn. A head leaves with the first send. nginx reads and writes in pieces of 4 KB or 16 KB \
             (sendfile off). {VARIANTS}"
        ),
        roles: ROLES.into(),
        axes: vec![loads, Axis::of_words(SENDS, pieces)],
        subjects: subjects.map(String::from).collect(),
        measures: offered::measures(),
        pictures,
        findings: Vec::new(),
        claims,
        left_out: Vec::new(),
        model: None,
    }
}

struct Loads(Beds);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let beds = Beds::new(setup, &[SIZE], World::new, places)?;
    Ok(Box::new(Loads(beds)))
}

impl Bench for Loads {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let (place, further) = piece(at.word(SENDS)?)?;
        let size = SIZE.to_string();
        let further = ["--piece", &further];
        let server = self.0.start(at.subject, &size, place, &further)?;
        let load = offered::load(at.number(LOAD)?, at.window);
        let asked = server.asked(SIZE, true);
        let (outcome, cost) = server.account_closing(|closed| {
            let asking = || load.run_closing(&asked, closed);
            server.bed.on_client(asking)
        })?;
        Ok(offered::sample(&outcome, &cost))
    }
}
