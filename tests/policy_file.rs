//! A policy decides: whose new connections are, and who reads the files that `outboard serve` names. `explain` says
//! by which figures, and a file that is no policy changes nothing.
#![forbid(unsafe_code)]

mod on_drop;

use lab::outboard::Outboard;
use lab::{Process, Side, World};
use on_drop::OnDrop;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// The kernel's connections below 40 requests a second, and the engine's above; the program reads what is short.
const POLICY: &str = r#"{
  "version": 2,
  "connections": { "offload_from_rate": 40.0, "offload_below_rate": null },
  "rules": [
    { "up_to_bytes": 65536, "offload_from_rate": null, "offload_below_rate": null }
  ],
  "above": { "offload_from_rate": 0.0, "offload_below_rate": null }
}
"#;

/// What is served: a name and how many bytes.
const SHORT: (&str, usize) = ("short", 900);
const FURTHER: (&str, usize) = ("further", 901);
const LONG: (&str, usize) = ("long", 300_000);

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// A connection from the client's network.
fn connected() -> TcpStream {
    let address = SocketAddr::from((Side::Server.ipv4(), 80));
    let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("somebody answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// A file is asked for, and comes as it is.
fn fetch(stream: &mut TcpStream, (name, len): (&str, usize)) {
    write!(stream, "GET /{name} HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).expect("a body");
    assert!(body == contents(len), "the body is the file");
}

/// An engine with a policy, and a server on it.
struct Stage {
    // Before the world that they are in.
    server: Process,
    engine: Process,
    outboard: Outboard,
    site: PathBuf,
    world: World,
}

impl Stage {
    fn new() -> Self {
        let world = World::new().expect("a private network");
        // The engine reads files of a disk; the world's may be in memory.
        let site = Path::new("/var/tmp").join(format!("outboard-policy-{}", std::process::id()));
        std::fs::create_dir_all(&site).expect("a directory");
        for (name, len) in [SHORT, FURTHER, LONG] {
            std::fs::write(site.join(name), contents(len)).expect("written");
        }
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let policy = world.scratch().join("policy.json");
        std::fs::write(&policy, POLICY).expect("written");
        let settings = format!(
            "placement = \"adaptive\"\npolicy = \"{}\"\n",
            policy.display()
        );
        let engine = outboard
            .start_engine_with(&world, &settings)
            .expect("an engine");
        let mut server = outboard
            .command(&world, "serve")
            .arg(&site)
            .args(["-L", "0.0.0.0:80"])
            .log(world.scratch().join("serve.log"))
            .start()
            .expect("a server");
        outboard
            .wait_until_taken(&mut server, PATIENCE, 80, || true)
            .expect("it listens");
        Self {
            server,
            engine,
            outboard,
            site,
            world,
        }
    }

    fn connect(&self) -> TcpStream {
        let connected = self.world.on(Side::Client, || Ok(connected()));
        connected.expect("a connection")
    }

    /// A counter, of which one label has this value.
    fn counted(&self, name: &str, label: &str) -> f64 {
        let counters = self.outboard.stats().expect("counters");
        let is_it = |counter: &&lab::outboard::Counter| {
            counter.name == name && counter.labels.iter().any(|value| value == label)
        };
        counters.iter().find(is_it).expect("a counter").value
    }

    fn is_kernels(&self) -> bool {
        self.counted("listener_on_kernel", "0.0.0.0:80") == 1.0
    }

    fn told(&self, command: &str, further: &[&str]) -> String {
        let told = self.outboard.command(&self.world, command);
        told.args(further.iter().copied())
            .output()
            .expect("an answer")
    }

    fn explained(&self) -> String {
        self.told("explain", &[&self.server.id().to_string()])
    }

    fn awaited(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}:\n{}", self.explained());
        }
    }

    fn write_policy(&self, text: &str) {
        std::fs::write(self.world.scratch().join("policy.json"), text).expect("written");
    }
}

/// Whether it is on a disk that the engine sends from.
fn on_disk(path: &Path) -> bool {
    let mut stat = std::process::Command::new("stat");
    let out = stat.args(["-f", "-c", "%T"]).arg(path).output();
    let kind = String::from_utf8(out.expect("stat").stdout).expect("words");
    ["ext2/ext3", "xfs", "f2fs", "btrfs"].contains(&kind.trim())
}

#[test]
fn a_policy_says_whose_connections_are_and_who_reads_files() {
    if lab::skip_without_root("a_policy_says_whose_connections_are_and_who_reads_files") {
        return;
    }
    let stage = Stage::new();
    let mut first = stage.connect();
    // Two requests in a quarter of a second are eight a second: less than half of forty.
    stage.awaited("it is quiet", |stage| {
        fetch(&mut stage.connect(), SHORT);
        fetch(&mut first, SHORT);
        std::thread::sleep(Duration::from_millis(250));
        stage.is_kernels()
    });
    let told = stage.explained();
    assert!(
        told.contains("placed there: does not pay (adaptive), "),
        "{told}"
    );
    let figures = " at most, by the policy the engine pays from 40 and takes files of 65537 bytes \
                   or more, ";
    assert!(told.contains(figures), "{told}");
    let rows = stage.told("ss", &["-lni"]);
    assert!(rows.contains("placed:kernel "), "{rows}");

    // The first connection is the engine's, and stays there. Whoever names a file there is told who reads it, and
    // what was read by the engine while nothing was known is asked about anew.
    let (is_disk, by) = (on_disk(&stage.site), "policy_files");
    stage.awaited("what is short is the program's", |stage| {
        fetch(&mut first, SHORT);
        std::thread::sleep(Duration::from_millis(100));
        !is_disk || stage.counted(by, "program") > 0.0
    });
    fetch(&mut first, LONG);
    if is_disk {
        assert_eq!(stage.counted(by, "engine"), 1.0);
    } else {
        let said = "SKIPPED (needs a disk below /var/tmp): who reads files\n";
        let _ = std::io::stderr().write_all(said.as_bytes());
    }

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let world = &stage.world;
        for _ in 0..4 {
            scope.spawn(|| {
                world.enter(Side::Client).expect("its namespace");
                while !done.load(Ordering::Relaxed) {
                    fetch(&mut connected(), SHORT);
                }
            });
        }
        // Whatever happens here, the clients must come to an end.
        let _end = OnDrop(|| done.store(true, Ordering::Relaxed));
        stage.awaited("it is busy", |stage| {
            std::thread::sleep(Duration::from_millis(100));
            !stage.is_kernels()
        });
    });
    let told = stage.explained();
    assert!(
        told.contains("new connections are the engine's: pays (adaptive), "),
        "{told}"
    );

    // What is no policy changes nothing, and what the model writes is one.
    stage.write_policy(&POLICY.replace("40.0", "\"often\""));
    let reload = stage.outboard.command(&stage.world, "reload");
    let refused = format!("{:#}", reload.output().expect_err("refused"));
    let place = stage.world.scratch().join("policy.json");
    let reason = format!("{}:3: invalid type: string \"often\"", place.display());
    assert!(
        refused.contains("engine.toml:2: ") && refused.contains(&reason),
        "{refused}"
    );
    assert!(stage.explained().contains("pays from 40 "));
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plan.toml");
    let (example, written) = (example.display().to_string(), place.display().to_string());
    stage.told("plan", &["--from", &example, "--policy", &written]);
    assert_eq!(stage.told("reload", &[]), "changed: policy\n");
    let told = stage.explained();
    let band = std::fs::read_to_string(&place).expect("written");
    let band = policy::Policy::parse(&band)
        .expect("a policy")
        .connections();
    let says = match band.offload_from_rate {
        Some(from) => format!("by the policy the engine pays from {from:.0}"),
        None => "by the policy the engine never pays".to_owned(),
    };
    assert!(
        told.contains(&says) && !told.contains("pays from 40 "),
        "{told}"
    );

    // The program was left with this one, and asks again.
    let everything = POLICY.replace(
        "65536, \"offload_from_rate\": null",
        "65536, \"offload_from_rate\": 0.0",
    );
    stage.write_policy(&everything);
    assert_eq!(stage.told("reload", &[]), "changed: policy\n");
    let before = stage.counted(by, "engine");
    stage.awaited("the engine reads all files", |stage| {
        fetch(&mut first, FURTHER);
        std::thread::sleep(Duration::from_millis(100));
        !is_disk || stage.counted(by, "engine") > before
    });

    // It is sent from all the time, and another policy changes what becomes of it all the same.
    stage
        .write_policy(&POLICY.replace("\"offload_from_rate\": 0.0", "\"offload_from_rate\": null"));
    assert_eq!(stage.told("reload", &[]), "changed: policy\n");
    assert!(stage.explained().contains(" and takes no files"));
    let before = stage.counted(by, "program");
    stage.awaited("the program reads all files", |stage| {
        fetch(&mut first, FURTHER);
        std::thread::sleep(Duration::from_millis(100));
        !is_disk || stage.counted(by, "program") > before
    });
    let read = stage.counted(by, "engine");
    fetch(&mut first, FURTHER);
    fetch(&mut first, LONG);
    assert_eq!(
        stage.counted(by, "engine"),
        read,
        "the engine takes none any more"
    );

    drop(first);
    let site = stage.site.clone();
    stage.server.stop(PATIENCE).expect("an end");
    stage.engine.stop(PATIENCE).expect("an end");
    std::fs::remove_dir_all(site).expect("there");
}
