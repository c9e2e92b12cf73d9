//! What commands say to a mistake: what is wrong, and what to do about it, in one line without the
//! numbers of errors. Nothing here needs root, but some mistakes only nobody can make.
#![forbid(unsafe_code)]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

const OUTBOARD: &str = env!("CARGO_BIN_EXE_outboard");
const NOBODY: u32 = 65_534;

/// What a command says; it has to fail.
#[track_caller]
fn complaint(mut command: Command) -> String {
    let output = command
        .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{command:?} succeeded: {said}");
    assert!(!said.contains("(os error"), "{command:?}: {said}");
    assert!(!said.contains("panicked"), "{command:?}: {said}");
    said
}

#[track_caller]
fn says(arguments: &[&str], parts: &[&str]) {
    let mut command = Command::new(OUTBOARD);
    command.args(arguments);
    let said = complaint(command);
    for part in parts {
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

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
    for (text, part) in [
        ("", "name the interface"),
        ("interface = \"nosuch0\"\n", "interface nosuch0"),
        ("interface = \"lo\"\n\n[tcp]\nhop_limt = 3\n", ":4: "),
        ("interface = \"lo\"\ncore = 4000\n", "core 4000"),
        ("interface = \"lo\"\nspin_microseconds = 99999\n", ":2: "),
    ] {
        let said = complaint(check(text));
        assert!(said.contains(part), "{text:?}: {said}");
    }
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn what_ss_can_and_this_cannot_is_explained() {
    for (arguments, part) in [
        (&["-s"][..], "outboard stats"),
        (&["-tu"], "only TCP"),
        (&["-x"], "only TCP"),
        (&["-K"], "its program's to end"),
        (&["-A", "tcp,udp"], "only TCP"),
        (&["-f", "unix"], "inet and inet6 are offloaded"),
        (&["-e"], "--json all"),
        (&["-r"], "never turned into names"),
        (&["-E"], "outboard capture"),
        (&["sport", "=", ":no-such"], "write its port"),
        (&["-F", "/nonexistent/filter"], "/nonexistent/filter"),
        (&["stat", "established"], "state established sport = :80"),
    ] {
        says(&[&["ss"], arguments].concat(), &[part]);
    }
    // What is so anyway is taken, and the engine asked.
    says(
        &[
            "ss",
            "-tnpomO",
            "-A",
            "tcp",
            "state",
            "established",
            "sport",
            ":https",
        ],
        &["no engine called default"],
    );
}

#[test]
fn what_other_load_generators_can_is_explained() {
    for (arguments, part) in [
        (&["--http2"][..], "h2load does HTTP/2"),
        (&["--insecure"], "there is no TLS"),
        (&["--data", "x=1"], "no bodies"),
        (&["--qps", "100"], "-R RATE"),
        (&["-x", "http://10.0.0.1/"], "no proxy"),
        (&["--disable-keepalive"], "--close"),
        (&["--redirect", "2"], "not followed"),
        (&["-t", "4"], "one thread"),
    ] {
        says(
            &[&["load", "http://10.77.0.1/"], arguments].concat(),
            &[part],
        );
    }
}

#[test]
fn a_body_or_a_switch_where_a_number_belongs_is_understood() {
    let load = ["load", "http://10.77.0.1/"];
    for (arguments, part) in [
        (["-d", "@body"], "requests have no bodies"),
        (["-d", "10x"], "is no unit"),
        (["-k", "all"], "how many requests a connection has"),
    ] {
        says(&[&load[..], &arguments].concat(), &[part]);
    }
}

/// Options of a tool that people come from, with a value where they want one, and what is said of each
/// that is not here.
type Habit = (&'static [&'static str], &'static str);

#[test]
fn no_option_of_another_tool_is_merely_unknown() {
    // wrk and wrk2, h2load, oha, ab, as their manuals list them; then ss(8), nginx, servers of files, tcpdump
    // and top. What both have is tried elsewhere.
    let load: &[Habit] = &[
        (&["-v", "-V", "--version"], "outboard --version"),
        (
            &[
                "-U",
                "-B",
                "--u_latency",
                "--batch_latency",
                "--latency-correction",
            ],
            "--latency",
        ),
        (&["-r", "--rps=5"], "-R RATE"),
        (&["--rate-period=1s"], "of a second"),
        (&["--warm-up-time=3"], "--ramp"),
        (
            &["-T", "-C", "-A", "-a", "-P", "--host=x", "--accept=x"],
            "-H",
        ),
        (
            &[
                "-b",
                "-F",
                "-Z",
                "--body-path=x",
                "--body-path-lines=x",
                "-u",
            ],
            "no bodies",
        ),
        (&["--data=x", "--body=x", "--form=x"], "no bodies"),
        (
            &[
                "-p",
                "-w",
                "-W",
                "-f",
                "--no-tls-proto=x",
                "--max-concurrent-streams=2",
            ],
            "HTTP/1.1",
        ),
        (
            &[
                "--header-table-size=1",
                "--encoder-header-table-size=1",
                "--no-udp-gso",
            ],
            "HTTP/1.1",
        ),
        (
            &["--http2", "--h1", "--alpn-list=h2", "--npn-list=h2"],
            "HTTP/1.1",
        ),
        (
            &[
                "--ktls",
                "--sni=x",
                "--groups=x",
                "--tls13-ciphers=x",
                "--ciphers=x",
            ],
            "no TLS",
        ),
        (
            &["--cacert=x", "--cert=x", "--key=x", "--insecure"],
            "no TLS",
        ),
        (
            &[
                "-e",
                "-g",
                "-o",
                "--output=x",
                "--output-format=x",
                "--log-file=x",
            ],
            "--json",
        ),
        (&["-j", "--db-url=x"], "--json"),
        (&["-I"], "--head"),
        (&["-X"], "--head"),
        (
            &["-m=POST", "--method=POST"],
            "no bodies|have a body|carry a body",
        ),
        (
            &[
                "--no-tui",
                "--no-color",
                "--fps=1",
                "--stats-success-breakdown",
            ],
            "-q",
        ),
        (&["--burst-delay=1s", "--burst-rate=2"], "even"),
        (
            &[
                "--urls-from-file",
                "--rand-regex-url",
                "--base-uri=x",
                "--max-repeat=1",
            ],
            "--path",
        ),
        (&["--connect-timeout=1s", "-N"], "--timeout"),
        (
            &["--timing-script-file=x", "-s=x.lua", "--script=x.lua"],
            "no scripts",
        ),
        (
            &[
                "-4",
                "-6",
                "--ipv4",
                "--ipv6",
                "--connect-to=x",
                "--unix-socket=x",
            ],
            "into the URL",
        ),
        (&["-l"], "--verify"),
        (&["--disable-compression"], "-H"),
        (&["--disable-keepalive"], "--close"),
        (&["-t=4", "--threads=4"], "one thread"),
        (&["-z=10s", "-D=10"], "-d TIME"),
        (&["--qps=5"], "-R RATE"),
        (&["-x=http://10.0.0.1/", "--proxy=x"], "no proxy"),
        (&["--redirect=0"], "not followed"),
    ];
    let ss: &[Habit] = &[
        (&["-V", "--version"], "outboard --version"),
        (&["-Q", "--no-queues"], "--json"),
        (&["-B", "--bound-inactive"], "ss(8)"),
        (&["--bpf-maps"], "kernel's"),
    ];
    let engine: &[Habit] = &[
        (&["-t", "-T"], "--check"),
        (&["-s"], "outboard reload"),
        (&["-g", "-p"], "-"),
        (&["-d", "--daemon"], "foreground"),
        (&["-v", "-V"], "outboard --version"),
    ];
    let serve: &[Habit] = &[
        (&["-b", "--bind=::1", "--addr=::1"], "-L ADDR:PORT"),
        (&["-d", "--directory=x"], "outboard serve DIR"),
        (&["--browse"], "--list"),
        (&["-D", "--daemon"], "foreground"),
        (&["-c"], "--help"),
    ];
    let respond: &[Habit] = &[
        (&["-b", "--bind=::1"], "-L ADDR:PORT"),
        (&["-d", "--directory=x"], "--objects"),
        (&["-D"], "foreground"),
    ];
    let capture: &[Habit] = &[
        (&["-i", "--interface=x"], "--engine"),
        (&["-n", "-s", "-U"], "so anyway"),
        (&["-c"], "--seconds"),
        (&["-r"], "tshark -r"),
        (&["-G", "-C"], "--seconds"),
    ];
    let top: &[Habit] = &[(&["-d", "--delay=1"], "--interval")];
    let commands: [(&[&str], &[Habit]); 7] = [
        (&["load", "http://10.77.0.1/"], load),
        (&["ss"], ss),
        (&["engine", "-i", "lo"], engine),
        (&["serve", "/tmp", "-p", "8000"], serve),
        (&["respond", "-i", "lo", "-p", "8000"], respond),
        (&["capture", "-w", "/dev/null"], capture),
        (&["top"], top),
    ];
    for (command, habits) in commands {
        for (options, words) in habits {
            for option in *options {
                let mut tried = Command::new(OUTBOARD);
                tried.args(command).arg(option);
                let said = complaint(tried);
                let explained = words.split('|').any(|word| said.contains(word));
                let one_line = said.trim_end().lines().count() == 1;
                assert!(explained && one_line, "{} {option}: {said}", command[0]);
            }
        }
    }
    // One that nobody has is still answered by what there is.
    says(
        &["load", "http://10.77.0.1/", "--no-such"],
        &["Usage: outboard load"],
    );
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
    std::fs::copy(OUTBOARD, &own).expect("a copy");
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
