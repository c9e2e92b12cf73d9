//! What else `outboard load` can be told, and what it then says: searching for a rate, lines as
//! CSV, a plot, sockets, a bar on a terminal, the responder's counters, and mistakes.

#[path = "load_options/failures.rs"]
mod failures;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::{Process, Side, World};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const MIDDLE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

/// Runs `outboard load`; whether it succeeded, and what it printed, errors included.
fn load(world: &World, arguments: &[&str]) -> (bool, String) {
    run(world, BINARY, &[&["load"], arguments].concat())
}

fn run(world: &World, program: &str, arguments: &[&str]) -> (bool, String) {
    let mut client = world
        .program(Side::Client, program)
        .args(arguments)
        .log(world.scratch().join("load.log"))
        .start()
        .expect("a client");
    let status = client.wait(3 * LIMIT).expect("an end");
    (status.success(), client.printed())
}

fn json(text: &str) -> Value {
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::Deserializer::from_str(json)
        .into_iter()
        .next()
        .and_then(Result::ok)
        .unwrap_or_else(|| panic!("no JSON: {text}"))
}

/// Starts `outboard respond --json`, whose lines are added to a file, and waits until it is at work.
fn respond(world: &World, further: &str) -> (Process, PathBuf) {
    let log = world.scratch().join("respond.json");
    let before = std::fs::metadata(&log).map_or(0, |file| file.len());
    let command = format!(
        "exec {BINARY} respond -i {} -L :80 --json {further} >>{}",
        Side::Server.interface(),
        log.display()
    );
    let mut responder = world
        .program(Side::Server, "sh")
        .args(["-c", &command])
        .log(world.scratch().join("respond.log"))
        .start()
        .expect("a responder");
    responder
        .wait_until(LIMIT, || {
            std::fs::metadata(&log).is_ok_and(|file| file.len() > before)
        })
        .expect("a responder");
    (responder, log)
}

#[test]
fn the_search_ends_at_the_highest_rate_that_passes() {
    let test = "the_search_ends_at_the_highest_rate_that_passes";
    if lab::skip_without(test, &["nft"]) {
        return;
    }
    let world = World::with_middle().expect("a private network");
    world.route_in_middle(MIDDLE).expect("a router");
    let nft = |line: &str| {
        let nft = world.program_in_middle("nft").expect("a middle");
        nft.args(line.split(' ')).output().expect("nft");
    };
    // A device that takes no more than so many connections of a run, however fast they come: what
    // begins from the ports that the first so many of the same seed begin from.
    nft("add table ip limiter");
    nft("add set ip limiter first { type inet_service ; size 65535 ; flags dynamic ; }");
    nft("add chain ip limiter pass { type filter hook forward priority 0 ; }");
    let syn = "ip limiter pass tcp flags & (syn|ack) == syn";
    nft(&format!("add rule {syn} add @first {{ tcp sport }}"));
    let (responder, _) = respond(&world, "--mode afxdp");
    let asked = ["http://10.77.0.1/?s=64", "--close", "--seed", "7"];
    let (learned, said) = load(&world, &[&asked[..], &["-n", "250"]].concat());
    assert!(learned, "{said}");
    nft("flush chain ip limiter pass");
    nft(&format!("add rule {syn} tcp sport != @first drop"));
    let search = |from: &str, expected: &str| {
        let search = ["--search", "--json", "--trial", "500ms", "--grace", "500ms"];
        let rates = ["--conn-rate", from, "--expect", expected];
        let (passed, said) = load(&world, &[&asked[..], &search, &rates].concat());
        (passed, json(&said))
    };
    // Half a second of 500 a second is what passes.
    let expected = 500.0 / 1.05..=500.0;
    let (passed, said) = search("100", "100");
    assert!(passed, "{said:#}");
    assert_eq!(said["passed"], true);
    let best = said["rate_without_loss"].as_f64().expect("a rate");
    assert!(expected.contains(&best), "{said:#}");
    let trials = said["trials"].as_array().expect("trials");
    let carried = |trial: &&Value| trial["carried"] == true;
    let highest = trials.iter().filter(carried).map(|t| t["rate"].as_f64());
    assert_eq!(highest.flatten().fold(0.0, f64::max), best, "{said:#}");
    assert!(trials.iter().any(|trial| !carried(&trial)), "{said:#}");

    // From above, and too much asked for.
    let (passed, said) = search("8000", "8000");
    assert!(!passed, "{said:#}");
    assert_eq!(said["passed"], false);
    let best = said["rate_without_loss"].as_f64().expect("a rate");
    assert!(expected.contains(&best), "{said:#}");
    responder.stop(LIMIT).expect("an end");
}

