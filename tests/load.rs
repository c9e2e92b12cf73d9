//! `outboard load` against servers as people run them, in a private network. Every body is held
//! against the file that it must be.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::outboard::Outboard;
use lab::{Process, Side, World};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// Sizes of the files of the site: within a segment, just beyond it, and of many.
const SIZES: [usize; 5] = [0, 1, 1400, 5000, 300_000];

/// Files that look like nothing, named by their sizes.
fn site(world: &World) -> PathBuf {
    let site = world.scratch().join("site");
    std::fs::create_dir_all(&site).expect("a directory");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for size in SIZES {
        let bytes: Vec<u8> = (0..size.div_ceil(8))
            .flat_map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            })
            .take(size)
            .collect();
        std::fs::write(site.join(size.to_string()), bytes).expect("a file");
    }
    // Servers that drop their rights must be able to read it.
    for path in [world.scratch(), &site] {
        use std::os::unix::fs::PermissionsExt;
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, readable).expect("rights");
    }
    site
}

/// What `outboard load` says of itself, as JSON.
fn load(world: &World, arguments: &[&str]) -> Value {
    let log = world.scratch().join("load.log");
    let mut client = world
        .program(Side::Client, BINARY)
        .arg("load")
        .args(arguments)
        // Time enough for what is late: nothing else ends the wait for an answer.
        .args(["--json", "--grace", "60s"])
        .log(&log)
        .start()
        .expect("a client");
    client.wait(3 * LIMIT).expect("an end");
    let text = client.printed();
    let json = text.find('{').map_or("", |at| &text[at..]);
    // A remark may follow it.
    serde_json::Deserializer::from_str(json)
        .into_iter()
        .next()
        .and_then(Result::ok)
        .unwrap_or_else(|| panic!("no JSON: {text}"))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name]
        .as_u64()
        .or_else(|| value["counters"][name].as_u64())
        .unwrap_or_else(|| panic!("no {name} in {value:#}"))
}

/// Asks for every file, each body being held against the file; `loss` is whether any is expected.
fn ask_for_everything(world: &World, site: &Path, server: &str, further: &[&str], count: u64) {
    let first = format!("http://{server}/{}", SIZES[0]);
    let verify = format!("--verify={}", site.display());
    let paths: Vec<String> = SIZES[1..]
        .iter()
        .flat_map(|size| ["--path".to_owned(), format!("/{size}")])
        .collect();
    let count_text = count.to_string();
    let mut arguments = vec![first.as_str(), &verify, "-n", &count_text];
    arguments.extend(paths.iter().map(String::as_str));
    arguments.extend(further);
    let said = load(world, &arguments);
    assert_eq!(number(&said, "requests"), count, "{said:#}");
    assert_eq!(number(&said, "status_2xx"), count, "{said:#}");
    for name in [
        "errors",
        "bodies_wrong",
        "not_http",
        "outstanding",
        "malformed",
    ] {
        assert_eq!(number(&said, name), 0, "{name}: {said:#}");
    }
    assert_eq!(said["latency"]["count"], count, "{said:#}");
}

/// All ways to make and to end connections.
fn ask_in_every_way(world: &World, site: &Path, server: &str) {
    for further in [
        &["-c", "8"][..],
        &["-c", "8", "--close"],
        &["-c", "8", "--close", "--finish", "client"],
        &["-c", "8", "-k", "7", "--finish", "client"],
        &["-c", "8", "-k", "7", "--finish", "reset"],
        &["-c", "8", "-k", "7"],
        &["-R", "2000", "-c", "20"],
        &["--conn-rate", "500", "-k", "3"],
    ] {
        ask_for_everything(world, site, server, further, 600);
    }
}

