//! Options of ss(8), nginx, servers of files, tcpdump and top that the commands that resemble them have
//! not.

pub(super) const COMMIT: &str = "outboard --version says the version and the commit";

const FOREGROUND: &str =
    "it stays in the foreground: a supervisor such as systemd, or &, puts it behind";

/// A command, options, and what there is instead.
pub const HABITS: &[(&str, &[&str], &str)] = &[
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
    (
        "engine",
        &["-e", "-q"],
        "its log goes to standard error; OUTBOARD_LOG=warn lets it say less",
    ),
    // Servers of files.
    (
        "serve",
        &["-a", "-b", "--bind", "--addr", "--address"],
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
    (
        "serve",
        &["-t", "-T", "-g"],
        "it has no file of settings to be tested: outboard serve DIR -p PORT is all that it needs",
    ),
    (
        "serve",
        &["-s"],
        "SIGTERM stops it, when all that was asked for is answered; there is nothing to reload",
    ),
    (
        "serve",
        &["-e", "-q", "--quiet"],
        "it says nothing of requests unless --log asks for a line each; errors go to standard error",
    ),
    (
        "serve",
        &["--cgi", "--cors", "--php", "--proxy", "-P"],
        "it serves files, and nothing else: nginx on the engine does more (outboard run -- nginx)",
    ),
    (
        "serve",
        &["--protocol"],
        "it speaks HTTP/1.1, and 1.0 to those who ask so",
    ),
    (
        "serve",
        &[
            "--tls-cert",
            "--tls-key",
            "--tls-password-file",
            "--tls",
            "--domain",
            "-S",
            "--ssl",
        ],
        "there is no TLS: nginx on the engine has it (outboard run -- nginx)",
    ),
    ("serve", &["-f", "--foreground"], "that is so anyway"),
    (
        "serve",
        &["--no-listing", "--disable-listing"],
        "that is so unless --list is given",
    ),
    (
        "serve",
        &["--maxconn"],
        "connections open at once are --max-connections N",
    ),
    (
        "serve",
        &["-u", "--uid", "--gid", "--chroot"],
        "nothing outside of the directory is served; start it as the user that it is to be, by sudo -u \
         or systemd, with CAP_NET_BIND_SERVICE for ports below 1024",
    ),
    ("respond", &["-D", "--daemon"], FOREGROUND),
    (
        "respond",
        &["-n", "-N", "-m", "-c", "--connections", "--maxconn"],
        "it keeps no connections, so that nothing limits how many there are",
    ),
    (
        "respond",
        &["-t", "--timeout"],
        "it keeps no connections that could grow old; what waits (t=) is answered 501",
    ),
    (
        "respond",
        &["-s", "--socket", "-l", "--log"],
        "--json prints its counters each second, --prometheus FILE keeps them in a file",
    ),
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
        "all interfaces of an engine are captured, and each frame says its own: choose the engine by --engine NAME",
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
