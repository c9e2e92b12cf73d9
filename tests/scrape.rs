//! Metrics and health of an engine over HTTP, held against a strict reading of OpenMetrics 1.0.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Side, World};

const LIMIT: Duration = Duration::from_secs(60);

/// Each sample's value by its name and labels. Panics where the text is not OpenMetrics as far as
/// counters, gauges, histograms and infos go (specification, sections "Overall structure" and "Metric types").
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families: BTreeSet<&str> = BTreeSet::new();
    let mut family: Option<(&str, &str)> = None;
    let mut said: BTreeSet<&str> = BTreeSet::new();
    let mut histograms: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    assert!(text.ends_with("\n# EOF\n"), "the end is not marked");
    let body = text.strip_suffix("# EOF\n").expect("the mark");
    for line in body.lines() {
        assert!(!line.is_empty() && line.trim() == line, "{line:?}");
        if let Some(meta) = line.strip_prefix("# ") {
            let mut words = meta.splitn(3, ' ');
            let (kind, name) = (words.next().expect("a word"), words.next().expect("a name"));
            let rest = words.next().unwrap_or("");
            if family.is_none_or(|(current, _)| current != name) {
                assert!(families.insert(name), "{name} comes twice");
                family = Some((name, "unknown"));
                said.clear();
            }
            assert!(said.insert(kind), "{kind} of {name} twice");
            match kind {
                "TYPE" => {
                    assert!(
                        ["counter", "gauge", "info", "histogram"].contains(&rest),
                        "{line}"
                    );
                    family = Some((name, rest));
                }
                "HELP" => assert!(!rest.is_empty(), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, kind) = family.expect("a sample has a family");
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "info" => &["_info"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => panic!("{line}: its family has no type"),
        };
        let (expected, rest) = suffixes
            .iter()
            .filter_map(|suffix| {
                let name = format!("{name}{suffix}");
                let rest = line.strip_prefix(&name)?;
                rest.starts_with(['{', ' ']).then_some((name.clone(), rest))
            })
            .next()
            .unwrap_or_else(|| panic!("{line}"));
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        assert!(name.chars().all(legal) && !name.starts_with(|c: char| c.is_ascii_digit()));
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once("} ").expect("labels end"),
            None => ("", rest.strip_prefix(' ').expect("a space")),
        };
        let mut names = BTreeSet::new();
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(names.insert(label), "{line}: a label twice");
            assert!(!value.contains('\n'));
        }
        let number: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(kind == "gauge" || number >= 0.0, "{line}");
        let before = samples.insert(format!("{expected}{{{labels}}}"), number);
        assert!(before.is_none(), "{line} comes twice");
        if expected.ends_with("_bucket") && kind == "histogram" {
            let (limits, others): (Vec<&str>, Vec<&str>) = labels
                .split(',')
                .partition(|label| label.starts_with("le=\""));
            let [limit] = limits[..] else {
                panic!("{line}: one limit");
            };
            let limit = limit[4..].strip_suffix('"').expect("a limit");
            let others = others.join(",");
            let limit = match limit {
                "+Inf" => f64::INFINITY,
                limit => limit.parse().expect("a limit in seconds"),
            };
            let buckets = histograms.entry(format!("{name}|{others}")).or_default();
            if let Some((below, count)) = buckets.last() {
                assert!(*below < limit && *count <= number, "{line}: not cumulative");
            }
            buckets.push((limit, number));
        }
    }
    for (name, buckets) in histograms {
        let (name, labels) = name.split_once('|').expect("as it was put together");
        let (last, all) = *buckets.last().expect("not empty");
        assert!(last.is_infinite(), "{name} has no last bucket");
        assert_eq!(samples[&format!("{name}_count{{{labels}}}")], all);
        assert!(samples[&format!("{name}_sum{{{labels}}}")] >= 0.0);
        assert!(name.ends_with("_seconds"), "{name} says no unit");
    }
    samples
}

/// The metrics that the dashboard asks for.
fn dashboard() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/grafana.json");
    let text = std::fs::read_to_string(path).expect("a dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let queries = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let name = |word: &str| word.starts_with("outboard_").then(|| word.to_owned());
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names: BTreeSet<String> = queries
        .flat_map(|target| {
            target["expr"]
                .as_str()
                .expect("a query")
                .split(|c| !legal(c))
        })
        .filter_map(name)
        .collect();
    assert!(names.len() > 8, "{names:?}");
    names
}

