//! `outboard plan --measure` beside a real engine and server: what it counts is what was served.
#![forbid(unsafe_code)]

use lab::load::Load;
use lab::outboard::{Outboard, total};
use lab::{Side, World, skip_without_root};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Requests a second while each of the windows is measured.
const RATES: [f64; 3] = [200.0, 700.0, 1_500.0];
/// Between two looks at which window it is.
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

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
    let mut measuring = outboard
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
            let (mut answered, mut window) = (0, 0);
            while measuring.ended()?.is_none() {
                window = measuring.printed().matches("window ").count().max(window);
                let Some(&rate) = RATES.get(window) else {
                    break;
                };
                let load = Load {
                    server,
                    path: "/page".into(),
                    close: false,
                    connections: 4,
                    rate,
                    duration: LOOK,
                    grace: PATIENCE,
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

    let status = measuring.wait(PATIENCE).unwrap();
    let said = measuring.printed();
    // On a busy machine a line through such light loads may slope downwards, or the loads be one.
    let refused = ["does not grow", "at the same load"];
    assert!(
        status.success() && said.contains("Engine: ")
            || refused.iter().any(|why| said.contains(why)),
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
    // In a window in which the machine stood still there may be nothing.
    for what in ["rate", "server_busy", "engine_busy"] {
        let values: Vec<f64> = rows.iter().map(|row| of(row, what)).collect();
        assert!(values.iter().all(|value| *value >= 0.0), "{measured}");
        assert!(values.iter().any(|value| *value > 0.0), "{measured}");
    }
}
