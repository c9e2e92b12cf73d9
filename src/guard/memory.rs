//! How much memory there is, and who has it: what /proc and cgroups of version 2 tell.

use std::fs;
use std::path::{Path, PathBuf};

/// The kernel counts in these where it says kB.
const KILOBYTE: u64 = 1_024;

/// Where the kernel tells of it.
#[derive(Clone, Debug)]
pub struct Places {
    /// Where processes are.
    pub proc: PathBuf,
    /// Where cgroups of version 2 are, if they are.
    pub cgroups: Option<PathBuf>,
}

/// A cgroup that has a limit, with what counts towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Bytes in use, without pages of files that nobody has needed lately: those go first.
    pub used: u64,
    /// The least of `memory.max` and `memory.high`, bytes.
    pub limit: u64,
}

/// What was read at a moment. What cannot be read is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Bytes of the server's processes.
    pub server: u64,
    /// The cgroup around it that is nearest to its limit.
    pub cgroup: Option<Limited>,
    /// Bytes that programs could still get (`MemAvailable`).
    pub available: Option<u64>,
    /// Bytes that the machine has.
    pub total: Option<u64>,
    /// The share of the last ten seconds in which somebody waited for memory, percent: of the server's
    /// cgroup, or of the machine.
    pub pressure: Option<f64>,
    /// How often the kernel killed for want of memory in the server's cgroup, or on the machine.
    pub killed: Option<u64>,
}

impl Places {
    /// Those of this machine.
    pub fn here() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self {
            proc: "/proc".into(),
            cgroups: cgroups_of(&mounts),
        }
    }

    /// Reads everything that concerns a server of these processes, the first of which stands for it.
    pub fn read(&self, pids: &[u32]) -> Reading {
        let text = |name: &str| fs::read_to_string(self.proc.join(name)).unwrap_or_default();
        let meminfo = text("meminfo");
        let memory = pids
            .iter()
            .map(|pid| private(&text(&format!("{pid}/status"))).unwrap_or(0));
        let groups = pids.first().map_or(Vec::new(), |pid| {
            self.groups(&text(&format!("{pid}/cgroup")))
        });
        let limited = groups.iter().filter_map(|group| Limited::of(group));
        let nearest = limited.max_by(|one, other| {
            let share = |it: &Limited| it.used as f64 / it.limit.max(1) as f64;
            share(one).total_cmp(&share(other))
        });
        let own = groups.first();
        let of_group = |name: &str| fs::read_to_string(own?.join(name)).ok();
        let waits = of_group("memory.pressure").unwrap_or_else(|| text("pressure/memory"));
        let killed = match of_group("memory.events") {
            Some(events) => number_after(&events, "oom_kill"),
            None => number_after(&text("vmstat"), "oom_kill"),
        };
        Reading {
            server: memory.sum(),
            cgroup: nearest,
            available: number_after(&meminfo, "MemAvailable:").map(|kb| kb * KILOBYTE),
            total: number_after(&meminfo, "MemTotal:").map(|kb| kb * KILOBYTE),
            pressure: some_of_ten_seconds(&waits),
            killed,
        }
    }

    /// The directories of the cgroup that a process is in and of those around it, by the text of its `cgroup`
    /// file; without the root, which has no limit.
    fn groups(&self, text: &str) -> Vec<PathBuf> {
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
        let (Some(root), Some(path)) = (&self.cgroups, path) else {
            return Vec::new();
        };
        // A process that is outside of our cgroup namespace: `/../x`.
        let path = Path::new(path);
        if path.components().any(|part| part.as_os_str() == "..") {
            return Vec::new();
        }
        let up = path.ancestors().map(|path| root.join(path));
        up.filter(|group| group.join("memory.current").exists())
            .collect()
    }
}

impl Limited {
    fn of(group: &Path) -> Option<Self> {
        let text = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
        let number = |name: &str| text(name).trim().parse::<u64>().ok();
        // "max" is no number, and no limit.
        let limits = ["memory.max", "memory.high"].into_iter().filter_map(number);
        let limit = limits.min()?;
        let cached = number_after(&text("memory.stat"), "inactive_file").unwrap_or(0);
        Some(Self {
            used: number("memory.current")?.saturating_sub(cached),
            limit,
        })
    }
}

/// Where cgroups of version 2 are mounted, by the text of a list of mounts.
fn cgroups_of(mounts: &str) -> Option<PathBuf> {
    let mut fields = mounts.lines().map(|line| line.split_whitespace());
    fields.find_map(|mut fields| {
        let (_, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| place.into())
    })
}

/// Memory that a process alone has, in RAM and swapped out, bytes, by the text of its `status` file. Pages that
/// a fork left to several are counted for each of them.
fn private(status: &str) -> Option<u64> {
    let anonymous = number_after(status, "RssAnon:")?;
    let swapped = number_after(status, "VmSwap:").unwrap_or(0);
    Some((anonymous + swapped) * KILOBYTE)
}

