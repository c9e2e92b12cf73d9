//! `outboard plan` as its users call it: from flags, files, measurements and a running engine, in
//! words, as tables, CSV, JSON, SVG and policy, and what it says when it refuses.
#![forbid(unsafe_code)]

#[path = "plan/beside.rs"]
mod beside;
#[path = "plan/calls.rs"]
mod calls;
#[path = "plan/headline.rs"]
mod headline;

use calls::{Scratch, close, has, refuses, says};
use serde_json::Value;
use std::path::Path;

/// Exponential times of which the host's alone are 130 µs, and the stages of the engine 60 and 70.
const FLAGS: [&str; 8] = ["-a", "50us", "-p", "80us", "-o", "10us", "-e", "70us"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    FLAGS.iter().chain(more).copied().collect()
}

#[test]
fn flags_give_a_verdict_first_and_then_a_table() {
    let text = says(&with(&["--rates", "500..7000"]));
    assert!(text.starts_with("Offload from ") || text.starts_with("Offload everything"));
    has(
        &text,
        &[
            "Saturation: 7692 requests a second without engine; 14286 with everything offloaded",
            "where the engine saturates first",
            "instead of",
            "for CPU below 80.0 µs",
            "Inputs: flags",
            "load/s",
        ],
    );
    // The first and the last load of the range are in the table.
    assert!(text.lines().any(|line| line.starts_with("500 ")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("7000 ")), "{text}");
}

#[test]
fn json_carries_what_the_formulas_give() {
    let text = says(&with(&["-r", "5000", "--json"]));
    let answer: Value = serde_json::from_str(&text).unwrap();
    // Pollaczek–Khinchin by hand: E[S²] = 2(a² + p² + ap) = 2.58e-8, ρ = 0.65.
    let host = &answer["points"][0]["host"];
    assert!(close(&host["host_utilisation"], 0.65));
    assert!(close(
        &host["delay"],
        130e-6 + 5000.0 * 2.58e-8 / 2.0 / 0.35
    ));
    assert!(close(
        &host["waiting"],
        5000.0 * 5000.0 * 2.58e-8 / 2.0 / 0.35
    ));
    assert!(close(
        &host["classes"][0]["waiting"],
        host["waiting"].as_f64().unwrap()
    ));
    assert!(close(
        &answer["points"][0]["engine"]["engine_utilisation"],
        0.35
    ));
    assert!(close(&answer["saturation_with_engine"], 1.0 / 70e-6));
    assert!(close(&answer["overhead_bounds"]["cpu"], 80e-6));
}

#[test]
fn csv_has_a_line_for_each_load_system_and_class() {
    let text = says(&with(&["-r", "1000..12000", "--csv"]));
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == columns), "{text}");
    let loads = rows.iter().filter(|row| row[1] == "host" && row[2] == "*");
    assert!(loads.count() >= 25);
    // Beyond its saturation a system has no figures.
    let last = rows.iter().rfind(|row| row[1] == "host").unwrap();
    assert_eq!((last[0], last[4]), ("12000", ""));
}

