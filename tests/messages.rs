//! What commands say to a mistake: what is wrong, and what to do about it, in one line without the
//! numbers of errors. Nothing here needs root, but some mistakes only nobody can make.
#![forbid(unsafe_code)]

#[path = "messages/calls.rs"]
mod calls;
#[path = "messages/habits.rs"]
mod habits;

use calls::{NOBODY, OUTBOARD, complaint, says};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_file_that_is_missing_is_named_with_its_option_and_what_it_should_be() {
    says(
        &["plan", "--from", "/nonexistent.toml"],
        &[
            "--from /nonexistent.toml",
            "No such file",
            "examples/plan.toml",
        ],
    );
    says(
        &["plan", "--fit", "/nonexistent.toml"],
        &["--fit /nonexistent.toml", "--measure --save"],
    );
    says(
        &["engine", "-c", "/nonexistent.toml"],
        &["configuration /nonexistent.toml", "docs/engine.toml"],
    );
    let respond = ["respond", "-i", "lo", "-L", "127.0.0.1:8000"];
    says(
        &[&respond[..], &["--objects", "/nonexistent"]].concat(),
        &["--objects", "/nonexistent", "a directory"],
    );
    says(
        &[&respond[..], &["--peer", "/var/run/netns/veth9"]].concat(),
        &["--peer /var/run/netns/veth9", "NETNS/IFACE"],
    );
    says(
        &[&respond[..], &["--peer", "no-such-netns/veth9"]].concat(),
        &[
            "--peer",
            "no network namespace no-such-netns",
            "ip netns list",
        ],
    );
}

