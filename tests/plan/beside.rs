//! What `outboard plan` answers besides: for published workloads, closed loops, earlier models, and
//! beside measured delays.

use super::calls::{Scratch, close, has, refuses, says};
use lab::catalogue::{self, Extent};
use serde_json::{Value, json};

/// Of 130 µs alone, with 60 µs at either stage.
const EVEN: [&str; 8] = ["-a", "50us", "-p", "80us", "-o", "10us", "-e", "60us"];
/// The same with protocols by the size.
const GROWING: [&str; 8] = [
    "-a",
    "30us",
    "-p",
    "80us+3us/KB",
    "-o",
    "10us",
    "-e",
    "60us+2us/KB",
];

fn answer(arguments: &[&str], more: &[&str]) -> Value {
    let text = says(&[arguments, more, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_workload_by_name_has_its_classes_and_its_times() {
    let webstone = answer(&GROWING, &["--preset", "webstone"]);
    // 19,175 bytes on average.
    let alone = 30e-6 + 80e-6 + 3e-9 * 19_175.0;
    assert!(close(&webstone["saturation_without_engine"], 1.0 / alone));
    let engine = 60e-6 + 2e-9 * 19_175.0;
    assert!(close(&webstone["saturation_with_engine"], 1.0 / engine));
    let names: Vec<String> = (0..5).map(|class| format!("class {class}")).collect();
    assert_eq!(webstone["classes"], json!(names));
    let rules = webstone["policy"]["rules"].as_array().unwrap();
    let limits: Vec<u64> = rules
        .iter()
        .map(|rule| rule["up_to_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(limits, [1_024, 10_240, 102_400, 1_048_576]);
    // By hand, Pollaczek and Khinchin at 3,000 a second: Xa is exponential, Xp follows the size.
    let sizes = [
        (500.0, 0.35),
        (5e3, 0.5),
        (5e4, 0.14),
        (5e5, 0.009),
        (5e6, 0.001),
    ];
    let second: f64 = sizes
        .iter()
        .map(|(size, share)| {
            let (a, p) = (30e-6, 80e-6 + 3e-9 * size);
            share * (2.0 * a * a + 2.0 * a * p + p * p)
        })
        .sum();
    let delay = alone + 3_000.0 * second / 2.0 / (1.0 - 3_000.0 * alone);
    let at = answer(&GROWING, &["--preset", "webstone", "-r", "3000"]);
    assert!(close(&at["points"][0]["host"]["delay"], delay));
    let spec = answer(&GROWING, &["--preset", "specweb99"]);
    assert_eq!(spec["classes"].as_array().unwrap().len(), 4);
    let surge = says(&[&GROWING[..], &["--preset", "surge"]].concat());
    has(
        &surge,
        &["SURGE's requested sizes", "cut at 50 MB", "class 4"],
    );
}

#[test]
fn times_that_grow_and_sizes_belong_together() {
    has(&refuses(&GROWING), &["needs sizes", "--preset webstone"]);
    let even = [&EVEN[..], &["--preset", "webstone"]].concat();
    has(
        &refuses(&even),
        &["has to grow with the size", "-p 80us+3us/KB"],
    );
    let unknown = [&GROWING[..], &["--preset", "specweb96"]].concat();
    has(&refuses(&unknown), &["specweb96", "specweb99"]);
    has(
        &refuses(&["-a", "3us/KB", "-p", "80us", "-e", "60us"]),
        &["only -p, -o and -e can"],
    );
}

#[test]
fn closed_loops_are_answered_for_several_cores() {
    let more = ["--clients", "8", "--cores", "2"];
    let text = says(&[&EVEN[..], &more].concat());
    has(
        &text,
        &[
            "A closed loop, each client asking at once",
            "times taken for exponential",
        ],
    );
    let json = answer(&EVEN, &more);
    let alone = &json["closed_loop"]["host"];
    // Two queues of their own, of 65 µs each: X = n/(65 µs · (n + 1)).
    for (at, clients) in [(0, 1.0), (1, 2.0), (3, 8.0)] {
        let rate = clients / (65e-6 * (clients + 1.0));
        assert!(close(&alone[at]["throughput"], rate), "{alone}");
    }
    // Where the processor is shared, whatever the times are, at one core each.
    let shared = ["--clients", "3", "--discipline", "sharing", "-k", "0"];
    let text = says(&[&["-a", "50us", "-p", "80us", "-e", "60us"][..], &shared].concat());
    has(&text, &["everything offloaded; exact"]);
    let bounded = [&EVEN[..], &["--clients", "3", "--room", "9"]].concat();
    has(&refuses(&bounded), &["leave the room out"]);
}

#[test]
fn an_engine_may_share_the_hosts_cores() {
    let json = answer(&EVEN, &["--shared-cores", "-r", "5000", "--clients", "2"]);
    assert!(close(&json["saturation_with_engine"], 1.0 / 120e-6));
    // Pollaczek and Khinchin for the sum of all three: variances 50², 10² and 60² µs².
    let second = 120e-6_f64.powi(2) + 6_200e-12;
    let delay = 120e-6 + 5_000.0 * second / 2.0 / (1.0 - 0.6);
    let engine = &json["points"][0]["engine"];
    assert!(close(&engine["delay"], delay), "{engine}");
    assert!(close(&engine["host_utilisation"], 0.6));
    assert_eq!(engine["engine_utilisation"], 0.0);
    assert!(close(
        &json["closed_loop"]["engine"][1]["throughput"],
        1.0 / 120e-6
    ));
    let more = ["--shared-cores", "-r", "5000", "--simulate", "1"];
    let simulated = answer(&EVEN, &more)["simulation"]["rows"][1].clone();
    let seen = &simulated["simulated"];
    let (mean, half) = (seen["mean"].as_f64(), seen["half_width"].as_f64());
    let off = (mean.unwrap() - delay).abs();
    assert!(off < 2.0 * half.unwrap(), "{simulated}");
    let text = says(&[&EVEN[..], &["--shared-cores"]].concat());
    has(
        &text,
        &[
            "The engine shares the host's cores",
            "the host saturates first",
        ],
    );
    has(
        &refuses(&[&EVEN[..], &["--shared-cores", "--engine-cores", "2"]].concat()),
        &["cannot be used with", "--engine-cores"],
    );
    // Bounded: what is not turned away is carried by the host alone.
    let more = ["--shared-cores", "--room", "8", "-r", "5000"];
    let bounded = answer(&EVEN, &more)["points"][0]["engine"].clone();
    let accepted = 1.0 - bounded["blocking"].as_f64().unwrap();
    let used = bounded["host_utilisation"].as_f64().unwrap();
    assert!((used - 0.6 * accepted).abs() < 0.02, "{bounded}");
    assert_eq!(bounded["engine_utilisation"], 0.0);
}

#[test]
fn earlier_models_answer_with_a_server_and_without_one() {
    let text = says(&["--laws", "a=50us,o=80us,y=2,b=9000"]);
    has(
        &text,
        &[
            "LAWS",
            "7692 a second before, 6250 after",
            "the engine binds",
        ],
    );
    // Of the server: the engine takes 60 µs for what took the host 80.
    let text = says(&[&EVEN[..], &["--laws", "--emo"]].concat());
    has(
        &text,
        &[
            "7692 a second before, 16667 after",
            "β = 0.75",
            "without an engine latency 130 µs, overhead 130 µs",
            "with one latency 120 µs, overhead 60.0 µs",
        ],
    );
    let json = answer(&EVEN, &["--laws"]);
    assert!(close(
        &json["earlier_models"]["laws"]["found"]["after"],
        1.0 / 60e-6
    ));
    assert_eq!(json["earlier_models"]["emo"], Value::Null);
    has(&refuses(&["--laws", "a=50us"]), &["--laws: o is missing"]);
    has(&refuses(&["--emo", "nik=5us"]), &["no \"nik\"", "to_host"]);
}

/// What `outboard load --json` says, as far as it is read.
fn load(rate: f64, mean_us: f64, errors: u64) -> String {
    json!({ "requests_per_second": rate, "errors": errors, "latency": { "mean_us": mean_us } })
        .to_string()
}

#[test]
fn measured_delays_stand_beside_the_model() {
    let scratch = Scratch::new("beside");
    // The model says 314 µs at 5,000 a second alone, and 168 µs with an engine.
    let model = answer(&EVEN, &["-r", "5000"]);
    let delay = |system: &str| model["points"][0][system]["delay"].as_f64().unwrap() * 1e6;
    let file = |name: &str, text: &str| scratch.file(name, text);
    let kernel = file("kernel.json", &load(5_000.0, delay("host") * 1.1, 0));
    let engine = file("engine.json", &load(5_000.0, delay("engine") * 2.0, 3));
    let (kernel, engine) = (format!("kernel={kernel}"), format!("engine={engine}"));
    let compare = ["--compare", &kernel, "--compare", &engine];
    let text = says(&[&EVEN[..], &compare].concat());
    has(
        &text,
        &[
            "within 15 %, or the run's own interval, at 1 of 2 loads",
            "-9 %  holds",
            "-50 %  does not hold",
            "The model's mean delay is off by 30 % on average",
            "3 requests failed",
            "Poisson",
        ],
    );
    let json = answer(&EVEN, &compare);
    assert!(close(
        &json["compared"]["rows"][0]["model"],
        delay("host") / 1e6
    ));

    // A closed loop of four clients: all of them wait for each other, 130 µs each.
    let looped = file("loop.json", &load(7_600.0, 520.0, 0));
    let looped = format!("kernel={looped}");
    let text = says(&[&EVEN[..], &["--clients", "4", "--compare", &looped]].concat());
    has(
        &text,
        &["4 clients: within 15 %", "7600 (model 7692)", "520 µs"],
    );
    assert!(!text.contains("Poisson; `outboard load"), "{text}");

    let bare = file("bare.json", &load(5_000.0, 1.0, 0));
    let empty = format!("kernel={}", file("empty.json", "{}"));
    for (source, parts) in [
        (bare.as_str(), ["say what it was measured on", "bare.json"]),
        (&empty, ["/requests_per_second", "outboard load --json"]),
        ("kernel=/nowhere", ["/nowhere", "cannot read it"]),
    ] {
        let refused = [&EVEN[..], &["--compare", source]].concat();
        has(&refuses(&refused), &parts);
    }
}

#[test]
fn a_run_of_the_lab_stands_beside_the_model() {
    let scratch = Scratch::new("lab");
    let experiment = catalogue::find("model").unwrap().declare(Extent::Quick);
    let names = experiment.model.clone().unwrap();
    let value =
        |median: f64| json!({ "median": median, "low": median * 0.3, "high": median * 1.2 });
    let found = |subject: u64, delay_ms: f64| {
        json!({
            "cell": { "levels": [0, 0], "subject": subject },
            "values": { (names.rate.clone()): value(5_000.0), (names.delay.clone()): value(delay_ms) },
        })
    };
    let text = json!({
        "run": { "experiment": experiment },
        "analysis": { "found": [found(0, 0.9), found(1, 0.9)] },
    })
    .to_string();
    let file = scratch.file("results.json", &text);
    let said = says(&[&EVEN[..], &["--compare", &file]].concat());
    // 314 µs is within the interval of 0.9 ms, 168 is not.
    has(&said, &["at 1 of 2 loads", "900 µs (270 µs to 1.08 ms)"]);
    let only = format!("engine={file}");
    has(
        &says(&[&EVEN[..], &["--compare", &only]].concat()),
        &["at 0 of 1 loads"],
    );
    let other = catalogue::find("web").unwrap().declare(Extent::Quick);
    let text = json!({ "run": { "experiment": other }, "analysis": { "found": [] } }).to_string();
    let file = scratch.file("web.json", &text);
    let refused = [&EVEN[..], &["--compare", &file]].concat();
    has(
        &refuses(&refused),
        &["web measures no delay", "lab run model"],
    );
}

/// The results of a run of the lab, as far as they are read: (index of a class, subject, requests a second, seconds,
/// busy share).
fn run_of_the_lab(cells: &[(u64, u64, f64, f64, f64)]) -> String {
    let experiment = catalogue::find("model").unwrap().declare(Extent::Full);
    let names = experiment.model.clone().unwrap();
    let value = |median: f64| json!({ "median": median, "low": median, "high": median });
    let found = cells.iter().map(|(class, subject, rate, delay, busy)| {
        json!({
            "cell": { "levels": [class, 0], "subject": subject },
            "values": {
                (names.rate.clone()): value(*rate),
                (names.delay.clone()): value(delay * 1e3),
                (names.utilisation.clone()): value(busy * 1e2),
            },
        })
    });
    let found: Vec<Value> = found.collect();
    json!({ "run": { "experiment": experiment }, "analysis": { "found": found } }).to_string()
}

/// Pollaczek and Khinchin, for a service with this mean and variance.
fn waiting(rate: f64, mean: f64, variance: f64) -> f64 {
    mean + rate * (mean * mean + variance) / 2.0 / (1.0 - rate * mean)
}

#[test]
fn each_class_of_a_run_is_held_against_that_class_alone() {
    let scratch = Scratch::new("classes");
    // By hand, of WebStone's class 0, 500 bytes, and its class 3, 500,000: Xa is exponential, and so is Xo; Xp and Xe
    // follow the size. Server and engine share a core, though nobody has said so.
    let application = 30e-6_f64.powi(2);
    let small = 30e-6 + 80e-6 + 3e-9 * 500.0;
    let large = 30e-6 + 80e-6 + 3e-9 * 500_000.0;
    let shared = 30e-6 + 10e-6 + 60e-6 + 2e-9 * 500.0;
    let cells = [
        (
            0,
            0,
            3_000.0,
            waiting(3_000.0, small, application),
            3_000.0 * small,
        ),
        (
            0,
            1,
            3_000.0,
            waiting(3_000.0, shared, application + 10e-6_f64.powi(2)),
            3_000.0 * shared,
        ),
        // As the model for the time, and a fifth above it for the busy share.
        (
            3,
            0,
            300.0,
            waiting(300.0, large, application),
            1.2 * 300.0 * large,
        ),
    ];
    let file = scratch.file("results.json", &run_of_the_lab(&cells));
    let more = ["--preset", "webstone", "--compare", &file];
    let json = answer(&GROWING, &more);
    let rows = json["compared"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for (row, (_, _, rate, delay, _)) in rows.iter().zip(cells) {
        assert!(close(&row["model"], delay), "{row}");
        assert!(close(&row["rate"], rate), "{row}");
        assert_eq!(row["holds"], true);
    }
    let class = |row: &Value| row["class"].as_str().unwrap().to_owned();
    let found: Vec<String> = rows.iter().map(class).collect();
    assert_eq!(found, ["class 0", "class 0", "class 3"]);
    assert!(close(&rows[1]["busy"]["model"], 3_000.0 * shared));
    let held: Vec<&Value> = rows.iter().map(|row| &row["busy"]["holds"]).collect();
    assert_eq!(held, [&json!(true), &json!(true), &json!(false)]);
    let text = says(&[&GROWING[..], &more].concat());
    has(
        &text,
        &[
            "at 3 of 3 loads",
            "within 10 %, or the run's own interval, at 2 of 3 loads",
            "-17 %  does not hold",
            "of the lab's run are Poisson",
            "shared a core in the lab's run",
        ],
    );
    assert!(!text.contains("equal distances"), "{text}");

    // One class is described: which of the run it is has to be said.
    let bare = ["--compare", &file];
    let refused = refuses(&[&EVEN[..], &bare].concat());
    has(
        &refused,
        &["class 0, class 3", "requests", "results.json#0"],
    );
    let chosen = format!("engine={file}#0");
    let json = answer(&EVEN, &["--compare", &chosen]);
    let rows = json["compared"]["rows"].as_array().unwrap();
    let model = waiting(3_000.0, 120e-6, 6_200e-12);
    assert!(rows.len() == 1 && close(&rows[0]["model"], model), "{json}");
    let none = format!("{file}#7");
    let refused = refuses(&[&EVEN[..], &["--compare", &none]].concat());
    has(&refused, &["no \"7\"", "class 0, class 3"]);
    let looped = [&EVEN[..], &["--clients", "4", "--compare", &chosen]].concat();
    has(&refuses(&looped), &["no closed loop"]);
    // Where only some of a run's classes are described, the others are left out, and that is said.
    let class = |name: &str, protocol: &str| {
        format!(
            "[[class]]\nname = \"{name}\"\nshare = 0.5\napplication = \"30us\"\nprotocol = \"{protocol}\"\n\
             engine = \"60us\"\n"
        )
    };
    let described = class("3", "1ms") + &class("other", "80us");
    let described = scratch.file("plan.toml", &described);
    let text = says(&["--from", &described, "--compare", &file]);
    has(
        &text,
        &[
            "at 0 of 1 loads",
            "Not described here, and left out: class 0.",
        ],
    );
}

#[test]
fn an_engine_apart_is_held_against_two_stages_and_one_that_shares_against_one() {
    let scratch = Scratch::new("apart");
    let subjects = catalogue::find("model")
        .unwrap()
        .declare(Extent::Full)
        .subjects;
    let place = |name: &str| subjects.iter().position(|it| it == name).unwrap() as u64;
    let file = scratch.file(
        "results.json",
        &run_of_the_lab(&[
            (0, place("kernel"), 3_000.0, 1e-3, 0.39),
            (0, place("engine"), 3_000.0, 1e-3, 0.36),
            (0, place("engine apart"), 3_000.0, 1e-3, 0.18),
        ]),
    );
    let file = format!("{file}#0");
    let json = answer(&EVEN, &["--compare", &file]);
    let rows = json["compared"]["rows"].as_array().unwrap();
    let systems: Vec<&str> = rows
        .iter()
        .map(|row| row["system"].as_str().unwrap())
        .collect();
    assert_eq!(systems, ["kernel", "engine", "engine apart"]);
    assert!(close(
        &rows[1]["model"],
        waiting(3_000.0, 120e-6, 6_200e-12)
    ));
    // As what `outboard load` measures, which says nothing of cores.
    let other = scratch.file("load.json", &load(3_000.0, 1_000.0, 0));
    let other = format!("engine={other}");
    let unshared = answer(&EVEN, &["--compare", &other]);
    let unshared = unshared["compared"]["rows"][0]["model"].as_f64().unwrap();
    assert!(close(&rows[2]["model"], unshared), "{json}");
    assert!(close(&rows[2]["busy"]["model"], 3_000.0 * 60e-6), "{json}");
    let text = says(&[&EVEN[..], &["--compare", &file]].concat());
    has(
        &text,
        &["engine apart", "shared a core in the lab's run (engine)"],
    );
    let shared = [&EVEN[..], &["--shared-cores", "--compare", &file]].concat();
    has(
        &says(&shared),
        &["not its server's in the lab's run (engine apart)"],
    );
}

/// As a simulation of that class alone has it, which is asked for; means say nothing of it.
#[test]
fn what_most_requests_took_is_held_against_a_simulation() {
    let scratch = Scratch::new("high");
    let experiment = catalogue::find("model").unwrap().declare(Extent::Full);
    let names = experiment.model.clone().unwrap();
    let value = |median: f64| json!({ "median": median, "low": median, "high": median });
    let found = |subject: u64, mean_ms: f64, high_ms: f64| {
        json!({
            "cell": { "levels": [0, 0], "subject": subject },
            "values": {
                (names.rate.clone()): value(5_000.0),
                (names.delay.clone()): value(mean_ms),
                (catalogue::HIGH): value(high_ms),
            },
        })
    };
    // One queue, exponential in all: times of requests are so, too, and 99 % of them take up to ln 100 of their mean.
    let mean = 1.0 / (1.0 / 100e-6 - 5_000.0);
    let high = mean * 100_f64.ln();
    let cells = [(0, high), (1, 2.0 * high)].map(|(it, high)| found(it, mean * 1e3, high * 1e3));
    let text = json!({ "run": { "experiment": experiment }, "analysis": { "found": cells } });
    let file = scratch.file("results.json", &text.to_string());
    let alone = ["-a", "100us", "-p", "1ns", "-e", "1ns", "--shared-cores"];
    let compare = ["--compare", &file];
    let without = answer(&alone, &compare);
    assert_eq!(without["compared"]["rows"][0]["high"], Value::Null);
    let simulate = [&compare[..], &["--simulate", "1"]].concat();
    let with = answer(&alone, &simulate);
    let rows = with["compared"]["rows"].as_array().unwrap();
    let simulated = rows[0]["high"]["model"].as_f64().unwrap();
    assert!((simulated / high - 1.0).abs() < 0.05, "{simulated} {high}");
    assert_eq!(rows[0]["high"]["holds"], true);
    assert_eq!(rows[1]["high"]["holds"], false);
    let text = says(&[&alone[..], &simulate].concat());
    has(
        &text,
        &[
            "took at most, simulated: within 15 %",
            "at 1 of 2 loads",
            "99 %",
            "-50 %  does not hold",
        ],
    );
}

#[test]
fn what_the_sources_figures_show_is_checked() {
    let text = says(&["--source-003"]);
    has(
        &text,
        &[
            "Its negative result",
            "4-1, class 0",
            "busier at every load",
            "4-4, class 1",
            "4-5, class 2",
            "longer up to 30 % of the lesser saturation",
        ],
    );
    let checked = text.lines().filter(|line| line.starts_with("4-"));
    let same = checked.clone().filter(|line| line.ends_with("the same"));
    assert!(same.count() >= 8, "{text}");
}
