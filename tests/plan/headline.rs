//! The first line of a plan, and the table below it: they never disagree.

use super::calls::{Scratch, has, says};
use serde_json::Value;

#[test]
fn the_headline_says_up_to_which_load_too() {
    let slow = [
        "-a",
        "50us",
        "-p",
        "80us",
        "-o",
        "10us",
        "-e",
        "60us",
        "--cores",
        "4",
        "--engine-cores",
        "1",
    ];
    let text = says(&slow);
    let headline = text.lines().next().unwrap();
    has(
        headline,
        &[
            "Offload from the lightest load up to ",
            "do not offload from",
        ],
    );
    // The table agrees: offloaded below that load, not from it on.
    let until: f64 = headline
        .rsplit_once("do not offload from ")
        .and_then(|(_, rest)| rest.split(' ').next())
        .and_then(|rate| rate.parse().ok())
        .unwrap_or_else(|| panic!("{headline}"));
    let rows = text.lines().filter_map(|line| {
        let rate: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some((rate, line))
    });
    let mut seen = [0, 0];
    for (rate, row) in rows {
        let offloads = row.ends_with("everything");
        assert!(offloads || row.ends_with("nothing"), "{row}");
        assert_eq!(offloads, rate < until - 1.0, "{row}");
        seen[usize::from(offloads)] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{text}");
    let json: Value = serde_json::from_str(&says(&[&slow[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["verdict"].as_str(), Some(headline));

    // With classes: those that are not offloaded at every load are told apart.
    let scratch = Scratch::new("until");
    let class = |name: &str, share: f64, size: &str, engine: &str| {
        format!(
            "[[class]]\nname = \"{name}\"\nshare = {share}\n{size}\napplication = \"50us\"\n\
             protocol = \"80us\"\noverhead = \"10us\"\nengine = \"{engine}\"\n"
        )
    };
    let file = format!(
        "[host]\ncores = 4\n{}{}",
        class("small", 0.1, "up_to_bytes = 1024", "500us"),
        class("large", 0.9, "", "60us")
    );
    let text = says(&["--from", &scratch.file("two.toml", &file)]);
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("large"));
    has(line.unwrap(), &["from the lightest load up to"]);
    has(&text, &["Offload large, each at its loads"]);
}

/// The loads of the table, and whether everything is offloaded at each.
fn table(text: &str) -> Vec<(f64, bool)> {
    let rows = text.lines().filter_map(|line| {
        let rate = line.split_whitespace().next()?.parse().ok()?;
        match line.split_whitespace().last()? {
            "everything" => Some((rate, true)),
            "nothing" => Some((rate, false)),
            _ => None,
        }
    });
    rows.collect()
}

/// From which load on, and up to which, a headline has everything offloaded.
fn promised(headline: &str) -> (f64, f64) {
    let number = |before: &str| {
        let (_, rest) = headline.split_once(before)?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    if headline.starts_with("Do not offload") {
        return (f64::INFINITY, f64::INFINITY);
    }
    assert!(headline.starts_with("Offload "), "{headline}");
    let until = number("do not offload from ").unwrap_or(f64::INFINITY);
    (number("Offload from ").unwrap_or(0.0), until)
}

#[test]
fn whatever_the_times_the_headline_says_what_the_table_says() {
    const TIMES: [u32; 7] = [1, 5, 10, 50, 80, 120, 300];
    let mut state = 0x9e37_79b9_u64;
    let mut draw = |from: &[u32]| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        from[(state >> 33) as usize % from.len()]
    };
    let mut seen = [0, 0, 0];
    for _ in 0..60 {
        let time = [0; 4].map(|_| format!("{}us", draw(&TIMES)));
        let cores = [0; 2].map(|_| draw(&[1, 1, 2, 4]).to_string());
        let arguments = [
            "-a",
            &time[0],
            "-p",
            &time[1],
            "-o",
            &time[2],
            "-e",
            &time[3],
            "--cores",
            &cores[0],
            "--engine-cores",
            &cores[1],
        ];
        let text = says(&arguments);
        let headline = text.lines().next().unwrap();
        let (from, until) = promised(headline);
        let rows = table(&text);
        assert!(rows.len() > 5, "{arguments:?}: {text}");
        for (rate, offloads) in rows {
            // The headline's loads are rounded.
            let is_close = |other: f64| (rate - other).abs() <= 1.0 + rate * 1e-3;
            let agrees = offloads == (from <= rate && rate < until);
            let is_edge = is_close(from) || is_close(until);
            assert!(agrees || is_edge, "{arguments:?} at {rate}: {text}");
        }
        let kind = usize::from(from > 0.0) + usize::from(from.is_infinite());
        seen[kind] += 1;
    }
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}
