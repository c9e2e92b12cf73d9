//! The settings of the machine that belong to every result.

use crate::tool;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many threads wanted a core over the last minute, on the average, in the kernel's words.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// What a reader of results needs to know of the machine.
pub fn settings() -> Value {
    let cpu_info = read("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let told = |program: &str, arguments: &[&str]| {
        let path = tool::find(program)?;
        // Some print it to standard error, and some call that a failure.
        let output = std::process::Command::new(path)
            .args(arguments)
            .output()
            .ok()?;
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text)
            .lines()
            .next()
            .map(|line| line.trim().to_string())
    };
    let version = |program: &str, flag: &str| told(program, &[flag]);
    let mut settings = json!({
        "outboard": env!("CARGO_PKG_VERSION"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpu": model,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "hypervisor": cpu_info.contains("hypervisor"),
        "clock": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "congestion_control": read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "governor": all_of(CORES, "cpufreq/scaling_governor"),
        "nginx": version("nginx", "-v"),
        "wrk": version("wrk", "-v"),
        "httperf": version("httperf", "--version"),
        "sockperf": version("sockperf", "--version"),
        "redis": version("redis-server", "--version"),
        "memcached": version("memcached", "--version"),
        "apache": version("apache2", "-v"),
        "haproxy": version("haproxy", "-v"),
        "iperf3": version("iperf3", "--version"),
        "pgbench": version("pgbench", "--version"),
        "ethtool": version("ethtool", "--version"),
        "libzmq": told("pkg-config", &["--modversion", "libzmq"]),
    });
    for (name, value) in of_the_kernel() {
        settings[name] = value;
    }
    settings
}

/// Where the kernel tells of its cores.
const CORES: &str = "/sys/devices/system/cpu";

/// What the kernel is set to, and what of the machine it tells, that has to do with how fast either is.
fn of_the_kernel() -> Vec<(&'static str, Value)> {
    // A driver of its own has it the other way round.
    let boost = read(format!("{CORES}/cpufreq/boost"));
    let no_turbo = read(format!("{CORES}/intel_pstate/no_turbo"));
    let boost = boost.or_else(|| no_turbo.map(|no| (if no == "0" { "1" } else { "0" }).into()));
    vec![
        ("memory", json!(memory())),
        ("caches of a core", json!(caches(Path::new(CORES)))),
        ("vulnerabilities", json!(vulnerabilities(Path::new(CORES)))),
        ("boost", json!(boost)),
        ("smt", json!(read(format!("{CORES}/smt/active")))),
        ("numa nodes", json!(read("/sys/devices/system/node/online"))),
        (
            "transparent huge pages",
            json!(read("/sys/kernel/mm/transparent_hugepage/enabled")),
        ),
        ("tcp_rmem", json!(read("/proc/sys/net/ipv4/tcp_rmem"))),
        ("tcp_wmem", json!(read("/proc/sys/net/ipv4/tcp_wmem"))),
        (
            "perf_event_paranoid",
            json!(read("/proc/sys/kernel/perf_event_paranoid")),
        ),
    ]
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// What is in a directory, by name.
fn inside(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// What a file says of each core, once if it says the same of all.
fn all_of(cores: &str, file: &str) -> Option<String> {
    let is_core = |path: &PathBuf| {
        let name = name(path);
        let number = name.strip_prefix("cpu");
        number.is_some_and(|number| number.parse::<usize>().is_ok())
    };
    let cores = inside(Path::new(cores)).into_iter().filter(is_core);
    let said: BTreeSet<String> = cores.filter_map(|core| read(core.join(file))).collect();
    let said: Vec<String> = said.into_iter().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// The memory of the machine, as in "24105123 kB".
pub(crate) fn memory() -> Option<String> {
    let text = read("/proc/meminfo")?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.map(|total| total.trim().to_owned())
}

/// A cache as Linux tells of it.
pub(crate) struct Cache {
    level: Option<String>,
    /// As in "Data".
    pub(crate) kind: String,
    /// As in "32K".
    pub(crate) size: String,
}

/// The caches that are in a directory of sysfs, by name.
pub(crate) fn caches_in(directory: &Path) -> Vec<Cache> {
    let told = |cache: PathBuf| {
        let [level, kind, size] = ["level", "type", "size"].map(|file| read(cache.join(file)));
        let (kind, size) = (kind?, size?);
        Some(Cache { level, kind, size })
    };
    inside(directory).into_iter().filter_map(told).collect()
}

/// The caches that the first core has, or has a part in, as in "L1 Data 32K".
fn caches(cores: &Path) -> Option<String> {
    let caches = caches_in(&cores.join("cpu0/cache")).into_iter();
    let words = |cache: Cache| Some(format!("L{} {} {}", cache.level?, cache.kind, cache.size));
    let said: Vec<String> = caches.filter_map(words).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What the kernel does about those that the processor has: each mitigation takes its time.
fn vulnerabilities(cores: &Path) -> Option<String> {
    let files = inside(&cores.join("vulnerabilities")).into_iter();
    let said: Vec<String> = files
        .filter_map(|file| Some((name(&file), read(file)?)))
        .filter(|(_, said)| said != "Not affected")
        .map(|(name, said)| format!("{name}: {said}"))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::{all_of, caches, settings, vulnerabilities};

    #[test]
    fn what_the_kernel_tells_of_cores_is_read() {
        let name = format!("lab-machine-{}", std::process::id());
        let cores = std::env::temp_dir().join(name);
        let write = |file: &str, text: &str| {
            let file = cores.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        assert_eq!(caches(&cores), None);
        assert_eq!(vulnerabilities(&cores), None);
        for (index, level, kind, size) in [(0, "1", "Data", "32K"), (3, "3", "Unified", "32768K")] {
            for (file, text) in [("level", level), ("type", kind), ("size", size)] {
                write(
                    &format!("cpu0/cache/index{index}/{file}"),
                    &format!("{text}\n"),
                );
            }
        }
        assert_eq!(caches(&cores).unwrap(), "L1 Data 32K, L3 Unified 32768K");
        write("vulnerabilities/meltdown", "Not affected\n");
        write("vulnerabilities/retbleed", "Mitigation: IBPB\n");
        assert_eq!(
            vulnerabilities(&cores).unwrap(),
            "retbleed: Mitigation: IBPB"
        );
        for (core, governor) in [
            ("cpu0", "performance"),
            ("cpu1", "performance"),
            ("cpuidle", "menu"),
        ] {
            write(&format!("{core}/cpufreq/scaling_governor"), governor);
        }
        let governor = || all_of(cores.to_str().unwrap(), "cpufreq/scaling_governor");
        assert_eq!(governor().unwrap(), "performance");
        write("cpu1/cpufreq/scaling_governor", "powersave");
        assert_eq!(governor().unwrap(), "performance, powersave");
        std::fs::remove_dir_all(&cores).unwrap();
    }

    /// A run that goes on compares them: what is different each time it is looked at would be in its way.
    #[test]
    fn settings_are_the_same_when_they_are_read_again() {
        let settings_now = settings();
        assert_eq!(settings_now, settings());
        assert!(
            settings_now["memory"]
                .as_str()
                .is_some_and(|said| said.ends_with("kB"))
        );
    }
}
