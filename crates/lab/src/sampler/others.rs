//! What programs of others used meanwhile, at whatever priority: a build beside a measurement, say.
//!
//! Ours are this process and all below it, and whatever is in a namespace of our worlds. Threads of the kernel
//! are nobody's: they work for whoever has given them work.

use super::time;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `PF_KTHREAD` of the kernel's `sched.h`, in the flags of `/proc/PID/stat`.
const OF_KERNEL: u64 = 0x0020_0000;

/// The processes of this machine at a time, those of the kernel left out.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    all: BTreeMap<u32, Seen>,
    /// Those below which this process is.
    above: BTreeSet<u32>,
}

/// A process, as it was seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    parent: u32,
    /// When it began, in ticks: its number may be another's later.
    began: u64,
    /// Its own time, in ticks.
    own: u64,
    /// That of its children that have ended and were waited for.
    ended: u64,
    is_ours: bool,
}

impl Processes {
    /// Those that there are now. `worlds` are files by which the namespaces of our worlds are entered.
    pub fn now(worlds: &[PathBuf]) -> Self {
        Self::read(Path::new("/proc"), std::process::id(), worlds)
    }

    /// Those of a directory such as `/proc`, of which this is `own`.
    fn read(directory: &Path, own: u32, worlds: &[PathBuf]) -> Self {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut all: BTreeMap<u32, Seen> = entries
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.parse().ok()?;
                // One may end between the listing and the look.
                let text = std::fs::read_to_string(entry.path().join("stat")).ok()?;
                Some((number, seen(&text)?))
            })
            .collect();
        let worlds: BTreeSet<(u64, u64)> = worlds
            .iter()
            .filter_map(|file| Some(place(&file.metadata().ok()?)))
            .collect();
        let is_in_world = |number: u32| {
            let network = directory.join(number.to_string()).join("ns/net");
            network
                .metadata()
                .is_ok_and(|found| worlds.contains(&place(&found)))
        };
        let mut ours: BTreeSet<u32> = all.keys().copied().filter(|it| is_in_world(*it)).collect();
        ours.insert(own);
        let below: Vec<u32> = all
            .keys()
            .copied()
            .filter(|number| line(&all, *number).any(|above| ours.contains(&above)))
            .collect();
        let above = line(&all, own).skip(1).collect();
        for number in below {
            if let Some(process) = all.get_mut(&number) {
                process.is_ours = true;
            }
        }
        Self { all, above }
    }

    /// What those that are not ours have used since `earlier`, in steps of ten milliseconds. What began and ended
    /// in between is in it if its parent is there still, and waited for it.
    pub fn others_since(&self, earlier: &Self) -> Duration {
        // What had been used before by what has ended since: its parent has that now, too.
        let mut known: BTreeMap<u32, u64> = BTreeMap::new();
        for (number, then) in &earlier.all {
            if self.the_same(*number, then).is_none() {
                let mut line = line(&earlier.all, *number).skip(1);
                let heir = line.find(|above| {
                    let then = earlier.all.get(above);
                    then.is_some_and(|then| self.the_same(*above, then).is_some())
                });
                if let Some(heir) = heir {
                    *known.entry(heir).or_default() += then.own + then.ended;
                }
            }
        }
        let used = self.all.iter().map(|(number, now)| {
            let then = earlier.all.get(number);
            let then = then.filter(|then| then.began == now.began);
            if now.is_ours || then.is_some_and(|then| then.is_ours) {
                return 0;
            }
            let own = now.own - then.map_or(0, |then| then.own).min(now.own);
            // Whoever is above us is also there for what we have left behind.
            if self.above.contains(number) {
                return own;
            }
            let before = then.map_or(0, |then| then.ended) + known.get(number).unwrap_or(&0);
            own + now.ended.saturating_sub(before)
        });
        time(used.sum())
    }

    /// The same process as that one, if it is there.
    fn the_same(&self, number: u32, as_that: &Seen) -> Option<&Seen> {
        let found = self.all.get(&number);
        found.filter(|found| found.began == as_that.began)
    }
}

/// A process, and those above it, as far as they are known.
fn line(all: &BTreeMap<u32, Seen>, from: u32) -> impl Iterator<Item = u32> {
    let next = move |number: &u32| all.get(number).map(|process| process.parent);
    // What has been read while processes came and went could be a circle.
    std::iter::successors(Some(from), next).take(all.len() + 1)
}