#[test]
fn the_search_fails_where_nothing_answers() {
    if lab::skip_without("the_search_fails_where_nothing_answers", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (passed, said) = load(
        &world,
        &[
            "http://10.77.0.1:9/",
            "--close",
            "--search",
            "--trial",
            "200ms",
            "--grace",
            "200ms",
            "--expect",
            "10",
        ],
    );
    assert!(!passed, "{said}");
    assert!(said.contains("FAIL: 10/s was expected"), "{said}");
}

#[test]
fn lines_of_seconds_and_a_plot_are_written() {
    if lab::skip_without("lines_of_seconds_and_a_plot_are_written", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (responder, _) = respond(&world, "");
    let plot = world.scratch().join("run.svg");
    let plot = plot.display().to_string();
    let (succeeded, said) = load(
        &world,
        &[
            "http://10.77.0.1/?s=64",
            "--close",
            "--conn-rate",
            "500",
            "-n",
            "1250",
            "--csv",
            "--plot",
            &plot,
        ],
    );
    assert!(succeeded, "{said}");
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][0], "seconds", "{said}");
    // Three, unless the machine stood still over the end of one.
    assert!(lines.len() >= 2, "{said}");
    assert!(lines.iter().all(|line| line.len() == 14), "{said}");
    let column = |name: &str| lines[0].iter().position(|one| *one == name).expect(name);
    let number = |line: &[&str], name: &str| line[column(name)].parse::<f64>().expect("a number");
    let mut before = 0.0;
    for line in &lines[1..] {
        assert!(number(line, "seconds") > before, "{said}");
        before = number(line, "seconds");
        assert_eq!(number(line, "errors"), 0.0, "{said}");
        assert!(number(line, "latency_p99_us") >= number(line, "latency_p50_us"));
    }
    let last = lines.last().expect("a line");
    // One every two milliseconds, for two seconds and a half.
    assert_eq!(number(last, "requests"), 1250.0, "{said}");

    let svg = std::fs::read_to_string(&plot).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in [
        "requests",
        "connections",
        "median",
        "99 %",
        "Time (s)",
        "Latency (ms)",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    // Nothing in it is told by colour alone.
    for colour in svg.split('#').skip(1).filter_map(|rest| rest.get(..6)) {
        let grey = colour[..2] == colour[2..4] && colour[2..4] == colour[4..];
        let is_colour = colour.chars().all(|c| c.is_ascii_hexdigit());
        assert!(!is_colour || grey, "#{colour}");
    }
    let (succeeded, said) = load(
        &world,
        &[
            "http://10.77.0.1/",
            "-n",
            "100",
            "--plot",
            "/nowhere/run.svg",
        ],
    );
    assert!(
        !succeeded && said.contains("--plot /nowhere/run.svg"),
        "{said}"
    );
    assert!(!said.contains("requests and"), "before the run: {said}");
    responder.stop(LIMIT).expect("an end");
}

/// A server of the kernel's that notes what it is asked for, and answers everything.
fn recorder(world: &World) -> Arc<Mutex<Vec<String>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let listener = world
        .on(Side::Server, || {
            Ok(TcpListener::bind((Side::Server.ipv4(), 80))?)
        })
        .expect("a listener");
    let notes = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let notes = Arc::clone(&notes);
            std::thread::spawn(move || answer(stream, &notes));
        }
    });
    asked
}

fn answer(stream: TcpStream, notes: &Mutex<Vec<String>>) {
    let mut writer = stream.try_clone().expect("a descriptor");
    let mut request = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if !line.is_empty() {
            request += &line;
            request.push('\n');
            continue;
        }
        let close = request.contains("Connection: close");
        notes
            .lock()
            .expect("notes")
            .push(std::mem::take(&mut request));
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        if writer.write_all(answer.as_bytes()).is_err() || close {
            return;
        }
    }
}