#[test]
fn a_file_with_classes_gives_a_placement_a_picture_and_a_policy() {
    let scratch = Scratch::new("file");
    let (svg, json) = (
        scratch.path("plan.svg"),
        scratch.file("policy.json", "before"),
    );
    // Whoever reads the one that was there goes on reading that.
    let before = scratch.path("before.json");
    std::fs::hard_link(&json, &before).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plan.toml");
    let text = says(&[
        "--from",
        example.to_str().unwrap(),
        "--plot",
        &svg,
        "--policy",
        &json,
        "--simulate",
        "1",
    ]);
    has(
        &text,
        &[
            "Offload large; leave the rest to the host.",
            "small        not offloaded at any load",
            "large        offload from the lightest load on",
            "requests simulated",
            "offloaded large:",
        ],
    );
    assert_eq!(std::fs::read_to_string(before).unwrap(), "before");
    let written = std::fs::read_to_string(&json).unwrap();
    // What is only another name for it stays one.
    let name = scratch.path("name.json");
    std::os::unix::fs::symlink(&json, &name).unwrap();
    says(&["--from", example.to_str().unwrap(), "--policy", &name]);
    assert!(Path::new(&name).is_symlink());
    assert_eq!(std::fs::read_to_string(&json).unwrap(), written);
    let policy: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(policy["rules"][0]["up_to_bytes"], 1024);
    assert_eq!(policy["rules"][0]["offload_from_rate"], Value::Null);
    assert_eq!(policy["above"]["offload_from_rate"], 0.0);
    let policy = policy::Policy::parse(&written).unwrap();
    // Most requests are small, and wait for the large ones unless all of them are offloaded.
    assert!(policy.offload_connections(3000.0));
    assert!(policy.offload(1 << 20, 3000.0) && !policy.offload(100, 3000.0));

    let picture = std::fs::read_to_string(svg).unwrap();
    let words = svg_texts(&picture);
    for expected in [
        "Utilisation",
        "Delay",
        "requests a second",
        "busy share of the cores, %",
        "without engine",
        "best placement",
        "host saturates",
    ] {
        assert!(words.iter().any(|word| word == expected), "{words:?}");
    }
    // Readable in black and white: no colour, but lines, dashes, circles and crosses.
    assert!(picture.matches("<circle").count() > 20);
    for colour in svg_colours(&picture) {
        let rgb = colour.trim_start_matches('#');
        assert!(rgb[..2] == rgb[2..4] && rgb[2..4] == rgb[4..], "{colour}");
    }
}