/// The number behind a word that a line begins with.
fn number_after(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        (fields.next()? == word).then(|| fields.next()?.parse().ok())?
    })
}

/// `avg10` of the line `some` (Documentation/accounting/psi.rst of Linux).
fn some_of_ten_seconds(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut fields = line.split_whitespace();
    fields.find_map(|field| field.strip_prefix("avg10=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed again.
    struct Made(PathBuf);

    impl Made {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let place = format!("outboard-guard-{}-{name}", std::process::id());
            let made = Self(std::env::temp_dir().join(place));
            for (name, text) in files {
                let file = made.0.join(name);
                fs::create_dir_all(file.parent().expect("inside")).expect("a directory");
                fs::write(file, text).expect("a file");
            }
            made
        }

        fn places(&self) -> Places {
            Places {
                proc: self.0.join("proc"),
                cgroups: Some(self.0.join("cgroup")),
            }
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const STATUS: &str = "Name:\tnginx\nVmRSS:\t9000 kB\nRssAnon:\t   1000 kB\nVmSwap:\t 24 kB\n";
    const MEMINFO: &str = "MemTotal: 204800 kB\nMemFree: 1 kB\nMemAvailable:   51200 kB\n";
    const PSI: &str = "some avg10=12.50 avg60=0.00 avg300=0.00 total=4381\n\
        full avg10=1.00 avg60=0.00 avg300=0.00 total=1058\n";

    #[test]
    fn a_machine_without_cgroups_is_read() {
        let made = Made::new(
            "plain",
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/pressure/memory", PSI),
                ("proc/vmstat", "oom_kill_other 9\noom_kill 3\n"),
                ("proc/7/status", STATUS),
                ("proc/7/cgroup", "4:memory:/x\n0::/\n"),
                ("proc/8/status", STATUS),
            ],
        );
        let expected = Reading {
            server: 2 * 1_024 * 1_024,
            cgroup: None,
            available: Some(51_200 << 10),
            total: Some(204_800 << 10),
            pressure: Some(12.5),
            killed: Some(3),
        };
        // The ninth has ended meanwhile.
        assert_eq!(made.places().read(&[7, 8, 9]), expected);
        let nothing = Made::new("nothing", &[]).places().read(&[7]);
        assert_eq!(nothing, Reading::default());
    }

    #[test]
    fn the_nearest_limit_around_a_server_counts() {
        let made = Made::new(
            "cgroups",
            &[
                ("proc/7/cgroup", "0::/a.slice/web.service\n"),
                ("proc/pressure/memory", PSI),
                ("proc/vmstat", "oom_kill 3\n"),
                ("cgroup/a.slice/memory.current", "900\n"),
                ("cgroup/a.slice/memory.max", "1000\n"),
                ("cgroup/a.slice/memory.high", "max\n"),
                ("cgroup/a.slice/web.service/memory.current", "500\n"),
                ("cgroup/a.slice/web.service/memory.max", "2000\n"),
                ("cgroup/a.slice/web.service/memory.high", "800\n"),
                (
                    "cgroup/a.slice/web.service/memory.stat",
                    "anon 1\ninactive_file 100\n",
                ),
                (
                    "cgroup/a.slice/web.service/memory.events",
                    "low 0\nhigh 4\nmax 2\noom 1\noom_kill 1\n",
                ),
                (
                    "cgroup/a.slice/web.service/memory.pressure",
                    "some avg10=3.25 avg60=0.00\n",
                ),
            ],
        );
        let read = made.places().read(&[7]);
        let (used, limit) = (900, 1_000);
        assert_eq!(read.cgroup, Some(Limited { used, limit }));
        assert_eq!((read.pressure, read.killed), (Some(3.25), Some(1)));

        fs::write(made.0.join("cgroup/a.slice/memory.max"), "max\n").expect("a file");
        let (used, limit) = (400, 800);
        let read = made.places().read(&[7]);
        assert_eq!(read.cgroup, Some(Limited { used, limit }));
        // Outside of what we see.
        fs::write(made.0.join("proc/7/cgroup"), "0::/../a.slice/web.service\n").expect("a file");
        assert_eq!(made.places().read(&[7]).cgroup, None);
    }

    #[test]
    fn cgroups_are_found_where_they_are_mounted() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            cgroups_of(mounts).as_deref(),
            Some(Path::new("/sys/fs/cgroup/unified"))
        );
        assert_eq!(cgroups_of("proc /proc proc rw 0 0\n"), None);
        let here = Places::here().read(&[std::process::id()]);
        assert!(here.server > 0 && here.available > Some(0), "{here:?}");
    }
}