#[test]
fn an_engine_is_scraped_and_its_health_is_asked_for() {
    let test = "an_engine_is_scraped_and_its_health_is_asked_for";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let settings = "[metrics]\nlisten = \"127.0.0.1:9464\"\n";
    let engine = outboard
        .start_engine_with(&world, settings)
        .expect("an engine");
    let get = |target: &str| -> String {
        world
            .on(Side::Server, || {
                let mut stream = TcpStream::connect("127.0.0.1:9464")?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer)?;
                Ok(answer)
            })
            .expect("an answer")
    };
    // A server that is asked for something, and one that is gone.
    let site = world.site(&[("index.html", b"hello\n")]).expect("a site");
    let own = Side::Server.ipv4();
    let serve = |port| outboard.start_serve(&world, &site, SocketAddr::new(own.into(), port));
    let _server = serve(8080).expect("a server");
    let gone = serve(8081).expect("a server");
    gone.stop(LIMIT).expect("an end");
    let accepts = format!("outboard_listener_accepts_total{{listener=\"{own}:8080\"}}");
    let body = |answer: String| answer.split_once("\r\n\r\n").expect("a head").1.to_owned();
    let before = parse(&body(get("/metrics")))[&accepts];
    world
        .on(Side::Client, || {
            for _ in 0..3 {
                let mut stream = TcpStream::connect((own, 8080))?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer)?;
                assert!(answer.ends_with("hello\n"), "{answer}");
            }
            Ok(())
        })
        .expect("answers");
    let health = get("/health");
    assert!(
        health.starts_with("HTTP/1.1 200") && health.ends_with("\r\n\r\nok\n"),
        "{health}"
    );
    let answer = get("/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    let samples = parse(body);
    assert!(
        samples
            .keys()
            .any(|name| name.starts_with("outboard_build_info{version="))
    );
    assert!(
        samples["outboard_process_cpu_seconds_total{}"] > 0.0,
        "{samples:#?}"
    );
    let of = |name: &str| {
        let sample = samples.get(name);
        *sample.unwrap_or_else(|| panic!("{name} is missing: {samples:#?}"))
    };
    let listener = format!("listener=\"{own}:8080\"");
    assert_eq!(of(&accepts), before + 3.0);
    assert_eq!(of(&format!("outboard_listener_waiting{{{listener}}}")), 0.0);
    let full = format!("{listener},reason=\"accept_queue_full\"");
    assert_eq!(
        of(&format!("outboard_listener_dropped_total{{{full}}}")),
        0.0
    );
    let denied = format!("{listener},reason=\"denied\"");
    assert_eq!(
        of(&format!("outboard_listener_dropped_total{{{denied}}}")),
        0.0
    );
    // What a worker and its device count is told of it.
    for name in [
        "rx_frames",
        "rx_batches",
        "tx_frames",
        "tx_large",
        "local_frames",
    ] {
        of(&format!("outboard_{name}_total{{worker=\"0\"}}"));
    }
    assert!(of("outboard_rx_frames_total{worker=\"0\"}") >= 3.0);
    assert!(of("outboard_queue_frames_total{queue=\"0\",worker=\"0\"}") >= 3.0);
    for sample in samples.keys() {
        let of_device = sample.starts_with("outboard_device_total");
        assert!(!of_device || sample.contains("worker=\"0\""), "{sample}");
    }
    assert!(!body.contains(":8081"), "what has ended is gone: {body}");
    let sessions = samples
        .keys()
        .filter(|name| name.starts_with("outboard_session_submissions"));
    assert_eq!(sessions.count(), 1, "{samples:#?}");
    for name in ["turn", "wake_up", "accept_wait", "tcp_round_trip"] {
        let name = format!("outboard_{name}_seconds_count{{worker=\"0\"}}");
        assert!(of(&name) >= 1.0, "{name}");
    }
    // What the dashboard shows is there.
    for name in dashboard() {
        let is_it = |sample: &String| sample.split('{').next() == Some(&name);
        assert!(
            samples.keys().any(is_it),
            "the dashboard shows {name}: {samples:#?}"
        );
    }
    // The same as by the command, which counts on meanwhile.
    let told = outboard
        .command(&world, "stats")
        .args(["--prometheus"])
        .output()
        .expect("stats");
    let names = |samples: &BTreeMap<String, f64>| samples.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&parse(&told)), names(&samples));
    assert!(get("/").starts_with("HTTP/1.1 404"));
    // Who says nothing keeps nobody else from it.
    let idle: Vec<TcpStream> = world
        .on(Side::Server, || {
            (0..5)
                .map(|_| Ok(TcpStream::connect("127.0.0.1:9464")?))
                .collect()
        })
        .expect("connections");
    assert!(get("/health").contains("200 OK"));
    drop(idle);
    // The same for people: a line each time, where there is no terminal.
    let top = outboard
        .command(&world, "top")
        .args(["-n", "3", "--interval", "100ms"]);
    let said = top.output().expect("top");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(
        lines[0].contains("accept/s") && !said.contains('\x1b'),
        "{said}"
    );
    engine.stop(LIMIT).expect("an end");
}
