//! The engine as systemd would run it: as a user of its own with the rights that the unit gives it, and
//! telling its supervisor that it is ready and that it answers.
#![forbid(unsafe_code)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use lab::{Side, World};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const NOBODY: &str = "65534";

/// The value of a setting of the unit.
fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/outboard@.service");
    let text = std::fs::read_to_string(path).expect("the unit");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("no {name} in the unit"))
        .to_owned()
}

#[test]
fn an_engine_with_the_units_rights_says_that_it_is_ready_and_that_it_answers() {
    let test = "an_engine_with_the_units_rights_says_that_it_is_ready_and_that_it_answers";
    if lab::skip_without(test, &["setpriv"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let directory = world.scratch().join("run");
    std::fs::create_dir(&directory).expect("a directory");
    for path in [world.scratch(), &directory] {
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, everybody).expect("rights");
    }
    let binary = world.scratch().join("outboard");
    std::fs::copy(BINARY, &binary).expect("a copy that nobody can run");
    let notices = directory.join("notify");
    let supervisor = UnixDatagram::bind(&notices).expect("a socket");
    std::fs::set_permissions(&notices, std::fs::Permissions::from_mode(0o777)).expect("rights");
    supervisor.set_read_timeout(Some(LIMIT)).expect("a limit");

    let rights = unit("AmbientCapabilities");
    assert_eq!(rights, unit("CapabilityBoundingSet"));
    let rights = rights.replace("CAP_", "+").replace(' ', ",").to_lowercase();
    let bounding = format!("--bounding-set=-all,{rights}");
    let engine = world
        .program(Side::Server, "setpriv")
        .args([
            &format!("--reuid={NOBODY}"),
            &format!("--regid={NOBODY}"),
            "--clear-groups",
        ])
        .args([&bounding, &format!("--inh-caps=-all,{rights}")])
        .args([&format!("--ambient-caps=-all,{rights}"), "--no-new-privs"])
        // Only the process of this number is watched.
        .args(["sh", "-c", "WATCHDOG_PID=$$ exec \"$0\" \"$@\""])
        .arg(binary.display().to_string())
        .args([
            "engine",
            "-i",
            Side::Server.interface(),
            "--log-format",
            "json",
        ])
        .env("OUTBOARD_SOCKET", directory.join("engine.sock"))
        .env("NOTIFY_SOCKET", &notices)
        .env("WATCHDOG_USEC", "200000")
        .log(world.scratch().join("engine.log"))
        .start()
        .expect("it starts");
    let hear = || {
        let mut bytes = [0; 200];
        let length = supervisor.recv(&mut bytes).unwrap_or_else(|error| {
            let log = std::fs::read_to_string(world.scratch().join("engine.log"));
            panic!("{error}: {log:?}")
        });
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1\n");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1\n");
    }
    // It is stopped: what is on its way arrives, and then nothing more.
    let pid = engine.id();
    let signal = |name: &str| {
        let pid = pid.to_string();
        let kill = world.program(Side::Server, "kill").args([name, &pid]);
        kill.output().expect("kill");
    };
    signal("-STOP");
    supervisor
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a limit");
    let mut bytes = [0; 200];
    while supervisor.recv(&mut bytes).is_ok() {}
    signal("-CONT");
    supervisor.set_read_timeout(Some(LIMIT)).expect("a limit");
    assert_eq!(hear(), "WATCHDOG=1\n");
    engine.stop(LIMIT).expect("it stops");
    // Its log is for programs: each line an object, in words.
    let log = std::fs::read_to_string(world.scratch().join("engine.log")).expect("a log");
    let mut messages = Vec::new();
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect(line);
        for field in ["timestamp", "level", "target", "message"] {
            assert!(event[field].is_string(), "{field}: {line}");
        }
        messages.push(event["message"].as_str().expect("a message").to_owned());
        assert!(
            !line.contains(" { ") && !line.contains("Some("),
            "a form of Rust's: {line}"
        );
    }
    assert!(
        messages.iter().any(|message| message == "engine running"),
        "{log}"
    );
}
