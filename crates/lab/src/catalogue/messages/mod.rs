//! 002: latency, throughput and CPU by the size of messages, with features of the interface switched, on the
//! kernel and on the engine: over plain TCP, with ZeroMQ, and each feature by itself.

mod claims;
pub mod connections;
mod direction;
pub mod moderation;
pub mod plain;
pub mod singly;
mod source;
mod switched;
pub mod zeromq;

use super::bed::{Bed, Cost, SERVER_CORE, STACKS};
use super::{Extent, Setup};
use crate::experiment::Sample;
use crate::experiment::declaration::{Axis, Measure, Picture};
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

const SIZE: &str = "message";
const ONE_WAY: &str = "one-way latency";
/// There and back.
const HIGH: &str = "round trip, 99 %";
const RATE: &str = "throughput";
const CPU: &str = "CPU of the machine";
/// Of streams, whose rate no link limits here: CPU for as much as another carried.
const CPU_OF_GIGABIT: &str = "CPU of the machine, a gigabit";
/// What the subject's program, and its engine, have for a message and its answer.
const PROGRAM_CPU: &str = "CPU of the program, a message";
const ENGINE_CPU: &str = "CPU of the engine, a message";
const MTU: &str = "MTU";
/// What an Ethernet has, and jumbo frames.
const MTUS: [u32; 2] = [1_500, 9_000];
/// Powers of two, as the source has them.
const SIZES: [f64; 17] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0,
    16_384.0, 32_768.0, 65_536.0,
];
const SMALL: &str = "64";
/// The largest of those that fit a frame with the MTU of the source.
const ONE_FRAME: &str = "1024";
const LARGE: &str = "65536";
/// What a report says of the interface.
const ROLES: &str = "the subject's program and engine on core 0, the other end on core 1; features are those \
    of the subject's interface (ethtool) and of its engine (`--offload`); where received sums are checked, the other \
    end finishes those that it sends, and cuts its segments itself. A veth has no interrupts that could \
    be coalesced (`ethtool -c`: not supported), so that is not switched: `lab run moderation` has what a stack does itself";

/// A state of the features: what ethtool is told, and what the engine is.
struct Features {
    name: &'static str,
    ethtool: &'static str,
    engine: [&'static str; 4],
}

impl Features {
    /// What ethtool is told of one of them.
    fn says(&self, name: &str) -> &str {
        let mut words = self.ethtool.split(' ');
        words.find(|word| *word == name);
        words.next().unwrap_or_default()
    }
}

const OFF: &str = "off";
const ALL: &str = "all";
/// All off, all on, and between them what each is by itself. Scatter-gather needs a checksum that the device
/// completes, and segmentation needs both; the kernel's own GSO and GRO the engine has no switch for.
const FEATURES: [Features; 9] = [
    Features {
        name: OFF,
        ethtool: "tx off rx off sg off tso off gso off gro off",
        engine: ["txcsum=off", "rxcsum=off", "sg=off", "tso=off"],
    },
    Features {
        name: "send checksum",
        ethtool: "tx on rx off sg off tso off gso off gro off",
        engine: ["txcsum=on", "rxcsum=off", "sg=off", "tso=off"],
    },
    Features {
        name: "receive checksum",
        ethtool: "tx off rx on sg off tso off gso off gro off",
        engine: ["txcsum=off", "rxcsum=on", "sg=off", "tso=off"],
    },
    Features {
        name: "checksums",
        ethtool: "tx on rx on sg off tso off gso off gro off",
        engine: ["txcsum=on", "rxcsum=on", "sg=off", "tso=off"],
    },
    Features {
        name: "scatter-gather",
        ethtool: "tx on rx off sg on tso off gso off gro off",
        engine: ["txcsum=on", "rxcsum=off", "sg=on", "tso=off"],
    },
    Features {
        name: "segmentation",
        ethtool: "tx on rx off sg on tso on gso off gro off",
        engine: ["txcsum=on", "rxcsum=off", "sg=on", "tso=on"],
    },
    Features {
        name: "GSO",
        ethtool: "tx on rx off sg on tso off gso on gro off",
        engine: ["txcsum=on", "rxcsum=off", "sg=on", "tso=off"],
    },
    Features {
        name: "GRO",
        ethtool: "tx off rx off sg off tso off gso off gro on",
        engine: ["txcsum=off", "rxcsum=off", "sg=off", "tso=off"],
    },
    Features {
        name: ALL,
        ethtool: "tx on rx on sg on tso on gso on gro on",
        engine: ["txcsum=on", "rxcsum=on", "sg=on", "tso=on"],
    },
];

fn subject(stack: &str, features: &str) -> String {
    format!("{stack}, {features}")
}

/// The subjects with these features: the kernel's, then the engine's.
fn subjects(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let wanted: Vec<&str> = FEATURES
        .iter()
        .map(|known| known.name)
        .filter(|name| wanted(name))
        .collect();
    let each = |stack: &&str| {
        let stack = *stack;
        wanted
            .iter()
            .map(|name| subject(stack, name))
            .collect::<Vec<_>>()
    };
    STACKS.iter().flat_map(each).collect()
}

/// Off, checksums and all of it, as the source has them; quickly off and all.
fn sources(extent: Extent) -> Vec<String> {
    subjects(|name| match name {
        OFF | ALL => true,
        "checksums" => extent == Extent::Full,
        _ => false,
    })
}

/// The axis of sizes.
fn sizes(extent: Extent) -> Axis {
    let sizes = match extent {
        Extent::Full => &SIZES[..],
        Extent::Quick => &[64.0, 65_536.0],
    };
    Axis::of_numbers(SIZE, "B", sizes)
}

fn mtus(extent: Extent) -> &'static [u32] {
    match extent {
        Extent::Full => &MTUS,
        Extent::Quick => &MTUS[..1],
    }
}