#[test]
fn sockets_ask_for_the_same() {
    if lab::skip_without("sockets_ask_for_the_same", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let asked = recorder(&world);
    for further in [&["-R", "500"][..], &["--close", "--conn-rate", "500"]] {
        asked.lock().expect("notes").clear();
        let mut arguments = vec![
            "http://10.77.0.1/a",
            "--sockets",
            "--json",
            "--grace",
            "60s",
            "-c",
            "4",
            "-n",
            "200",
            "-H",
            "X-Test: yes",
            "--path",
            "/b*3",
        ];
        arguments.extend(further);
        let (succeeded, said) = load(&world, &arguments);
        assert!(succeeded, "{said}");
        let said = json(&said);
        assert_eq!(said["requests"], 200, "{said:#}");
        assert_eq!(said["errors"], 0, "{said:#}");
        assert_eq!(said["latency"]["count"], 200, "{said:#}");
        let asked = asked.lock().expect("notes");
        assert_eq!(asked.len(), 200);
        assert!(
            asked
                .iter()
                .all(|request| request.contains("\nX-Test: yes\n"))
        );
        assert!(
            asked
                .iter()
                .all(|request| request.contains("\nHost: 10.77.0.1\n"))
        );
        let of = |path: &str| {
            let begins = format!("GET {path} HTTP/1.1\n");
            asked.iter().filter(|one| one.starts_with(&begins)).count()
        };
        assert_eq!(of("/a") + of("/b"), 200);
        assert!((20..90).contains(&of("/a")), "{} of 200", of("/a"));
        let closing = asked.iter().filter(|one| one.contains("Connection: close"));
        let expected = if further.len() == 2 { 0 } else { 200 };
        assert_eq!(closing.count(), expected);
    }
    // On this machine, too, where packets of our own do not go.
    let (succeeded, said) = load(
        &world,
        &["http://10.77.0.2:1/", "--sockets", "-R", "100", "-n", "10"],
    );
    assert!(!succeeded && said.contains("10.77.0.2:1"), "{said}");
}

#[test]
fn users_ask_have_their_answers_and_ask_again() {
    if lab::skip_without("users_ask_have_their_answers_and_ask_again", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let asked = recorder(&world);
    let arguments = |further: &[&'static str]| {
        let common = [
            "http://10.77.0.1/a",
            "--path",
            "/b*3",
            "--users",
            "400",
            "-c",
            "100",
            "-d",
            "2s",
            "--seed",
            "7",
            "--grace",
            "60s",
        ];
        [&common[..], further].concat()
    };
    let (succeeded, said) = load(&world, &arguments(&["--json"]));
    assert!(succeeded, "{said}");
    let said = json(&said);
    assert_eq!(said["users"], 400, "{said:#}");
    assert_eq!(said["seed"], 7, "{said:#}");
    assert_eq!(said["errors"], 0, "{said:#}");
    let requests = said["requests"].as_u64().expect("a number");
    assert_eq!(said["connections"], requests, "{said:#}");
    assert_eq!(said["latency"]["count"], requests, "{said:#}");
    {
        let asked = asked.lock().expect("notes");
        assert_eq!(asked.len() as u64, requests);
        assert!(asked.iter().all(|one| one.contains("Connection: close")));
        let of = |path: &str| {
            let begins = format!("GET {path} HTTP/1.1\n");
            asked.iter().filter(|one| one.starts_with(&begins)).count()
        };
        assert_eq!(of("/a") + of("/b"), asked.len());
        assert!(of("/b") > of("/a") && of("/a") > 0, "{} of /a", of("/a"));
    }
    let (succeeded, said) = load(&world, &arguments(&[]));
    assert!(succeeded, "{said}");
    for part in ["400 users, who had an answer every ", "Seed 7 (repeat"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_terminal_gets_a_bar() {
    let test = "a_terminal_gets_a_bar";
    if lab::skip_without(test, &["script"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (responder, _) = respond(&world, "");
    let command = format!("{BINARY} load http://10.77.0.1/?s=64 --close --conn-rate 200 -n 500");
    let (succeeded, said) = run(&world, "script", &["-qec", &command, "/dev/null"]);
    assert!(succeeded, "{said}");
    let bar = said.find('█').unwrap_or_else(|| panic!("no bar: {said}"));
    // At whatever rate it happened to be.
    let is_rate = |text: &str| {
        let rate = text.split_once(" req/s").map(|(rate, _)| rate.parse());
        rate.is_some_and(|rate| rate.is_ok_and(|rate: f64| rate > 0.0))
    };
    assert!(said[bar..].split("% ").any(is_rate), "{said}");
    // It is gone when the summary comes.
    let summary = said
        .find("500 requests and 500 connections")
        .expect("a summary");
    assert!(!said[summary..].contains('█'), "{said}");
    // Without a terminal there is none.
    let (_, said) = load(&world, &["http://10.77.0.1/?s=64", "-n", "10"]);
    assert!(!said.contains('█'), "{said}");
    responder.stop(LIMIT).expect("an end");
}

#[test]
fn both_ends_are_compared_by_the_last_line_of_a_long_file() {
    let test = "both_ends_are_compared_by_the_last_line_of_a_long_file";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    // What a responder of yesterday said: more than is read.
    let old = "{\"counters\": {\"syns\": 900000, \"requests\": 900000, \"fins\": 900000}}\n";
    let file = world.scratch().join("respond.json");
    std::fs::write(&file, old.repeat((2 << 20) / old.len())).expect("a file");
    let (responder, log) = respond(&world, "--witness");
    assert_eq!(file, log);
    let log = log.display().to_string();
    for further in [&["--close"][..], &["-k", "10"]] {
        let mut arguments = vec![
            "http://10.77.0.1/?s=64",
            "-c",
            "8",
            "-n",
            "1000",
            "--json",
            "--responder-json",
            &log,
        ];
        arguments.extend(further);
        let (_, said) = load(&world, &arguments);
        let said = json(&said);
        let between = &said["between"];
        let steps = between["steps"].as_array().expect("steps");
        let names: Vec<_> = steps.iter().map(|step| step["step"].as_str()).collect();
        assert_eq!(
            names,
            ["SYN", "request", "FIN", "SYN-ACK", "response"].map(Some),
            "{said:#}"
        );
        for step in steps {
            assert_eq!(step["lost"], 0, "{said:#}");
            assert_eq!(step["sent"], step["received"], "{said:#}");
        }
        assert_eq!(steps[1]["sent"], 1000, "{said:#}");
        let rewritten = &between["rewritten"];
        assert_eq!(rewritten["syns_compared"], 64, "{said:#}");
        assert_eq!(rewritten["syns_strange"], 0, "{said:#}");
        // A wire rewrites nothing.
        assert_eq!(rewritten["changes"], Value::Array(Vec::new()), "{said:#}");
    }
    let (_, said) = load(
        &world,
        &["http://10.77.0.1/", "-n", "10", "--responder-json", &log],
    );
    assert!(said.contains("Nothing was lost between them"), "{said}");
    assert!(said.contains("  nothing: addresses, ports"), "{said}");
    let gone = Path::new("/nowhere/respond.json").display().to_string();
    let (succeeded, said) = load(
        &world,
        &["http://10.77.0.1/", "-n", "10", "--responder-json", &gone],
    );
    assert!(!succeeded && said.contains(&gone), "{said}");
    responder.stop(LIMIT).expect("an end");
}

#[test]
fn a_last_line_of_milliseconds_has_no_rates() {
    if lab::skip_without("a_last_line_of_milliseconds_has_no_rates", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (responder, _) = respond(&world, "");
    let load = |more: &[&str]| {
        let arguments = [
            "http://10.77.0.1/?s=64",
            "--close",
            "--conn-rate",
            "200",
            "-n",
            "220",
        ];
        let (succeeded, said) = load(&world, &[&arguments[..], more].concat());
        assert!(succeeded, "{said}");
        said
    };
    // 1.1 seconds; unless the machine stood still, the rest is a tenth.
    let said = load(&["--csv"]);
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split(',').collect()).collect();
    let seconds = |line: &[&str]| line[0].parse::<f64>().expect("seconds");
    assert!(
        lines.iter().all(|line| line.len() == lines[0].len()),
        "{said}"
    );
    if let [.., before, last] = &lines[1..] {
        let is_short = seconds(last) - seconds(before) < 0.5;
        assert_eq!(
            last[7..10].iter().all(|rate| rate.is_empty()),
            is_short,
            "{said}"
        );
        assert!(before[7..10].iter().all(|rate| !rate.is_empty()), "{said}");
    }
    let said = json(&load(&["--json"]));
    let all = said["per_second"].as_array().expect("seconds");
    for two in all.windows(2) {
        let lasted = |one: &Value| one["seconds"].as_f64().expect("seconds");
        assert!(lasted(&two[1]) - lasted(&two[0]) >= 0.5, "{said:#}");
    }
    let said = load(&[]);
    assert!(said.contains(" mean ") && !said.contains("ttfb"), "{said}");
    responder.stop(LIMIT).expect("an end");
}