#[test]
fn nginx_is_loaded_in_every_way_and_every_body_is_right() {
    let test = "nginx_is_loaded_in_every_way_and_every_body_is_right";
    if lab::skip_without(test, &["nginx"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = site(&world);
    let nginx = lab::nginx::Nginx::start(&world, None, &site, None).expect("nginx");
    ask_in_every_way(&world, &site, "10.77.0.1");
    ask_for_everything(&world, &site, "[fd77::1]", &["-c", "8", "-k", "5"], 300);
    nginx.stop().expect("an end");
}

#[test]
fn the_engine_is_loaded_in_every_way_and_every_body_is_right() {
    let test = "the_engine_is_loaded_in_every_way_and_every_body_is_right";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = site(&world);
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard.start_engine(&world, None).expect("an engine");
    let address = (Side::Server.ipv4(), 8000).into();
    let _server = outboard
        .start_serve(&world, &site, address)
        .expect("a server");
    ask_in_every_way(&world, &site, "10.77.0.1:8000");
}

/// Starts a server on the server's side and waits until clients reach port 80.
fn start(world: &World, name: &str, arguments: &[&str]) -> Process {
    let mut server = world
        .program(Side::Server, name)
        .args(arguments)
        .log(world.scratch().join(format!("{name}.log")))
        .start()
        .expect(name);
    server
        .wait_until(LIMIT, || world.is_reached((Side::Server.ipv4(), 80).into()))
        .expect(name);
    server
}

#[test]
fn apache_is_loaded_in_every_way_and_every_body_is_right() {
    let test = "apache_is_loaded_in_every_way_and_every_body_is_right";
    if lab::skip_without(test, &["apache2"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = site(&world);
    let here = world.scratch().display();
    let configuration = world.scratch().join("apache.conf");
    let modules = "/usr/lib/apache2/modules";
    std::fs::write(
        &configuration,
        format!(
            "LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
             LoadModule authz_core_module {modules}/mod_authz_core.so\n\
             ServerRoot {here}\nPidFile {here}/apache.pid\nErrorLog {here}/apache.err\n\
             DefaultRuntimeDir {here}\nServerName server\nListen 0.0.0.0:80\n\
             ThreadLimit 512\nThreadsPerChild 512\nMaxRequestWorkers 512\n\
             KeepAlive On\nMaxKeepAliveRequests 50\nDocumentRoot {}\n\
             <Directory {}>\nRequire all granted\n</Directory>\n",
            site.display(),
            site.display()
        ),
    )
    .expect("a file");
    let configuration = configuration.display().to_string();
    let server = start(&world, "apache2", &["-f", &configuration, "-X"]);
    // After 50 requests it closes a connection of itself: others take over, and nothing is lost.
    // Its threads are as many as connections ever are, because where they are not it also closes
    // connections that a request is under way to.
    ask_in_every_way(&world, &site, "10.77.0.1");
    server.stop(LIMIT).expect("an end");
}

#[test]
fn haproxy_is_loaded_in_every_way_and_every_body_is_right() {
    let test = "haproxy_is_loaded_in_every_way_and_every_body_is_right";
    if lab::skip_without(test, &["haproxy", "nginx"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = site(&world);
    let nginx = lab::nginx::Nginx::start(&world, None, &site, None).expect("nginx");
    let configuration = world.scratch().join("haproxy.cfg");
    std::fs::write(
        &configuration,
        "global\n  maxconn 2000\ndefaults\n  mode http\n  timeout connect 60s\n  timeout client 300s\n  \
         timeout server 300s\nfrontend f\n  bind 10.77.0.1:81\n  default_backend b\nbackend b\n  \
         server s 10.77.0.1:80\n",
    )
    .expect("a file");
    let configuration = configuration.display().to_string();
    let mut proxy = start(&world, "haproxy", &["-db", "-f", &configuration]);
    proxy
        .wait_until(LIMIT, || world.is_reached((Side::Server.ipv4(), 81).into()))
        .expect("a proxy");
    ask_in_every_way(&world, &site, "10.77.0.1:81");
    proxy.stop(LIMIT).expect("an end");
    nginx.stop().expect("an end");
}

/// Starts `outboard respond` on the server's side, and waits until it is at work.
fn respond(world: &World, further: &[&str]) -> Process {
    Outboard::new(Path::new(BINARY), world)
        .start_respond(world, further)
        .expect("a responder")
}

#[test]
fn the_responder_is_loaded_in_every_way_without_a_loss() {
    let test = "the_responder_is_loaded_in_every_way_without_a_loss";
    if lab::skip_without(test, &[]) {
        return;
    }
    for (mode, url) in [
        ("xdp", "http://10.77.0.1/?s=64"),
        ("afxdp", "http://10.77.0.1/?s=20000"),
        ("xdp", "http://[fd77::1]/?s=300"),
    ] {
        let world = World::new().expect("a private network");
        let responder = respond(&world, &["--mode", mode]);
        for further in [
            &["-c", "16"][..],
            &["-c", "16", "--close"],
            &["-c", "16", "-k", "10", "--finish", "client"],
            &["--conn-rate", "2000", "-k", "2"],
            &["-R", "5000", "-c", "50"],
        ] {
            let mut arguments = vec![url, "--verify", "-n", "3000"];
            arguments.extend(further);
            let said = load(&world, &arguments);
            assert_eq!(
                number(&said, "requests"),
                3000,
                "{mode} {further:?} {said:#}"
            );
            for name in ["errors", "bodies_wrong", "outstanding"] {
                assert_eq!(
                    number(&said, name),
                    0,
                    "{mode} {further:?} {name}: {said:#}"
                );
            }
        }
        responder.stop(LIMIT).expect("an end");
    }
}

#[test]
fn a_quarter_of_a_million_connections_cost_neither_end_memory() {
    let test = "a_quarter_of_a_million_connections_cost_neither_end_memory";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let mut responder = respond(&world, &[]);
    let memory = |process: &mut Process| {
        lab::sampler::private_memory(process.id()).expect("a process that runs")
    };
    let before = memory(&mut responder);
    let mut client = world
        .program(Side::Client, BINARY)
        .args(["load", "http://10.77.0.1/?s=64", "--close", "-c", "64"])
        .args(["-n", "250000"])
        .log(world.scratch().join("load.log"))
        .start()
        .expect("a client");
    let mut seen = Vec::new();
    let begin = Instant::now();
    while client.ended().expect("a state").is_none() {
        assert!(begin.elapsed() < 3 * LIMIT, "{}", client.printed());
        // After its first second it says how far it is, and everything is there that will be.
        if client.printed().lines().count() > 1 {
            // The process can end between the question and the answer.
            let pid = client_of(&world);
            seen.extend(pid.and_then(|pid| lab::sampler::private_memory(pid).ok()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let said = client.printed();
    assert!(
        said.contains("250000 requests and 250000 connections"),
        "{said}"
    );
    assert!(
        memory(&mut responder) < before + (1 << 20),
        "the responder grows"
    );
    // A client that is done within a second is not seen, and has not grown for long.
    if let (Some(early), Some(late)) = (seen.first(), seen.iter().max()) {
        assert!(
            *late < early + (1 << 20),
            "{early} bytes have become {late}"
        );
    }
}

/// The load client that runs in this world.
fn client_of(world: &World) -> Option<u32> {
    let name = world.name(Side::Client);
    let pids = lab::tool::run(&format!("ip netns pids {name}")).ok()?;
    pids.lines()
        .filter_map(|line| line.trim().parse().ok())
        .next()
}

#[test]
fn many_connections_are_held_in_the_memory_of_the_window() {
    if lab::skip_without("many_connections_are_held_in_the_memory_of_the_window", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    // Nobody listens there: the kernel refuses each, which is enough of an answer.
    let said = load(
        &world,
        &[
            "http://10.77.0.1:9/",
            "-c",
            "1000",
            "--close",
            "-d",
            "4s",
            "-S",
            "10.77.0.2",
        ],
    );
    let (refused, memory) = (number(&said, "refused"), number(&said, "ledger_bytes"));
    assert!(refused > 1000, "{said:#}");
    assert!(
        memory <= 1 << 20,
        "{memory} bytes, whatever the number of connections"
    );
}

#[test]
fn what_should_not_be_aimed_at_is_refused() {
    if lab::skip_without("what_should_not_be_aimed_at_is_refused", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let said = |url: &str| {
        let log = world.scratch().join("refused.log");
        let mut client = world
            .program(Side::Client, BINARY)
            .args(["load", url, "-d", "1s"])
            .log(&log)
            .start()
            .expect("a client");
        let status = client.wait(LIMIT).expect("an end");
        assert!(!status.success());
        client.printed()
    };
    assert!(said("http://10.77.0.2/").contains("own address"));
    assert!(said("http://203.0.113.1/").contains("no route"));
    lab::tool::run(&format!(
        "ip -n {} route add default via 10.77.0.1",
        world.name(Side::Client)
    ))
    .expect("a route");
    let refused = said("http://203.0.113.1/");
    assert!(refused.contains("--yes-i-own-this-network"), "{refused}");
}