/// The axis of MTUs.
fn mtu_axis(extent: Extent) -> Axis {
    let mtus: Vec<f64> = mtus(extent).iter().copied().map(f64::from).collect();
    Axis::of_numbers(MTU, "B", &mtus)
}

/// A picture of a measure by size for each MTU. The source has no jumbo frames: none of its graphs is of such.
fn pictures(extent: Extent, title: &str, measure: &str) -> Vec<Picture> {
    let each = mtus(extent).iter().map(|mtu| {
        let plain = title.split(" (002").next().filter(|_| *mtu != MTUS[0]);
        let mtu = mtu.to_string();
        let title = format!("{}, MTU {mtu}", plain.unwrap_or(title));
        Picture::new(title, SIZE, measure).log_x().at(MTU, &mtu)
    });
    each.collect()
}

/// What is measured of messages that are answered, one after another.
fn latency_measures() -> Vec<Measure> {
    vec![
        Measure::new(ONE_WAY, "µs"),
        Measure::new(HIGH, "µs"),
        Measure::new(PROGRAM_CPU, "µs"),
        Measure::new(ENGINE_CPU, "µs"),
        Measure::new(CPU, "%"),
    ]
}

/// The pictures of it, the first with this title.
fn latency_pictures(extent: Extent, title: &str) -> Vec<Picture> {
    let mut all: Vec<Picture> = pictures(extent, title, ONE_WAY)
        .into_iter()
        .map(Picture::log_y)
        .collect();
    for measure in [PROGRAM_CPU, ENGINE_CPU, CPU] {
        all.extend(pictures(extent, measure, measure));
    }
    all
}

/// What so many messages and answers took, one way and there and back at most but for one in a hundred, and what they
/// cost.
fn told([one_way, high]: [f64; 2], messages: f64, cost: &Cost) -> Sample {
    let each = |time: Duration| time.as_secs_f64() * 1e6 / messages.max(1.0);
    let sample = cost
        .sample(cost.spent.passed)
        .with(ONE_WAY, one_way)
        .with(HIGH, high)
        .with(PROGRAM_CPU, each(cost.server()))
        .with(CPU, 100.0 * cost.spent.share_of_machine());
    match cost.spent.engine {
        Some(_) => sample.with(ENGINE_CPU, each(cost.engine())),
        None => sample,
    }
}

