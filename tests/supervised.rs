//! Commands as systemd would run them: the engine as a user of its own with the rights that the unit gives
//! it; and each telling its supervisor that it is ready, what it does, and that it stops.
#![forbid(unsafe_code)]

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Program, Side, World};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const NOBODY: &str = "65534";
/// CAP_IPC_LOCK, which is kept where there is a limit on locked memory; CAP_NET_ADMIN and CAP_NET_RAW.
const IPC_LOCK: u64 = 1 << 14;
const OPENING: u64 = 1 << 12 | 1 << 13;

/// The capabilities of a process, or of a thread.
fn permitted(directory: &Path) -> u64 {
    let status = std::fs::read_to_string(directory.join("status")).expect("it runs");
    let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    u64::from_str_radix(permitted.expect("a line").trim(), 16).expect("a number")
}

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

/// The limit on locked memory, as prlimit(1) has it.
fn memlock(of_unit: &str) -> &str {
    assert_eq!(of_unit, "infinity");
    "unlimited"
}

/// What a supervisor hears on its socket.
struct Supervisor {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Supervisor {
    /// One that everybody may tell.
    fn at(path: PathBuf) -> Self {
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&path, everybody).expect("rights");
        socket.set_read_timeout(Some(LIMIT)).expect("a limit");
        Self { socket, path }
    }

