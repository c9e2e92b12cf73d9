//! `outboard plan --measure` beside a real engine and server: what it counts is what was served.
#![forbid(unsafe_code)]

use lab::load::Load;
use lab::outboard::{Outboard, total};
use lab::{Side, World, skip_without_root};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Requests a second, one after the other; each for a little longer than a window.
const RATES: [f64; 3] = [200.0, 700.0, 1_500.0];
const WINDOW: Duration = Duration::from_millis(600);

#[test]
fn a_running_engine_is_measured_at_three_loads() {
    if skip_without_root("a_running_engine_is_measured_at_three_loads") {
        return;
    }
    let world = World::new().unwrap();
    let site = world.site(&[("page", &[7; 3_000])]).unwrap();
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).unwrap();
    let server = SocketAddr::from((Side::Server.ipv4(), 80));
    let serve = outboard.start_serve(&world, &site, server).unwrap();
    let exchanges = || total(&outboard.stats().unwrap(), "host_exchanges");
    // Whoever looked whether the server is there may have asked something, too.
    let before = exchanges();

    let saved = world.scratch().join("measured.toml");
    let measuring = outboard
        .command(&world, "plan")
        .args(["--measure", "--windows", "3", "--window", "600ms"])
        .args(["--pid", &serve.id().to_string()])
        .arg("--save")
        .arg(&saved)
        .log(world.scratch().join("plan.log"))
        .start()
        .unwrap();
    let answered = world
        .on(Side::Client, || {
            let mut answered = 0;
            for rate in RATES {
                let load = Load {
                    server,
                    path: "/page".into(),
                    close: false,
                    connections: 4,
                    rate,
                    duration: WINDOW + Duration::from_millis(50),
                };
                let outcome = load.run()?;
                assert_eq!(outcome.failed + outcome.unanswered(), 0);
                answered += outcome.answered;
            }
            Ok(answered)
        })
        .unwrap();
    // A response is its header and then a file, and one request all the same.
    assert_eq!(exchanges() - before, answered as f64);
    assert!(total(&outboard.stats().unwrap(), "process_cpu_seconds") > 0.0);

    let mut measuring = measuring;
    let status = measuring.wait(Duration::from_secs(20)).unwrap();
    let said = measuring.printed();
    // On a machine as busy as this may be, a line through such light loads may slope downwards.
    assert!(
        status.success() && said.contains("Engine: ") || said.contains("does not grow"),
        "{said}"
    );
    let measured: toml::Table = std::fs::read_to_string(&saved).unwrap().parse().unwrap();
    let rows = measured["engine"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{measured}");
    assert!(
        !measured.contains_key("kernel"),
        "the place of the other half"
    );
    let of = |row: &toml::Value, what: &str| row[what].as_float().unwrap();
    let rates: Vec<f64> = rows.iter().map(|row| of(row, "rate")).collect();
    assert!(rates[0] < rates[1] && rates[1] < rates[2], "{rates:?}");
    for row in rows {
        for what in ["server_busy", "engine_busy"] {
            assert!(of(row, what) > 0.0 && of(row, what) <= 1.5, "{row}");
        }
    }
}