/// Messages of a size, with the MTU of the source.
fn as_there(size: &str) -> Vec<(String, String)> {
    vec![
        (SIZE.into(), size.into()),
        (MTU.into(), MTUS[0].to_string()),
    ]
}

/// A stack for each subject and MTU, which is made when it is first wanted.
struct Beds {
    setup: Setup,
    made: BTreeMap<(String, u32), Bed>,
}

impl Beds {
    fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            made: BTreeMap::new(),
        }
    }

    fn get(&mut self, subject: &str, mtu: u32) -> Result<&Bed> {
        Ok(match self.made.entry((subject.to_owned(), mtu)) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(make(&self.setup, subject, mtu)?),
        })
    }
}

/// A stack with its features, which an engine finds as they are when it starts.
fn make(setup: &Setup, subject: &str, mtu: u32) -> Result<Bed> {
    let Some((stack, features)) = subject.split_once(", ") else {
        bail!("no stack and features in {subject}");
    };
    let (world, told) = featured(features, mtu)?;
    Bed::with_engine_told(setup, stack, world, SERVER_CORE, &told)
}

/// A world with these features at the server's interface, and what an engine there is told of them.
fn featured(features: &str, mtu: u32) -> Result<(World, Vec<&'static str>)> {
    let known = FEATURES.iter().find(|known| known.name == features);
    let known = known.with_context(|| format!("no features {features}"))?;
    let world = World::new()?;
    for side in [Side::Server, Side::Client] {
        let (name, interface) = (world.name(side), side.interface());
        tool::run(&format!("ip -n {name} link set {interface} mtu {mtu}"))?;
    }
    let ethtool = world.program(Side::Server, "ethtool");
    let ethtool = ethtool.args(["-K", Side::Server.interface()]);
    ethtool.args(known.ethtool.split(' ')).output()?;
    let ethtool = world.program(Side::Server, "ethtool");
    let printed = ethtool.args(["-k", Side::Server.interface()]).output()?;
    switched::check(known.ethtool, &printed)?;
    // A peer on this machine leaves sums unfinished. Who is to check them needs whole ones.
    if known.says("rx") == "off" {
        let ethtool = world.program(Side::Client, "ethtool");
        let ethtool = ethtool.args(["-K", Side::Client.interface(), "tx", "off"]);
        ethtool.output()?;
    }
    let told = known.engine.map(|feature| ["--offload", feature]).concat();
    Ok((world, told))
}

#[cfg(test)]
mod tests {
    use super::direction::{DIRECTION, DIRECTIONS};
    use super::{
        Extent, FEATURES, LARGE, MTU, MTUS, SIZE, SMALL, featured, plain, singly, subjects, zeromq,
    };
    use crate::experiment::declaration::{Bound, Claim};

    #[test]
    fn every_state_of_the_features_can_be_had() {
        let test = "every_state_of_the_features_can_be_had";
        if crate::skip_without(test, &["ethtool"]) {
            return;
        }
        for features in &FEATURES {
            featured(features.name, MTUS[0]).unwrap();
        }
    }

    /// What is said to ethtool and to the engine is the same, as far as the engine has it.
    #[test]
    fn the_interface_and_the_engine_are_told_the_same() {
        for features in &FEATURES {
            let names = [
                ("tx", "txcsum"),
                ("rx", "rxcsum"),
                ("sg", "sg"),
                ("tso", "tso"),
            ];
            for (told_engine, (ethtool, engine)) in features.engine.iter().zip(names) {
                assert_eq!(*told_engine, format!("{engine}={}", features.says(ethtool)));
            }
            assert_eq!(features.ethtool.split(' ').count(), 12);
            // What the kernel would switch off by itself, because another is off, is not asked for.
            let on = |name| features.says(name) == "on";
            assert!(!on("sg") || on("tx"), "{}", features.name);
            assert!(!(on("tso") || on("gso")) || on("sg"), "{}", features.name);
        }
    }