#[test]
fn a_value_that_is_wrong_is_quoted_with_one_that_is_right() {
    let respond = ["respond", "-i", "lo", "-L", "127.0.0.1:8000"];
    says(
        &[&respond[..], &["--key", "abc"]].concat(),
        &["32 hexadecimal digits", "000102", "openssl rand -hex 16"],
    );
    says(
        &[&respond[..], &["--size", "5000"]].concat(),
        &["--size: at most", "--mode afxdp"],
    );
    for arguments in [
        &["plan", "--measure", "--pid", "abc"][..],
        &["explain", "0"],
    ] {
        says(arguments, &["number of a process", "$(pgrep -o nginx)"]);
    }
    for arguments in [
        &["ss", "--engine", "../x"][..],
        &["run", "--engine", "../x", "--", "true"],
        &["serve", "-L", ":8000", "--engine", "a/b", "/tmp"],
        &[&respond[..], &["--engine", ".x"]].concat(),
    ] {
        says(arguments, &["letters, digits"]);
    }
    says(
        &["engine", "-i", "lo", "--name", "../x"],
        &["name", "letters, digits"],
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named_before_there_is_work_to_lose() {
    let plan = ["plan", "-a", "50us", "-p", "80us", "-e", "60us"];
    let nowhere = "/nonexistent/x";
    for (command, option) in [
        (&plan[..], "--output"),
        (&plan, "--plot"),
        (&plan, "--policy"),
        // Before an engine is looked for, and minutes are measured.
        (&["plan", "--measure", "--pid", "1"], "--save"),
        (&["load", "http://10.77.0.1/", "-n", "1"], "--plot"),
        (&["respond", "-i", "lo", "-p", "8000"], "--prometheus"),
        (&["guard", "--pid", "1", "--max", "1G"], "--report"),
        (&["guard", "--pid", "1", "--max", "1G"], "--metrics"),
    ] {
        let mut tried = Command::new(OUTBOARD);
        tried.args(command).args([option, nowhere]);
        let said = complaint(tried);
        let expected =
            format!("outboard: cannot write {option} {nowhere}: No such file or directory\n");
        assert_eq!(said, expected, "{command:?}");
    }
    says(
        &[&plan[..], &["--plot", "/tmp"]].concat(),
        &["cannot write --plot /tmp: Is a directory"],
    );
}

#[test]
fn what_cannot_be_done_later_is_said_at_once() {
    // A process that nobody knows how to reload: not when memory is short.
    let own = std::process::id().to_string();
    says(
        &["guard", "--max", "1G", "--pid", &own],
        &["how this server reloads is not known", "--reload-command"],
    );
    // A file that is no responder's: not after the run.
    let file = std::env::temp_dir().join(format!("outboard-no-responder-{own}"));
    std::fs::write(&file, "{\"frames\": 1}\n").expect("a file");
    let name = file.to_string_lossy();
    let arguments = ["load", "http://10.77.0.1/", "-n", "1"];
    says(
        &[&arguments[..], &["--responder-json", &name]].concat(),
        &[&name, "outboard respond --json"],
    );
    std::fs::remove_file(&file).expect("it is there");
    says(
        &["engine", "-i", "lo", "--placement", "nobody"],
        &["adaptive, engine or kernel"],
    );
}

#[test]
fn numbers_and_addresses_that_are_none_are_told_what_they_should_be() {
    let load = ["load", "http://10.77.0.1/"];
    for (command, option) in [
        (&load[..], "--seed"),
        (&["top"], "--count"),
        (&["serve", "/tmp", "-p", "8000"], "--idle-timeout"),
        (&["respond", "-i", "lo", "-p", "8000"], "--size"),
        (
            &["plan", "-a", "50us", "-p", "80us", "-e", "60us"],
            "--cores",
        ),
        (&["capture", "-w", "/dev/null"], "--seconds"),
    ] {
        let arguments = [command, &[option, "1x"]].concat();
        says(
            &arguments,
            &[
                option,
                "\"1x\" is no whole number; write one without a unit",
            ],
        );
    }
    for (arguments, part) in [
        (&["load", "http://10.77.0.1:99999/"][..], "from 1 to 65535"),
        (&["load", "http://10.77.0.1:0/"], "from 1 to 65535"),
        (&["load", "http://[::1/"], "half of its brackets"),
        (
            &["load", "http://10.77.0.1/", "-i", "no-such0"],
            "`ip link` lists those that are",
        ),
        (
            &["serve", "/tmp", "-L", "nowhere:80"],
            "such as 10.0.0.1:80",
        ),
        (
            &["serve", "/tmp", "-p", "80", "--max-connections", "0"],
            "nobody is served",
        ),
        (
            &["engine", "-i", "lo", "--name", "a/b"],
            "`name` is \"a/b\", allowed is letters",
        ),
        (
            &["explain", "no-such-program"],
            "no process runs a program called no-such-program",
        ),
        (&["lab", "run", "no-such"], "there are web, echo"),
        (
            &["lab", "compare", "/nonexistent", "/nonexistent"],
            "there is no run in /nonexistent",
        ),
        (
            &["ss", "-F", "/nonexistent"],
            "/nonexistent: No such file or directory",
        ),
        (&["service", "enable", "no-such"], "list-unit-files"),
    ] {
        says(arguments, &[part]);
    }
}

#[test]
fn a_level_that_is_none_is_told_from_a_part() {
    for (said, wrong) in [
        ("loud", true),
        ("engine=loud", true),
        ("engine", true),
        ("WARN", false),
        ("engine=warn,netdev=info", false),
        ("warn,engine::fast=debug", false),
        ("", false),
        ("off", false),
    ] {
        let mut engine = Command::new(OUTBOARD);
        engine
            .args(["engine", "-i", "no-such0"])
            .env("OUTBOARD_LOG", said);
        let complained = complaint(engine);
        let about_it =
            complained.contains(&format!("OUTBOARD_LOG={said}: write error, warn, info"));
        assert_eq!(about_it, wrong, "{said}: {complained}");
    }
}

#[test]
fn a_configuration_is_checked_without_starting_anything() {
    let path = std::env::temp_dir().join(format!("outboard-check-{}.toml", std::process::id()));
    let check = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        let mut command = Command::new(OUTBOARD);
        command.args(["engine", "--check", "-c"]).arg(&path);
        command
    };
    let output = check("interface = \"lo\"\nname = \"web\"\n")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        said,
        "ok: engine web on lo, control socket /run/outboard/web.sock\n"
    );
    // A policy that nobody follows is no reason not to start.
    let policy = path.with_extension("json");
    let band = "{ \"offload_from_rate\": null, \"offload_below_rate\": null }";
    let text =
        format!("{{ \"version\": 2, \"connections\": {band}, \"rules\": [], \"above\": {band} }}");
    std::fs::write(&policy, text).expect("a file");
    let text = format!("interface = \"lo\"\npolicy = \"{}\"\n", policy.display());
    let mut kernels = check(&text);
    let output = kernels.args(["--placement", "kernel"]).output();
    let output = output.expect("it runs");
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(warned.starts_with("warning: policy: "), "{warned}");
    std::fs::remove_file(policy).expect("it is there");
    for (text, part) in [
        ("", "name the interface"),
        (
            "interface = \"nosuch0\"\n",
            "nosuch0: there is no such interface",
        ),
        ("interface = \"lo\"\n\n[tcp]\nhop_limt = 3\n", ":4: "),
        ("interface = \"lo\"\ncore = 4000\n", "core 4000"),
        ("interface = \"lo\"\nqueues = [0, 99]\n", "queue 99"),
        ("interface = \"lo\"\nspin_microseconds = 99999\n", ":2: "),
    ] {
        let said = complaint(check(text));
        assert!(said.contains(part), "{text:?}: {said}");
    }
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn who_cannot_listen_learns_why() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let own = format!("process {}", std::process::id());
    says(
        &["serve", "-L", &address, "/tmp"],
        &["cannot listen on", "is taken", &own, "use another port"],
    );
    let port = taken.local_addr().expect("bound").port().to_string();
    says(&["serve", "-p", &port, "/tmp"], &["is taken", &own]);
    says(&["serve", "-p", "80000", "/tmp"], &["80000"]);
    says(&["serve", "/tmp"], &["--listen"]);
    says(
        &["serve", "-L", "192.0.2.77:8000", "/tmp"],
        &["192.0.2.77 is no address of this machine", "`ip addr`"],
    );
}