/// The texts of an SVG, which has to be well-formed as far as its tags go.
fn svg_texts(picture: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    let mut rest = picture;
    while let Some(start) = rest.find('<') {
        if open.last() == Some(&"text") {
            texts.push(rest[..start].trim().to_string());
        }
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split_whitespace().next();
        let name = name.expect("a tag has a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} never end");
    assert!(picture.contains("<svg"));
    texts.retain(|text| !text.is_empty());
    texts
}

fn svg_colours(picture: &str) -> Vec<&str> {
    let colours = picture.match_indices("=\"#");
    colours.map(|(at, _)| &picture[at + 2..at + 9]).collect()
}

#[test]
fn the_load_is_named_from_which_offloading_pays() {
    let scratch = Scratch::new("turn");
    let json = scratch.path("policy.json");
    let slow = ["-a", "50us", "-p", "80us", "-o", "10us", "-e", "100us"];
    let text = says(&[&slow[..], &["--policy", &json]].concat());
    let rate: f64 = text
        .strip_prefix("Offload from ")
        .and_then(|rest| rest.split(' ').next())
        .and_then(|rate| rate.parse().ok())
        .unwrap_or_else(|| panic!("{text}"));
    // Found, not read off a grid: there both delays are equal to a thousandth or so.
    let at = format!("{rate}");
    let answer = says(&[&slow[..], &["-r", &at, "--json"]].concat());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let delay = |system: &str| answer["points"][0][system]["delay"].as_f64().unwrap();
    assert!((delay("host") / delay("engine") - 1.0).abs() < 2e-3, "{at}");
    let policy: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let from = policy["above"]["offload_from_rate"].as_f64().unwrap();
    assert!((from / rate - 1.0).abs() < 1e-3);
    // There is one class: what holds of it holds of connections.
    let connections = policy["connections"]["offload_from_rate"].as_f64().unwrap();
    assert!((connections / rate - 1.0).abs() < 2e-3, "{connections}");
}

#[test]
fn an_engine_that_does_not_pay_is_not_recommended() {
    let text = says(&["-a", "50us", "-p", "80us", "-e", "200us"]);
    has(
        &text,
        &[
            "Do not offload",
            "spare the host",
            "for saturation never",
            "5000 with everything offloaded (-35 %)",
        ],
    );
}

#[test]
fn bounded_room_tells_what_is_turned_away() {
    let text = says(&with(&["--room", "8", "-r", "20000"]));
    has(
        &text,
        &["turned away", "% lost", "simulated (200,000 a load)"],
    );
    let json = says(&with(&["--room", "8", "-r", "20000", "--json"]));
    let answer: Value = serde_json::from_str(&json).unwrap();
    let blocking = |system: &str| answer["points"][0][system]["blocking"].as_f64().unwrap();
    // What the host alone cannot carry, 1 − 1/2.6, is the least that it loses.
    assert!(blocking("host") > 0.61 && blocking("engine") < blocking("host"));
}

#[test]
fn sharing_and_several_cores_are_taken_into_account() {
    let delay = |more: &[&str]| -> f64 {
        let answer = says(&with(&[&["-r", "5000", "--json"], more].concat()));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["points"][0]["host"]["delay"].as_f64().unwrap()
    };
    // M/G/1-PS: E[S]/(1 − ρ); two cores halve the load of each.
    assert!((delay(&["--discipline", "sharing"]) / (130e-6 / 0.35) - 1.0).abs() < 1e-9);
    let two = 130e-6 + 2500.0 * 2.58e-8 / 2.0 / 0.675;
    assert!((delay(&["--cores", "2"]) / two - 1.0).abs() < 1e-9);
}

/// Loads made of 50 µs on the kernel, 20 µs and 30 µs on the engine.
const MEASURED: &str = "\
application = \"15us\"
kernel = [ { rate = 1000, server_busy = 0.06 }, { rate = 2000, server_busy = 0.11 },
           { rate = 4000, server_busy = 0.21 } ]
engine = [ { rate = 1000, server_busy = 0.03, engine_busy = 0.03 },
           { rate = 2000, server_busy = 0.05, engine_busy = 0.06 },
           { rate = 4000, server_busy = 0.09, engine_busy = 0.12 } ]
";

#[test]
fn a_measurement_file_is_fitted_and_planned_with() {
    let scratch = Scratch::new("fit");
    let file = scratch.file("measured.toml", MEASURED);
    let text = says(&["--fit", &file]);
    has(
        &text,
        &[
            "Server on the kernel: 50.0 µs a request",
            "Server on the engine: 20.0 µs a request",
            "Engine: 30.0 µs a request",
            "saturates at 19800 a second",
            "Saturation: 20000 requests a second without engine; 33333 with everything",
            "fitted from 3 loads on the kernel, fitted from 3 on the engine",
        ],
    );
    let answer = says(&["--fit", &file, "--json", "-r", "10000"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert!(close(
        &answer["fitted"][0]["line"]["service"]["value"],
        5e-5
    ));
    assert!(close(&answer["overhead_bounds"]["cpu"], 35e-6));
}

#[test]
fn without_an_engine_its_times_are_stated_and_marked_as_such() {
    let scratch = Scratch::new("stated");
    let kernel: String = MEASURED
        .split("engine =")
        .next()
        .map(|half| format!("overhead = \"5us\"\nengine_time = \"30us\"\n{half}"))
        .unwrap();
    let file = scratch.file("kernel.toml", &kernel);
    has(
        &says(&["--fit", &file]),
        &["33333 with everything", "stated, not measured"],
    );
    let file = scratch.file("less.toml", &kernel.replace("engine_time = \"30us\"", ""));
    has(&refuses(&["--fit", &file]), &["engine_time missing"]);
    let both = format!("overhead = \"5us\"\n{MEASURED}");
    let file = scratch.file("both.toml", &both);
    has(&refuses(&["--fit", &file]), &["leave one of them out"]);
}

#[test]
fn the_source_is_reprinted_and_marked() {
    let scratch = Scratch::new("source");
    let svg = scratch.path("source.svg");
    let text = says(&["--source-003", "--plot", &svg]);
    has(
        &text,
        &[
            "Table 4-1",
            "Table 4-2",
            "Table 4-3",
            "Table 4-4",
            "+199 %",
            "What cannot be reproduced",
            "4-3 … 4-7",
        ],
    );
    let picture = std::fs::read_to_string(svg).unwrap();
    let words = svg_texts(&picture);
    for class in 0..5 {
        let title = format!("Delay, class {class} (003, figures");
        assert!(
            words.iter().any(|word| word.starts_with(&title)),
            "{words:?}"
        );
    }
}

#[test]
fn what_is_refused_is_quoted_with_what_would_do() {
    let scratch = Scratch::new("refused");
    let missing: [(&[&str], &[&str]); 4] = [
        (&[], &["say what to plan", "-a 50us -p 80us"]),
        (&["-a", "50us"], &["-p is missing", "-p 80us"]),
        (&["-a", "50us", "-p", "80us"], &["-e is missing", "-e 60us"]),
        (
            &["--from", "/nonexistent"],
            &["/nonexistent", "No such file"],
        ),
    ];
    for (arguments, parts) in missing {
        has(&refuses(arguments), parts);
    }
    let values: [(&[&str], &[&str]); 8] = [
        (&["-a", "-5us"], &["-5us", "0 or more"]),
        (&["-a", "nan"], &["\"nan\" is not a duration"]),
        (&["-a", "1e999us"], &["1e999us", "0 or more"]),
        (&["-a", "5weeks"], &["\"weeks\"", "ns, us, ms or s"]),
        (&["-r", "-5"], &["\"-5\" is not a rate above 0"]),
        (&["-r", "5..1"], &["5..1 ends below its start"]),
        (&["--cores", "0"], &["number of cores must be at least 1"]),
        (&["--room", "0"], &["room for requests must be at least 1"]),
    ];
    for (arguments, parts) in values {
        let more: Vec<&str> = match arguments[0] {
            "-a" => arguments.iter().chain(&FLAGS[2..]).copied().collect(),
            _ => with(arguments),
        };
        has(&refuses(&more), parts);
    }
    has(
        &refuses(&with(&["-r", "20000"])),
        &[
            "20000 requests",
            "7692 without engine",
            "14286 with everything",
        ],
    );
    let class = "[[class]]\nname = \"a\"\nshare = 1\napplication = \"1ms\"\nprotocol = \"1ms\"\n";
    for (written, parts) in [
        (
            "engine = { pareto = { scale = \"1ms\", alpha = 1.5 } }",
            &[
                "class \"a\", engine",
                "moment 2",
                "alpha > 2",
                "bound the tail",
            ][..],
        ),
        ("engine = \"1mss\"", &["line 6", "\"mss\""]),
        ("engine = { weird = 1 }", &["line 6", "weird", "lognormal"]),
        ("engine = -1.0", &["line 6", "-1"]),
        ("engine = nan", &["line 6", "NaN"]),
        (
            "engine = { bounded_pareto = { low = \"2ms\", high = \"1ms\", alpha = 1.1 } }",
            &["high must be", "0.002", "not 0.001"],
        ),
        (
            "engine = { lognormal = { mean = \"1ms\", scv = -1 } }",
            &["squared coefficient of variation", "not -1"],
        ),
        ("engine = { samples = \"none\" }", &["none", "No such file"]),
        ("engine = \"1ms\"\nshares = 2", &["line 7", "shares"]),
        ("engine = \"1ms\"\nrates = 3", &["line 7", "rates"]),
    ] {
        let file = scratch.file("class.toml", &format!("{class}{written}\n"));
        has(&refuses(&["--from", &file]), parts);
    }
    let file = scratch.file("share.toml", &class.replace("share = 1", "share = nan"));
    let file = std::fs::read_to_string(file).unwrap() + "engine = \"1ms\"\n";
    let file = scratch.file("share.toml", &file);
    has(
        &refuses(&["--from", &file]),
        &["class \"a\"", "share", "NaN"],
    );
}

#[test]
fn measuring_without_an_engine_points_to_the_measurement_file() {
    has(
        &refuses(&["--measure", "--pid", "1"]),
        &["no engine called default", "--fit"],
    );
    has(
        &refuses(&["--measure", "--pid", "1", "--windows", "2"]),
        &["2 windows", "3 or more"],
    );
    has(
        &refuses(&["--measure", "--pid", "1", "--requests", "10,20"]),
        &["2 windows", "3 or more"],
    );
    has(&refuses(&["--windows", "4"]), &["--measure"]);
}

#[test]
fn a_number_without_a_unit_is_refused_with_what_to_write() {
    let scratch = Scratch::new("units");
    has(
        &refuses(&["-a", "50", "-p", "80us", "-e", "60us"]),
        &["50 has no unit", "50us, 50ms or 50s"],
    );
    let class = "[[class]]\nname = \"a\"\nshare = 1\napplication = \"1ms\"\nprotocol = \"1ms\"\n";
    for engine in [
        "engine = 3",
        "engine = 0.001",
        "engine = { deterministic = 2 }",
    ] {
        let file = scratch.file("units.toml", &format!("{class}{engine}\n"));
        has(&refuses(&["--from", &file]), &["has no unit", "us, "]);
    }
    let samples = scratch.file("samples.txt", "1ms\n0.002\n");
    let engine = format!("engine = {{ samples = \"{samples}\" }}");
    let file = scratch.file("samples.toml", &format!("{class}{engine}\n"));
    has(
        &refuses(&["--from", &file]),
        &["samples.txt:2", "has no unit"],
    );
    // Nothing is nothing in any unit.
    says(&["-a", "50us", "-p", "80us", "-o", "0", "-e", "60us"]);
}

#[test]
fn what_measurements_leave_open_is_in_the_verdict() {
    let scratch = Scratch::new("open");
    let file = scratch.file("sure.toml", MEASURED);
    let sure = says(&["--fit", &file]);
    has(&sure, &["The verdict is the same at either end"]);
    assert!(!sure.contains("leave that open"), "{sure}");
    // The engine's loads are all over the place: its time may be a third, or three times as much.
    let vague = MEASURED
        .replace("engine_busy = 0.03", "engine_busy = 0.08")
        .replace("engine_busy = 0.06", "engine_busy = 0.02")
        .replace("engine_busy = 0.12", "engine_busy = 0.16");
    let file = scratch.file("vague.toml", &vague);
    let text = says(&["--fit", &file]);
    let verdict = text.lines().find(|line| line.contains("ffload")).unwrap();
    has(verdict, &["the measurements leave that open"]);
    has(
        &text,
        &[
            "that favours an engine: Offload",
            "that does not favour an engine: ",
            "Measure longer",
        ],
    );
    let json: Value = serde_json::from_str(&says(&["--fit", &file, "--json"])).unwrap();
    assert_eq!(json["intervals"]["open"], true);
}

#[test]
fn stages_that_saturate_together_are_told_so_whatever_the_room() {
    let even = ["-a", "50us", "-p", "80us", "-o", "10us", "-e", "60us"];
    for more in [&[][..], &["--room", "64", "-r", "5000"]] {
        has(
            &says(&[&even[..], more].concat()),
            &["host and engine saturate together"],
        );
        let json = says(&[&even[..], more, &["--json"]].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["bottleneck_with_engine"], "both");
    }
}

#[test]
fn elasticities_are_told_at_a_usual_load() {
    let json: Value = serde_json::from_str(&says(&with(&["--json"]))).unwrap();
    let at = json["elasticities_at_rate"].as_f64().unwrap();
    // 70 % of what the host alone carries; near saturation the elasticity would be some 50.
    assert!((at / (0.7 / 130e-6) - 1.0).abs() < 1e-9, "{at}");
    let all = json["elasticities"].as_array().unwrap();
    let greatest = all
        .iter()
        .map(|one| one["without_engine"].as_f64().unwrap());
    assert!(greatest.fold(0.0, f64::max) < 5.0, "{all:?}");
}

#[test]
fn a_simulation_tells_percentiles_and_takes_one_size_for_both_stages() {
    let run = |more: &[&str]| {
        let arguments = with(&["-r", "5000", "--simulate", "3", "--json"]);
        let text = says(&[&arguments[..], more].concat());
        serde_json::from_str::<Value>(&text).unwrap()["simulation"].clone()
    };
    let apart = run(&[]);
    let spread = |check: &Value, name: &str| {
        let engine = check["rows"].as_array().unwrap().last().unwrap();
        engine["percentiles"][name].as_f64().unwrap()
    };
    let (median, most) = (spread(&apart, "p50"), spread(&apart, "p99"));
    assert!(median < most && most < spread(&apart, "p999"), "{apart:#}");
    let same = run(&["--same-size"]);
    assert_eq!(
        (&apart["coupling"], &same["coupling"]),
        (&"independent".into(), &"same_size".into())
    );
    // Large at both stages: the tail is longer.
    assert!(spread(&same, "p99") > most * 1.02, "{same:#}");
    let text = says(&with(&["-r", "5000", "--simulate", "3", "--same-size"]));
    has(&text, &["the same size at both stages", "p99.9 "]);
}

#[test]
fn the_answer_goes_to_a_file_if_one_is_named() {
    let scratch = Scratch::new("output");
    let path = scratch.path("plan.json");
    assert_eq!(says(&with(&["--json", "--output", &path])), "");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, says(&with(&["--json"])));
    has(
        &refuses(&with(&["-w", "/nowhere/plan.txt"])),
        &["cannot write --output /nowhere/plan.txt", "No such file"],
    );
}