    /// Of jumbo frames it has nothing: neither a figure, nor a statement, nor a graph.
    #[test]
    fn what_the_source_has_is_held_against_its_own_mtu() {
        for entry in [
            plain::LATENCY,
            plain::THROUGHPUT,
            zeromq::LATENCY,
            zeromq::THROUGHPUT,
        ] {
            let declared = entry.declare(Extent::Full);
            assert_eq!(declared.mistakes(), [""; 0]);
            let own = (MTU.to_owned(), "1500".to_owned());
            assert!(
                declared
                    .findings
                    .iter()
                    .all(|found| found.at.contains(&own))
            );
            assert!(declared.claims.iter().all(|claim| claim.at.contains(&own)));
            for picture in declared.pictures {
                let is_graph = picture.title.contains("002");
                assert!(!is_graph || picture.at.contains(&own), "{}", picture.title);
            }
        }
    }

    /// In full streams go both ways; a first impression takes no longer for it. What the source has is of senders.
    #[test]
    fn streams_go_both_ways_and_the_sources_go_one() {
        for entry in [plain::THROUGHPUT, zeromq::THROUGHPUT, singly::ENTRY] {
            let levels = |extent| {
                let declared = entry.declare(extent);
                assert_eq!(declared.mistakes(), [""; 0], "{}", entry.name);
                let axis = declared.axis(DIRECTION).unwrap().clone();
                let names = axis.levels.into_iter().map(|level| level.name);
                names.collect::<Vec<String>>()
            };
            assert_eq!(levels(Extent::Full), DIRECTIONS);
            assert_eq!(levels(Extent::Quick), DIRECTIONS[..1]);
            let declared = entry.declare(Extent::Full);
            let own = (DIRECTION.to_owned(), DIRECTIONS[0].to_owned());
            assert!(declared.claims.iter().all(|claim| claim.at.contains(&own)));
            let mut findings = declared.findings.iter();
            assert!(findings.all(|found| found.at.contains(&own)));
            let mut of_receivers = 0;
            for picture in declared.pictures {
                let is_own = picture.at.contains(&own);
                assert!(
                    is_own || !picture.title.contains("002"),
                    "{}",
                    picture.title
                );
                of_receivers += usize::from(!is_own);
            }
            assert!(of_receivers > 0, "{}", entry.name);
        }
    }

    /// Of each of the source's experiments it is said what features bring to the kernel, by the source's numbers, and what
    /// the engine changes, of small messages and of large ones.
    #[test]
    fn the_sources_numbers_and_the_engine_are_claimed() {
        let experiments = [
            plain::LATENCY,
            plain::THROUGHPUT,
            zeromq::LATENCY,
            zeromq::THROUGHPUT,
        ];
        for (entry, extent) in experiments
            .iter()
            .flat_map(|entry| [(entry, Extent::Full), (entry, Extent::Quick)])
        {
            let declared = entry.declare(extent);
            assert_eq!(declared.mistakes(), [""; 0], "{}", entry.name);
            let says = |subject: &str, to: &str, size: &str, measure: &str| {
                let of_size = (SIZE.to_owned(), size.to_owned());
                let mut claims = declared.claims.iter();
                claims.any(|claim| {
                    (claim.subject.as_str(), claim.to.as_str()) == (subject, to)
                        && claim.at.contains(&of_size)
                        && claim.measure == measure
                })
            };
            let first = declared.measures[0].name.as_str();
            for size in [SMALL, LARGE] {
                let engine = says("engine, all", "kernel, all", size, first);
                assert!(engine, "{}, {size}", entry.name);
            }
            assert!(
                says("kernel, all", "kernel, off", LARGE, first),
                "{}",
                entry.name
            );
            // The finding is one of numbers, not of a sign.
            let mut of_large = declared.claims.iter().filter(|claim| {
                claim.to == "kernel, off" && claim.at.iter().any(|(_, level)| level == LARGE)
            });
            let is_number =
                |claim: &Claim| !matches!(claim.ratio, Bound::AtLeast(1.0) | Bound::AtMost(1.0));
            assert!(of_large.all(is_number), "{}", entry.name);
        }
    }

    #[test]
    fn every_stack_has_the_features_that_are_wanted() {
        assert_eq!(subjects(|_| true).len(), 2 * FEATURES.len());
        let off = subjects(|name| name == "off");
        assert_eq!(off, ["kernel, off", "engine, off"]);
    }
}
