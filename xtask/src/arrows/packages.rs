//! Which package may import which. The table below is the one place that says so; the reasons are
//! in `docs/ARCHITECTURE.md`.

use crate::shell;
use anyhow::{Result, bail};
use serde_json::Value;

/// Each package of ours, and those of ours that it may import.
const ARROWS: &[(&str, &[&str])] = &[
    ("outboard-wire", &[]),
    ("outboard-policy", &[]),
    ("outboard-queueing", &["outboard-policy"]),
    ("outboard-enterable", &[]),
    ("outboard-queue-pair", &[]),
    ("outboard-tables", &[]),
    ("outboard-tcp", &["outboard-tables", "outboard-wire"]),
    ("outboard-sim", &["outboard-tcp", "outboard-wire"]),
    // For build scripts.
    ("outboard-bpf-build", &[]),
    ("outboard-netdev", &["outboard-wire", "outboard-bpf-build"]),
    (
        "outboard-engine",
        &[
            "outboard-tables",
            "outboard-tcp",
            "outboard-wire",
            "outboard-queue-pair",
            "outboard-netdev",
            "outboard-policy",
        ],
    ),
    ("outboard-host", &["outboard-queue-pair"]),
    ("outboard-preload", &["outboard-host", "outboard-enterable"]),
    ("outboard-native", &["outboard-host", "outboard-queue-pair"]),
    ("outboard-capi", &["outboard-native"]),
    (
        "outboard-stateless",
        &["outboard-wire", "outboard-netdev", "outboard-bpf-build"],
    ),
    // Packet scripts on Linux, by a TUN device.
    (
        "outboard-scripts",
        &["outboard-sim", "outboard-netdev", "outboard-wire"],
    ),
    // Somebody else's script runner on our stack; for tests only.
    (
        "packetdrill-adapter",
        &["outboard-sim", "outboard-tcp", "outboard-wire"],
    ),
    // The lab measures from outside: it starts the binary and reads /proc.
    (
        "outboard-lab",
        &["outboard-wire", "outboard-netdev", "outboard-queueing"],
    ),
    // Random programs of socket calls, in the lab's networks.
    ("outboard-differ", &["outboard-lab"]),
    (
        "outboard",
        &[
            "outboard-engine",
            "outboard-enterable",
            "outboard-host",
            "outboard-lab",
            "outboard-native",
            "outboard-netdev",
            "outboard-policy",
            "outboard-preload",
            "outboard-queue-pair",
            "outboard-queueing",
            "outboard-sim",
            "outboard-stateless",
            "outboard-tcp",
            "outboard-wire",
        ],
    ),
    ("xtask", &[]),
];

/// Test apparatus, which the tests (not the code) of any package may import.
const APPARATUS: &[&str] = &["outboard-differ", "outboard-lab", "outboard-sim"];

/// Counterparts: what the tests of a package, and only they, talk to.
const COUNTERPARTS: &[(&str, &str)] = &[("outboard-stateless", "outboard-tcp")];

/// The packages of the workspace, as cargo describes them.
pub fn read() -> Result<Vec<Value>> {
    let metadata = shell::quiet(shell::cargo().args([
        "metadata",
        "--format-version=1",
        "--no-deps",
        "--quiet",
    ]))?;
    let mut metadata: Value = serde_json::from_str(&metadata)?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => bail!("cargo metadata lists no packages"),
    }
}

/// Fails if a package imports one of ours that the table does not grant it.
pub fn check(packages: &[Value]) -> Result<String> {
    let mut wrong = Vec::new();
    let mut arrows = 0;
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("{name} is not in the table of arrows"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let imported = dependency["name"].as_str().unwrap_or_default();
            if !ARROWS.iter().any(|(known, _)| *known == imported) {
                continue;
            }
            arrows += 1;
            let for_tests = dependency["kind"].as_str() == Some("dev");
            let serves_tests =
                APPARATUS.contains(&imported) || COUNTERPARTS.contains(&(name, imported));
            if !(allowed.contains(&imported) || for_tests && serves_tests) {
                wrong.push(format!("{name} must not import {imported}"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{} packages, {arrows} arrows", packages.len()))
}
