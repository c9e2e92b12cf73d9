//! TCP Fast Open: an unmodified nginx that asks for it, and a client of the kernel's that sends its request
//! with the SYN.
#![forbid(unsafe_code)]

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};
use std::path::Path;
use std::time::Duration;

const STARTING: Duration = Duration::from_secs(30);

fn nginx(world: &World, outboard: &Outboard, fast_open: &str) -> Process {
    let here = world.scratch().join("nginx");
    std::fs::create_dir_all(&here).expect("a directory");
    let file = here.join("nginx.conf");
    let configuration = format!(
        "user root; daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error.log info;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; server {{ listen {1}:80 {fast_open}; return 200 \"served\"; }} }}\n",
        here.display(),
        Side::Server.ipv4(),
    );
    std::fs::write(&file, configuration).expect("a configuration");
    let mut nginx = outboard
        .on_engine(world, "nginx")
        .arg("-c")
        .arg(&file)
        .log(here.join("output.log"))
        .start()
        .expect("nginx starts");
    let up = || world.is_reached((Side::Server.ipv4(), 80).into());
    outboard
        .wait_until_taken(&mut nginx, STARTING, 80, up)
        .expect("nginx serves");
    nginx
}

/// What the kernel's client gets that sends its request with the SYN if it can.
fn fetch(world: &World) -> String {
    let url = format!("http://{}/", Side::Server.ipv4());
    world
        .program(Side::Client, "curl")
        .args(["--silent", "--show-error", "--max-time", "30"])
        .args(["--tcp-fastopen", &url])
        .output()
        .expect("curl")
}

#[test]
fn a_request_comes_with_the_syn_where_engine_and_program_want_it() {
    let test = "a_request_comes_with_the_syn_where_engine_and_program_want_it";
    if lab::skip_without(test, &["nginx", "curl"]) {
        return;
    }
    for (setting, listen, expected) in [
        ("accept", "fastopen=16", 2.0),
        // Either of them alone is not enough.
        ("off", "fastopen=16", 0.0),
        ("accept", "", 0.0),
    ] {
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let settings = format!("[tcp]\nfast_open = \"{setting}\"\n");
        let _engine = outboard
            .start_engine_with(&world, &settings)
            .expect("the engine starts");
        // nginx sets the option when it listens already.
        let _nginx = nginx(&world, &outboard, listen);
        for _ in 0..3 {
            assert_eq!(fetch(&world), "served", "{setting} {listen}");
        }
        let counters = outboard.stats().expect("counters");
        // The first asks for a cookie.
        let opened = total(&counters, "tcp_fast_opens");
        assert_eq!(opened, expected, "{setting} {listen}");
        let cookies = total(&counters, "tcp_fast_open_cookies");
        assert_eq!(cookies, f64::from(expected > 0.0), "{setting} {listen}");
        let refused = total(&counters, "tcp_fast_opens_refused");
        assert_eq!(refused, 0.0, "{setting} {listen}");
    }
}
