//! Options that people know from other tools of the kind and that are not here: who tries one is told what
//! there is instead, rather than that it is unknown.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const COMMIT: &str = "outboard --version says the version and the commit";
const FOREGROUND: &str =
    "it stays in the foreground: a supervisor such as systemd, or &, puts it behind";
const ONE_BODY: &str =
    "requests have no bodies, since a stateless client has none to repeat; use oha or h2load";
const HEADER: &str = "write it as a header: -H 'NAME: VALUE'";
const OWN_FORM: &str = "--json has all of it, --csv a line a second, --plot a picture";
const HTTP2: &str = "it speaks HTTP/1.1 only, and h2load does HTTP/2 and 3";
const NO_TLS: &str = "there is no TLS, for which a client needs sessions; use oha, wrk or h2load";
const FROM_DUE: &str =
    "latencies count from when a request was due, always; --latency prints them all";
const PATHS: &str = "say what is asked for by --path PATH*WEIGHT, and sizes by --sizes";

/// A command, options of others that lead to it, and what there is instead.
const HABITS: &[(&str, &[&str], &str)] = &[
    // wrk, wrk2, h2load, oha, ab.
    ("load", &["-v", "-V", "--version"], COMMIT),
    (
        "load",
        &[
            "-U",
            "--u_latency",
            "-B",
            "--batch_latency",
            "--latency-correction",
        ],
        FROM_DUE,
    ),
    (
        "load",
        &["-r", "--rps"],
        "requests a second are -R RATE, and connections a second --conn-rate RATE",
    ),
    (
        "load",
        &["--rate-period"],
        "rates are of a second: -R RATE, --conn-rate RATE",
    ),
    (
        "load",
        &["--warm-up-time"],
        "--ramp TIME lets the load rise, and the first lines of --csv can be left out",
    ),
    (
        "load",
        &["-T", "-C", "-A", "-a", "-P", "--host", "--accept"],
        HEADER,
    ),
    (
        "load",
        &["-b", "-F", "-Z", "--body-path", "--body-path-lines", "-u"],
        ONE_BODY,
    ),
    (
        "load",
        &[
            "-p",
            "-w",
            "-W",
            "-f",
            "--no-tls-proto",
            "--max-concurrent-streams",
            "--header-table-size",
            "--encoder-header-table-size",
            "--no-udp-gso",
            "--max-udp-payload-size",
            "--window-bits",
        ],
        HTTP2,
    ),
    (
        "load",
        &["--ktls", "--sni", "--groups", "--tls13-ciphers"],
        NO_TLS,
    ),
    (
        "load",
        &[
            "-e",
            "-g",
            "-o",
            "--output",
            "--output-format",
            "--log-file",
            "--qlog-file-base",
            "--db-url",
        ],
        OWN_FORM,
    ),
    ("load", &["-j"], "--json prints the summary as JSON"),
    ("load", &["-I"], "--head asks for heads only"),
    (
        "load",
        &["-X"],
        "-m tells of methods: only GET and HEAD (--head) are asked",
    ),
    (
        "load",
        &[
            "--no-tui",
            "--no-color",
            "--fps",
            "--stats-success-breakdown",
        ],
        "on a terminal there is a bar, and where there is none there are lines; -q prints neither",
    ),
    (
        "load",
        &["--burst-delay", "--burst-rate"],
        "its rate is even (-R, --conn-rate): bursts are left to oha",
    ),
    (
        "load",
        &[
            "--urls-from-file",
            "--rand-regex-url",
            "--base-uri",
            "--max-repeat",
            "--dump-urls",
        ],
        PATHS,
    ),
    (
        "load",
        &["--connect-timeout", "-N"],
        "--timeout TIME holds for the connection and its request together",
    ),
    (
        "load",
        &["--timing-script-file"],
        "--ramp TIME and --sizes shape the load; there are no scripts",
    ),
    (
        "load",
        &[
            "-4",
            "-6",
            "--ipv4",
            "--ipv6",
            "--connect-to",
            "--unix-socket",
            "--vsock-addr",
        ],
        "write the address itself into the URL: http://10.0.0.1/ or http://[fd00::1]/",
    ),
    (
        "load",
        &["-l"],
        "bodies may differ in length, unless --verify says that they must not",
    ),
    (
        "load",
        &["--disable-compression"],
        "no compression is asked for, unless by -H",
    ),
    // ss.
    ("ss", &["-V", "-v", "--version"], COMMIT),
    (
        "ss",
        &["-Q", "--no-queues"],
        "--json has what scripts read, each column by its name",
    ),
    (
        "ss",
        &["-B", "--bound-inactive"],
        "a socket that is only bound is the kernel's: ss(8) shows it",
    ),
    (
        "ss",
        &["--bpf-maps"],
        "that is the kernel's of its own sockets, and these are the engine's",
    ),
    // nginx, whose way of being told is not that of the engine.
    (
        "engine",
        &["-t", "-T"],
        "--check reads the configuration and starts nothing",
    ),
    (
        "engine",
        &["-s"],
        "outboard reload has it read its configuration; systemctl stop, or SIGTERM, stops it",
    ),
    (
        "engine",
        &["-g"],
        "flags go before the file's settings: outboard engine --help lists them",
    ),
    ("engine", &["-v", "-V", "--version"], COMMIT),
    (
        "engine",
        &["-p", "--port"],
        "programs say what they listen on; an engine needs an interface, -i IFACE",
    ),
    ("engine", &["-d", "-D", "--daemon"], FOREGROUND),
    // Servers of files.
    (
        "serve",
        &["-b", "--bind", "--addr", "--address"],
        "-L ADDR:PORT names address and port",
    ),
    (
        "serve",
        &["-d", "--directory", "--root"],
        "the directory is the argument itself: outboard serve DIR -p PORT",
    ),
    (
        "serve",
        &["--browse"],
        "--list lists directories that have no index.html",
    ),
    ("serve", &["-D", "--daemon"], FOREGROUND),
    (
        "serve",
        &["-c", "--config"],
        "it has no file of settings: --help lists all there are",
    ),
    ("serve", &["-V", "-v", "--version"], COMMIT),
    ("respond", &["-D", "--daemon"], FOREGROUND),
    (
        "respond",
        &["-b", "--bind", "--addr", "--address"],
        "-L ADDR:PORT[-PORT] names address and ports",
    ),
    (
        "respond",
        &["-d", "--directory", "--root"],
        "--objects DIR serves the files of a directory",
    ),
    ("respond", &["-V", "-v", "--version"], COMMIT),
    // tcpdump.
    (
        "capture",
        &["-i", "--interface"],
        "an engine has one interface: choose it by --engine NAME",
    ),
    (
        "capture",
        &["-n", "-nn", "-s", "-U", "-p"],
        "that is so anyway: whole packets, no names, written at once",
    ),
    (
        "capture",
        &["-c"],
        "--seconds N ends it, or | tshark -c N -r -",
    ),
    (
        "capture",
        &["-r"],
        "tshark -r FILE, or wireshark, reads what was written",
    ),
    (
        "capture",
        &["-G", "-C", "-W"],
        "it writes one file; --seconds N ends it",
    ),
    // top.
    (
        "top",
        &["-d", "-s", "--delay"],
        "--interval TIME says how often",
    ),
];

/// What to say to an option that a command has not, if it is known from elsewhere. `command` is what was
/// called.
pub fn instead(command: &str, error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let option = option.split('=').next().unwrap_or(option);
    let of_command = HABITS.iter().filter(|(of, ..)| *of == command);
    let (_, _, instead) = of_command
        .into_iter()
        .find(|(_, options, _)| options.contains(&option))?;
    Some(format!("{command} has no {option}: {instead}"))
}