/// Where a file is, which no other is.
fn place(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// A process by the text of its `stat`; `None` for a thread of the kernel, and for what cannot be read.
fn seen(text: &str) -> Option<Seen> {
    // The second field is a name in parentheses, which may have blanks in it.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let is_of_kernel = field(6)? & OF_KERNEL != 0;
    (!is_of_kernel).then_some(Seen {
        parent: fields.get(1)?.parse().ok()?,
        began: field(19)?,
        own: field(11)?.saturating_add(field(12)?),
        ended: field(13)?.saturating_add(field(14)?),
        is_ours: false,
    })
}

#[cfg(test)]
mod tests {
    use super::{OF_KERNEL, Processes};
    use crate::process::Program;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    const OWN: u32 = 100;
    const OUTSIDE: &str = "outside";
    const WORLD: &str = "world";

    /// A `/proc` that is made up, in a directory that goes with it.
    struct Proc(PathBuf);

    impl Proc {
        fn new(name: &str) -> Self {
            let name = format!("lab-others-{name}-{}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            std::fs::create_dir(&directory).unwrap();
            for network in [OUTSIDE, WORLD] {
                std::fs::write(directory.join(network), "").unwrap();
            }
            let made = Self(directory);
            // The first of all, a shell, and what measures.
            made.process(1, 0, [0, 0], OUTSIDE);
            made.process(50, 1, [0, 0], OUTSIDE);
            made.process(OWN, 50, [0, 0], OUTSIDE);
            made
        }

        /// A process below `parent` that has used so many ticks, and so many by children that have ended.
        fn process(&self, number: u32, parent: u32, ticks: [u64; 2], network: &str) {
            self.told(number, parent, ticks, network, 0);
        }

        fn told(&self, number: u32, parent: u32, ticks: [u64; 2], network: &str, flags: u64) {
            let directory = self.0.join(number.to_string());
            let _ = std::fs::remove_dir_all(&directory);
            std::fs::create_dir_all(directory.join("ns")).unwrap();
            let [own, ended] = ticks;
            let text = format!(
                "{number} (a (name) ) S {parent} 0 0 0 0 {flags} 0 0 0 0 {own} 0 {ended} 0 20 0 1 0 {number} 0 0\n"
            );
            std::fs::write(directory.join("stat"), text).unwrap();
            std::fs::hard_link(self.0.join(network), directory.join("ns/net")).unwrap();
        }

        fn ends(&self, number: u32) {
            std::fs::remove_dir_all(self.0.join(number.to_string())).unwrap();
        }

        fn read(&self) -> Processes {
            Processes::read(Path::new(&self.0), OWN, &[self.0.join(WORLD)])
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn ticks(number: u64) -> Duration {
        Duration::from_millis(10 * number)
    }

    #[test]
    fn what_is_ours_and_the_kernels_is_none_of_others() {
        let made = Proc::new("ours");
        let state = |ticks| {
            made.process(OWN, 50, [ticks, ticks], OUTSIDE);
            made.process(101, OWN, [ticks, 0], OUTSIDE);
            made.process(102, 101, [ticks, 0], OUTSIDE);
            // A daemon of ours that the first of all has taken over, and what that has started.
            made.process(103, 1, [ticks, 0], WORLD);
            made.process(104, 103, [ticks, 0], OUTSIDE);
            made.told(2, 0, [ticks, 0], OUTSIDE, OF_KERNEL);
            // And waited for.
            made.process(1, 0, [0, ticks], OUTSIDE);
            made.read()
        };
        let before = state(10);
        assert_eq!(state(50).others_since(&before), Duration::ZERO);
    }

    #[test]
    fn a_build_beside_a_measurement_is_of_others() {
        let made = Proc::new("build");
        made.process(60, 50, [5, 1_000], OUTSIDE);
        made.process(61, 60, [300, 0], OUTSIDE);
        made.process(62, 60, [100, 0], OUTSIDE);
        let before = made.read();
        assert_eq!(made.read().others_since(&before), Duration::ZERO);
        // One goes on, one ends at 130, one comes and stays, and one of 40 has come and gone.
        made.process(62, 60, [120, 0], OUTSIDE);
        made.ends(61);
        made.process(63, 60, [7, 0], OUTSIDE);
        made.process(60, 50, [6, 1_000 + 330 + 40], OUTSIDE);
        assert_eq!(
            made.read().others_since(&before),
            ticks(20 + 30 + 7 + 1 + 40)
        );
    }

    #[test]
    fn what_ends_with_its_parent_is_counted_once() {
        let made = Proc::new("once");
        made.process(60, 50, [0, 0], OUTSIDE);
        made.process(61, 60, [10, 20], OUTSIDE);
        made.process(62, 61, [500, 0], OUTSIDE);
        let before = made.read();
        made.ends(61);
        made.ends(62);
        made.process(60, 50, [0, 10 + 20 + 500 + 3], OUTSIDE);
        assert_eq!(made.read().others_since(&before), ticks(3));
    }

    #[test]
    fn a_number_that_is_given_again_is_another_process() {
        let made = Proc::new("again");
        made.process(70, 1, [500, 0], OUTSIDE);
        let before = made.read();
        let stat = made.0.join("70/stat");
        std::fs::write(
            stat,
            "70 (new) S 1 0 0 0 0 0 0 0 0 0 4 0 0 0 20 0 1 0 999 0\n",
        )
        .unwrap();
        assert_eq!(made.read().others_since(&before), ticks(4));
    }

    #[test]
    fn this_process_and_what_it_starts_are_ours() {
        let child = Program::new("sleep").arg("60").start().unwrap();
        let now = Processes::now(&[]);
        let own = now.all[&std::process::id()];
        assert!(own.is_ours && now.all[&child.id()].is_ours);
        let parent = now.all.get(&own.parent);
        assert!(parent.is_none_or(|parent| !parent.is_ours));
    }
}
