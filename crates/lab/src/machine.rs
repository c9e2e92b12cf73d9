//! The settings of the machine that belong to every result.

use crate::tool;
use serde_json::{Value, json};

/// How many threads wanted a core over the last minute, on the average, in the kernel's words.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// What a reader of results needs to know of the machine.
pub fn settings() -> Value {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .map(|text| text.trim().to_string())
            .ok()
    };
    let cpu_info = read("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let version = |program: &str, flag: &str| {
        let path = tool::find(program)?;
        // Some print it to standard error, and some call that a failure.
        let output = std::process::Command::new(path).arg(flag).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text)
            .lines()
            .next()
            .map(|line| line.trim().to_string())
    };
    json!({
        "outboard": env!("CARGO_PKG_VERSION"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpu": model,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "hypervisor": cpu_info.contains("hypervisor"),
        "clock": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "congestion_control": read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
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
    })
}