    /// What it is told next, or why it is told nothing.
    fn next(&self) -> std::io::Result<String> {
        let mut bytes = [0; 500];
        let length = self.socket.recv(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// What it is told next, which comes; `log` says why it does not.
    #[track_caller]
    fn hear(&self, log: &Path) -> String {
        self.next().unwrap_or_else(|error| {
            panic!("{error}: {:?}", std::fs::read_to_string(log));
        })
    }

    /// Has a program tell it.
    fn of(&self, program: Program) -> Program {
        program.env("NOTIFY_SOCKET", &self.path)
    }
}

/// A directory where the user nobody may write, and a copy of the program that this user can run.
fn for_nobody(world: &World) -> (PathBuf, PathBuf) {
    let directory = world.scratch().join("run");
    std::fs::create_dir(&directory).expect("a directory");
    for path in [world.scratch(), &directory] {
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, everybody).expect("rights");
    }
    let binary = world.scratch().join("outboard");
    std::fs::copy(BINARY, &binary).expect("a copy");
    (directory, binary)
}

/// Has setpriv(1) run what follows as nobody, with these capabilities (as the unit names them) and no others.
fn with_rights(setpriv: Program, rights: &str) -> Program {
    let rights = rights.replace("CAP_", "+").replace(' ', ",").to_lowercase();
    setpriv
        .args([
            &format!("--reuid={NOBODY}"),
            &format!("--regid={NOBODY}"),
            "--clear-groups",
        ])
        .args([
            &format!("--bounding-set=-all,{rights}"),
            &format!("--inh-caps=-all,{rights}"),
        ])
        .args([&format!("--ambient-caps=-all,{rights}"), "--no-new-privs"])
}

#[test]
fn an_engine_with_the_units_rights_sees_rules_of_the_older_kind() {
    let test = "an_engine_with_the_units_rights_sees_rules_of_the_older_kind";
    if lab::skip_without(
        test,
        &["setpriv", "iptables-legacy", "iptables-legacy-save"],
    ) {
        return;
    }
    let world = World::new().expect("a private network");
    let (directory, binary) = for_nobody(&world);
    let tool = lab::tool::find("iptables-legacy").expect("it was there");
    let rule = ["-A", "INPUT", "-p", "tcp", "--dport", "80", "-j", "DROP"];
    if let Err(why) = world.program(Side::Server, tool).args(rule).output() {
        let line = format!("SKIPPED (iptables-legacy: {why:#}): {test}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    let refusal = |rights: &str| {
        let mut engine = with_rights(world.program(Side::Server, "setpriv"), rights)
            .arg(binary.display().to_string())
            .args(["engine", "-i", Side::Server.interface()])
            .env("OUTBOARD_SOCKET", directory.join("engine.sock"))
            .log(world.scratch().join("refused.log"))
            .start()
            .expect("it starts");
        let status = engine.wait(LIMIT).expect("it does not go on");
        assert!(!status.success());
        engine.printed()
    };
    let rights = unit("AmbientCapabilities");
    let said = refusal(&rights);
    assert!(said.contains("iptables, table filter: -A INPUT"), "{said}");
    // Who may not see them says so.
    let few = rights.replace(" CAP_DAC_READ_SEARCH", "");
    assert_ne!(few, rights);
    let said = refusal(&few);
    let unknown = "/proc/net/ip_tables_names cannot be read";
    assert!(said.contains(unknown), "{said}");
}

#[test]
fn an_engine_with_the_units_rights_says_that_it_is_ready_and_that_it_answers() {
    let test = "an_engine_with_the_units_rights_says_that_it_is_ready_and_that_it_answers";
    if lab::skip_without(test, &["setpriv", "prlimit"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (directory, binary) = for_nobody(&world);
    let supervisor = Supervisor::at(directory.join("notify"));
    let log = world.scratch().join("engine.log");

    let rights = unit("AmbientCapabilities");
    assert_eq!(rights, unit("CapabilityBoundingSet"));
    // As the unit has it, where whoever runs this may lift the limit.
    let limit = format!("--memlock={}", memlock(&unit("LimitMEMLOCK")));
    let lifts = world
        .program(Side::Server, "prlimit")
        .args([&limit, "true"]);
    let is_lifted = lifts.output().is_ok();
    let starts = match is_lifted {
        true => world
            .program(Side::Server, "prlimit")
            .args([&limit, "setpriv"]),
        false => world.program(Side::Server, "setpriv"),
    };
    let engine = with_rights(supervisor.of(starts), &rights)
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
        .env("WATCHDOG_USEC", "200000")
        .log(&log)
        .start()
        .expect("it starts");
    let hear = || supervisor.hear(&log);
    assert_eq!(
        hear(),
        format!(
            "READY=1\nSTATUS=engine default on {}\n",
            Side::Server.interface()
        )
    );
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1\n");
    }
    // None of its threads has kept the rights that it needed to start, but to lock memory where there is a limit.
    let kept = if is_lifted { 0 } else { IPC_LOCK };
    if !is_lifted {
        eprintln!(
            "skipped in part: the limit on locked memory cannot be lifted here (CAP_SYS_RESOURCE)"
        );
    }
    let pid = engine.id();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    for thread in threads.flatten() {
        assert_eq!(permitted(&thread.path()) & !kept, 0, "{thread:?}");
    }
    let children = format!("/proc/{pid}/task/{pid}/children");
    let opener = std::fs::read_to_string(children).expect("it runs");
    let opener = Path::new("/proc").join(opener.trim());
    assert_eq!(permitted(&opener), OPENING);
    // Others of its user have no more capabilities than it, and may not look into it all the same.
    let as_nobody = |words: &[&str]| {
        let program = world
            .program(Side::Server, "setpriv")
            .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")])
            .arg("--clear-groups");
        program.args(words)
    };
    let sleeps = as_nobody(&["sleep", "60"]).start().expect("it starts");
    let other = Path::new("/proc").join(sleeps.id().to_string());
    let looks = |process: &Path| {
        let maps = process.join("maps").display().to_string();
        as_nobody(&["cat", &maps]).output().is_ok()
    };
    // Once it is that user's.
    let into_another = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        looks(&other)
    });
    assert!(into_another);
    for process in [Path::new("/proc").join(pid.to_string()), opener] {
        assert!(!looks(&process), "{process:?}");
    }
    // It is stopped: what is on its way arrives, and then nothing more.
    let signal = |name: &str| {
        let pid = pid.to_string();
        let kill = world.program(Side::Server, "kill").args([name, &pid]);
        kill.output().expect("kill");
    };
    signal("-STOP");
    let patience = |limit| supervisor.socket.set_read_timeout(Some(limit));
    patience(Duration::from_secs(2)).expect("a limit");
    while supervisor.next().is_ok() {}
    signal("-CONT");
    patience(LIMIT).expect("a limit");
    assert_eq!(hear(), "WATCHDOG=1\n");
    engine.stop(LIMIT).expect("it stops");
    let mut last = hear();
    while last == "WATCHDOG=1\n" {
        last = hear();
    }
    assert_eq!(
        last,
        "STOPPING=1\nSTATUS=its connections have time to end (drain_seconds)\n\
         EXTEND_TIMEOUT_USEC=35000000\n"
    );
    // Its log is for programs: each line an object, in words.
    let log = std::fs::read_to_string(&log).expect("a log");
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

#[test]
fn a_server_says_where_it_serves_and_that_it_stops() {
    if lab::skip_without("a_server_says_where_it_serves_and_that_it_stops", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let supervisor = Supervisor::at(world.scratch().join("notify"));
    let log = world.scratch().join("serve.log");
    // A name that would be a notice of its own.
    let site = world.scratch().join("a\nMAINPID=1");
    std::fs::create_dir(&site).expect("a directory");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let serve = outboard.command(&world, "serve").arg(&site);
    let serve = serve.args(["-L", "127.0.0.1:8080", "--drain", "100"]);
    let server = supervisor.of(serve).log(&log).start().expect("it starts");
    let said = supervisor.hear(&log);
    let name = site.display().to_string().replace('\n', " ");
    let status = format!("STATUS=serving {name} on http://127.0.0.1:8080\n");
    assert_eq!(said, format!("READY=1\n{status}"));
    // It is ready when it says so.
    let client = world.on(Side::Server, || Ok(TcpStream::connect("127.0.0.1:8080")?));
    drop(client.expect("a connection"));
    server.stop(LIMIT).expect("it stops");
    let said = supervisor.hear(&log);
    assert!(said.starts_with("STOPPING=1\nSTATUS=stopping: "), "{said}");
    assert!(said.ends_with("EXTEND_TIMEOUT_USEC=105000000\n"), "{said}");
}

#[test]
fn a_responder_says_where_it_answers_and_that_it_stops() {
    if lab::skip_without("a_responder_says_where_it_answers_and_that_it_stops", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let supervisor = Supervisor::at(world.scratch().join("notify"));
    let log = world.scratch().join("respond.log");
    let respond = Outboard::new(Path::new(BINARY), &world).command(&world, "respond");
    let respond = respond.args(["-i", Side::Server.interface(), "-L", ":80-89", "--quiet"]);
    let responder = supervisor.of(respond).log(&log).start().expect("it starts");
    let said = supervisor.hear(&log);
    let status = format!(
        "READY=1\nSTATUS=answering on {}, *:80-89, ",
        Side::Server.interface()
    );
    assert!(said.starts_with(&status), "{said}");
    responder.stop(LIMIT).expect("it stops");
    let said = supervisor.hear(&log);
    assert!(said.starts_with("STOPPING=1\nSTATUS=stopping\n"), "{said}");
}
