//! Options of wrk, wrk2, h1load, h2load, oha, ab, httperf and hping that `outboard load` has not.

const ONE_BODY: &str =
    "requests have no bodies, since a stateless client has none to repeat; use oha or h2load";
const HEADER: &str = "write it as a header: -H 'NAME: VALUE'";
const OWN_FORM: &str = "--json has all of it, --csv a line a second, --plot a picture";
const HTTP2: &str = "it speaks HTTP/1.1 only, and h2load does HTTP/2 and 3";
const NO_TLS: &str = "there is no TLS, for which a client needs sessions; use oha, wrk or h2load";
const FROM_DUE: &str =
    "latencies count from when a request was due, always; --latency prints them all";
const PATHS: &str = "say what is asked for by --path PATH*WEIGHT, and sizes by --sizes";
const QUIET: &str =
    "on a terminal there is a bar, and where there is none there are lines; -q prints neither";
const OWN_PACKETS: &str =
    "it makes its own packets, which no socket's options touch; --sockets uses the kernel's own";
const FLOOD: &str = "it opens connections to be answered; outboard lab run flood sends SYNs only";

/// Options, and what there is instead. Where a letter means several things elsewhere, all of them are
/// answered.
pub const HABITS: &[(&[&str], &str)] = &[
    // wrk, wrk2, h1load, h2load, oha, ab, httperf, hping.
    (
        &["-v", "-V", "--version", "--verbose"],
        super::others::COMMIT,
    ),
    (
        &[
            "-L",
            "-U",
            "--u_latency",
            "--batch_latency",
            "--latency-correction",
        ],
        FROM_DUE,
    ),
    (
        &["-B", "--client"],
        "addresses to come from are -S ADDRESS, and what is asked for is in the URL; latencies count from \
         when a request was due, always (--latency)",
    ),
    (
        &["-r", "--rps"],
        "requests a second are -R RATE, connections a second --conn-rate RATE, requests in each connection \
         -k N; redirections are not followed, and errors end nothing",
    ),
    (
        &["--rate-period", "--period"],
        "rates are of a second: -R RATE, --conn-rate RATE",
    ),
    (
        &["--warm-up-time"],
        "--ramp TIME lets the load rise, and the first lines of --csv can be left out",
    ),
    (
        &[
            "-C",
            "-A",
            "-a",
            "--host",
            "--accept",
            "--add-header",
            "--server-name",
            "--basic-auth",
            "--content-type",
            "--proxy-header",
            "--aws-session",
            "--aws-sigv4",
            "--session-cookies",
            "--no-host-hdr",
            "-O",
        ],
        HEADER,
    ),
    (
        &[
            "-T",
            "--connection-active-timeout",
            "--connection-inactivity-timeout",
        ],
        "how long an answer may take is --timeout TIME; a type is a header, -H 'Content-Type: TYPE'; and \
         clients that think are as many as -R RATE lets come",
    ),
    (
        &[
            "--think-timeout",
            "--wsess",
            "--wsesslog",
            "--wset",
            "--wlog",
        ],
        PATHS,
    ),
    (
        &[
            "-b",
            "-Z",
            "--body-path",
            "--body-path-lines",
            "-u",
            "--time-unit",
        ],
        ONE_BODY,
    ),
    (
        &["-F", "--burst-length", "--max-piped-calls"],
        "requests have no bodies, and each is a segment of its own",
    ),
    (
        &["-p"],
        "requests have no bodies, it speaks HTTP/1.1 only (h2load does HTTP/2), and the port is in the URL",
    ),
    (
        &["-w", "--wait-ongoing-requests-after-deadline"],
        "--grace TIME waits for what is under way at the end, and an answer may take --timeout TIME; \
         it speaks HTTP/1.1 only, which has no windows",
    ),
    (
        &[
            "-W",
            "-f",
            "--no-tls-proto",
            "--max-concurrent-streams",
            "--header-table-size",
            "--encoder-header-table-size",
            "--no-udp-gso",
            "--max-udp-payload-size",
            "--window-bits",
            "--connection-window-bits",
            "--max-frame-size",
            "--proxy-http2",
            "--proxy-http-version",
        ],
        HTTP2,
    ),
    (
        &[
            "--ktls",
            "--sni",
            "--groups",
            "--tls13-ciphers",
            "-E",
            "--ssl",
            "--ssl-ciphers",
            "--ssl-no-reuse",
            "--cipher-list",
        ],
        NO_TLS,
    ),
    (
        &[
            "-e",
            "-g",
            "-o",
            "--output",
            "--output-format",
            "--log-file",
            "--qlog-file-base",
            "--db-url",
            "-y",
            "--print-reply",
            "--print-request",
            "--debug",
        ],
        OWN_FORM,
    ),
    (&["-j"], "--json prints the summary as JSON"),
    (&["-I"], "--head asks for heads only"),
    (
        &["-X"],
        "it asks the server itself, by no proxy, and by GET or HEAD (--head): -m says why",
    ),
    (
        &[
            "--no-tui",
            "--no-color",
            "--disable-color",
            "--fps",
            "--stats-success-breakdown",
        ],
        QUIET,
    ),
    (
        &["--burst-delay", "--burst-rate"],
        "its rate is even (-R, --conn-rate): bursts are left to oha",
    ),
    (
        &[
            "--base-uri",
            "--urls-from-file",
            "--rand-regex-url",
            "--max-repeat",
            "--dump-urls",
            "--input-file",
            "--uri",
        ],
        PATHS,
    ),
    (
        &["--connect-timeout", "-N"],
        "--timeout TIME holds for the connection and its request together",
    ),
    (
        &["--timing-script-file"],
        "--ramp TIME and --sizes shape the load; there are no scripts",
    ),
    (
        &[
            "-4",
            "-6",
            "--ipv4",
            "--ipv6",
            "--connect-to",
            "--unix-socket",
            "--vsock-addr",
            "--server",
            "--port",
            "--no-pre-lookup",
        ],
        "write the address itself into the URL: http://10.0.0.1/ or http://[fd00::1]/",
    ),
    (
        &["--disable-compression"],
        "no compression is asked for, unless by -H",
    ),
    (
        &["--clients", "--max-connections"],
        "connections outstanding at once are -c N",
    ),
    (
        &["--num-conns", "--num-calls"],
        "-n N is how many requests, and -k N how many of them \
      a connection has",
    ),
    (
        &["--close-with-reset"],
        "--finish reset ends connections so",
    ),
    (&["--recv-buffer", "--send-buffer", "--hog"], OWN_PACKETS),
    (
        &["--retry-on-failure", "--failure-status"],
        "what fails is counted as an error, and --max-errors PERCENT says how much of it is a failure",
    ),
    (
        &[
            "--flood",
            "--syn",
            "--rand-source",
            "--fast",
            "--faster",
            "--spoof",
        ],
        FLOOD,
    ),
    (
        &["-l"],
        "bodies may differ in length, unless --verify says that they must not; and --csv has all columns",
    ),
    (
        &["-P"],
        "--latency prints percentiles; and there is no proxy to show a password to: -H 'NAME: VALUE' says \
         what the server wants",
    ),
];