#[test]
fn a_script_without_an_interpreter_is_refused_with_how_to_run_it() {
    let path = std::env::temp_dir().join(format!("outboard-script-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(b"echo hello\n").expect("written");
    drop(file);
    let name = path.display().to_string();
    says(
        &["run", "--", &name],
        &[
            "no script whose first line names an interpreter",
            &format!("-- sh {name}"),
        ],
    );
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn nobody_is_told_before_anything_begins() {
    if lab::skip_without("nobody_is_told_before_anything_begins", &[]) {
        return;
    }
    // Nobody must be able to reach the program.
    let own = tempfile();
    lab::tool::copy_program(OUTBOARD.as_ref(), &own).expect("a copy");
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(&own);
        command.args(arguments).uid(NOBODY).gid(NOBODY);
        complaint(command)
    };
    let said = as_nobody(&["lab", "run", "web"]);
    assert!(
        said.contains("needs root") && !said.contains("starting"),
        "{said}"
    );
    let said = as_nobody(&["demo"]);
    let remedy = format!("run: sudo {} demo\n", own.display());
    assert!(
        said.ends_with(&remedy) && said.lines().count() == 1,
        "{said}"
    );
    // Nor does it help to be root of a user namespace, where the kernel lets nobody make one either.
    if lab::tool::find("unshare").is_some() {
        let mut root_of_little = Command::new("unshare");
        root_of_little.args(["-Urmn"]).arg(&own).arg("demo");
        let said = complaint(root_of_little);
        assert!(said.contains("run it outside, with sudo"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    if lab::tool::find("iptables-legacy").is_some() {
        let respond = ["respond", "-i", "lo", "-p", "8000", "--mode", "nfqueue"];
        let said = as_nobody(&respond);
        assert!(
            said.contains("run as root") && !said.contains("Add one"),
            "{said}"
        );
    }
    let said = as_nobody(&["respond", "-i", "lo", "-p", "8000"]);
    assert!(said.contains("run as root"), "{said}");
    let said = as_nobody(&["engine", "-i", "lo"]);
    assert!(said.contains("as root, or with CAP_NET_ADMIN"), "{said}");
    let said = as_nobody(&["serve", "-L", "127.0.0.1:81", "/tmp"]);
    assert!(said.contains("ports below 1024 need root"), "{said}");
    std::fs::remove_file(own).expect("it is there");
}

#[test]
fn make_demo_says_before_it_builds_that_it_needs_root() {
    let test = "make_demo_says_before_it_builds_that_it_needs_root";
    if lab::skip_without(test, &["make"]) {
        return;
    }
    // Nobody must be able to read it.
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = std::env::temp_dir().join(format!("outboard-make-demo-{}", std::process::id()));
    std::fs::create_dir_all(own.join("scripts")).expect("a directory");
    for file in ["Makefile", "scripts/deps.sh"] {
        std::fs::copy(here.join(file), own.join(file)).expect("a copy");
    }
    let mut make = Command::new("make");
    make.args(["-s", "demo", "CARGO=echo it builds"])
        .current_dir(&own)
        .uid(NOBODY)
        .gid(NOBODY);
    let output = make.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    let mut lines = said.lines();
    let first = lines.next().unwrap_or("");
    assert!(
        first.contains("needs root of the machine")
            && first.ends_with("sudo target/release/outboard demo"),
        "{said}"
    );
    assert!(lines.all(|line| line.starts_with("make")), "{said}");
    std::fs::remove_dir_all(own).expect("it is there");
}

/// A path that everybody may read and run from.
fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("outboard-as-nobody-{}", std::process::id()))
}
