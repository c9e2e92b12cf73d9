//! Each feature by itself, and all of them together.

use super::super::bed::STACKS;
use super::super::{Entry, Extent};
use super::{
    ALL, Beds, CPU, CPU_OF_GIGABIT, ENGINE_CPU, FEATURES, HIGH, MTU, MTUS, OFF, ONE_WAY,
    PROGRAM_CPU, RATE, ROLES, SIZE, direction, mtu_axis, mtus, plain, subject,
};
use crate::experiment::below::Below;
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use anyhow::Result;

pub const ENTRY: Entry = Entry {
    name: "offload-features",
    source: "002",
    about: "each offload feature alone, and all together: latency, Mb/s and CPU of some sizes",
    needs: &["ethtool", "taskset"],
    seconds: (5, 1),
    windows: 2,
    declare,
    open: |setup| Ok(Box::new(Singly(Beds::new(setup)))),
};

const AXIS: &str = "features";
const SIZES: [f64; 4] = [64.0, 1_024.0, 16_384.0, 65_536.0];
/// What a first impression has of them.
const QUICK: [&str; 4] = [OFF, CHECKSUMS, SEGMENTATION, ALL];
/// Both, and nothing that needs them.
const CHECKSUMS: &str = "checksums";
/// With what it needs.
const SEGMENTATION: &str = "segmentation";

fn declare(extent: Extent) -> Experiment {
    let quick = extent == Extent::Quick;
    let sizes = if quick { &SIZES[3..] } else { &SIZES[..] };
    let names = FEATURES.map(|features| features.name);
    let levels = if quick { &QUICK[..] } else { &names[..] };
    let mut pictures = Vec::new();
    for size in sizes {
        for mtu in mtus(extent) {
            let (size, mtu) = (size.to_string(), mtu.to_string());
            let (sends, receives) = (direction::DIRECTIONS[0], direction::DIRECTIONS[1]);
            let mut drawn = vec![(ONE_WAY, sends), (RATE, sends), (CPU, sends)];
            if !quick {
                drawn.extend([(RATE, receives), (CPU, receives)]);
            }
            pictures.extend(drawn.into_iter().map(|(measure, way)| {
                let said = match measure {
                    ONE_WAY => String::new(),
                    _ => format!(", {way}"),
                };
                let title =
                    format!("Messages of {size} bytes, MTU {mtu}{said}: {measure}, by what is on");
                let picture = Picture::new(title, AXIS, measure).at(SIZE, &size);
                picture.at(MTU, &mtu).at(direction::DIRECTION, way)
            }));
        }
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "Offload features one by one".into(),
        question: "Which of the features is it that brings something? 002 has checksums alone, and all together. \
            Scatter-gather is with the checksum of what is sent, which it needs, and segmentation with both."
            .into(),
        workload: "As in message-latency, and then as in message-throughput; CPU of the machine is of the latter. GSO and GRO are \
            the kernel's own: the engine has a switch for each of the others, and is told the same. Messages that are \
            answered go both ways, and are told of where the subject sends. "
            .to_owned()
            + direction::WORDS,
        roles: ROLES.into(),
        axes: vec![
            Axis::of_words(AXIS, levels),
            Axis::of_numbers(SIZE, "B", sizes),
            mtu_axis(extent),
            direction::axis(extent),
        ],
        subjects: STACKS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(ONE_WAY, "µs"),
            Measure::new(HIGH, "µs"),
            Measure::new(PROGRAM_CPU, "µs"),
            Measure::new(ENGINE_CPU, "µs"),
            Measure::new(RATE, "Mb/s"),
            Measure::new(CPU, "%"),
            Measure::new(CPU_OF_GIGABIT, "ms"),
        ],
        pictures,
        findings: Vec::new(),
        left_out: Vec::new(),
        model: None,
        claims: claims(),
    }
}

/// That the engine is no slower, and which feature it is that brings something to the kernel. What it is by the source can
/// only be guessed: it has no feature alone but checksums.
fn claims() -> Vec<Claim> {
    let large = (SIZE.to_owned(), SIZES[3].to_string());
    let sends = (
        direction::DIRECTION.to_owned(),
        direction::DIRECTIONS[0].to_owned(),
    );
    let brings = |says: &str, features: &str, citation, ratio| Claim {
        says: says.into(),
        citation,
        measure: RATE.into(),
        subject: STACKS[0].into(),
        to: Below::from(STACKS[0]).at(AXIS, OFF),
        at: vec![
            (AXIS.into(), features.into()),
            large.clone(),
            (MTU.into(), MTUS[0].to_string()),
            sends.clone(),
        ],
        ratio,
    };
    vec![
        Claim {
            says: "The engine sends as much as the kernel, whatever is on".into(),
            citation: Citation::goal(),
            measure: RATE.into(),
            subject: STACKS[1].into(),
            to: STACKS[0].into(),
            at: vec![large.clone(), sends.clone()],
            ratio: Bound::AtLeast(1.0),
        },
        brings(
            "It is segmentation that carries more of large messages: half as much again as with nothing on",
            SEGMENTATION,
            Citation::goal(),
            Bound::AtLeast(1.5),
        ),
        brings(
            "Checksums alone bring next to nothing",
            CHECKSUMS,
            Citation {
                document: "002".into(),
                place: "tables 4.2.4 and 4.2.5".into(),
            },
            Bound::AtMost(1.1),
        ),
    ]
}

struct Singly(Beds);

impl Bench for Singly {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        let subject = subject(at.subject, at.word(AXIS)?);
        self.0.get(&subject, at.number(MTU)? as u32).map(drop)
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let (name, size) = (at.word(AXIS)?, at.number(SIZE)? as usize);
        let setup = self.0.setup.clone();
        let mtu = at.number(MTU)? as u32;
        let bed = self.0.get(&subject(at.subject, name), mtu)?;
        if !direction::sends(at)? {
            return plain::receiving(&setup, bed, size, at.window);
        }
        let answered = plain::latency(&setup, bed, size, at.window)?;
        // The machine's CPU is that of the stream: it stands beside what that carries.
        Ok(answered.and(plain::sending(&setup, bed, size, at.window)?))
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECKSUMS, Extent, OFF, SEGMENTATION, declare};
    use crate::experiment::declaration::Bound;

    #[test]
    fn which_feature_brings_something_is_claimed_beside_none() {
        for extent in [Extent::Full, Extent::Quick] {
            let declared = declare(extent);
            assert_eq!(declared.mistakes(), [""; 0]);
            let of = |features: &str| {
                let claims = declared.claims.iter();
                let mut claims =
                    claims.filter(|claim| claim.at.iter().any(|(_, level)| level == features));
                let claim = claims.next().expect(features);
                assert_eq!(claim.compared(), format!("kernel / kernel, {OFF}"));
                assert!(claims.next().is_none());
                claim.ratio
            };
            assert_eq!(of(SEGMENTATION), Bound::AtLeast(1.5));
            assert_eq!(of(CHECKSUMS), Bound::AtMost(1.1));
        }
    }
}
