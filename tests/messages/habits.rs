//! Options of tools that people come from: each is there, or its absence is explained where it is tried.

use super::calls::{OUTBOARD, complaint, says};
use std::process::Command;

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

/// Tools that people come from, the command that does the like here, and all their options, as their
/// manuals list them, with a value where they want one.
const TOOLS: &[(&str, &[&str], &str)] = &[
    (
        "wrk and wrk2",
        LOAD,
        "-c=9 --connections=9 -d=9s --duration=9s -t=2 --threads=2 -s=x.lua --script=x.lua -H=A:b \
         --header=A:b --latency -L --timeout=2s -U --u_latency -B --batch_latency -R=9 --rate=9 -v \
         --version",
    ),
    (
        "h1load",
        LOAD,
        "-d=9 -c=9 -n=9 -r=9 -s=9 -t=9 -w=9 -T=9 -R=9 -H=A:b -O=1/1 -l -A -P -e -F -I -S -v \
         --cipher-list=x",
    ),
    (
        "h2load",
        LOAD,
        "-n=9 --requests=9 -c=9 --clients=9 -t=9 --threads=9 -i=x --input-file=x -m=9 \
         --max-concurrent-streams=9 -f=9 --max-frame-size=9 -w=9 --window-bits=9 -W=9 \
         --connection-window-bits=9 -H=A:b --header=A:b --ciphers=x --tls13-ciphers=x -p=x --no-tls-proto=x \
         -d=x --data=x -r=9 --rate=9 --rate-period=1s -D=9 --duration=9 --warm-up-time=9 -T=9 \
         --connection-active-timeout=9 -N=9 --connection-inactivity-timeout=9 --timing-script-file=x -B=x \
         --base-uri=x --npn-list=x --alpn-list=x --h1 --header-table-size=9 --encoder-header-table-size=9 \
         --log-file=x --qlog-file-base=x --connect-to=x --rps=9 --groups=x --no-udp-gso \
         --max-udp-payload-size=9 --ktls --sni=x -v --verbose --version -h --help",
    ),
    (
        "ab",
        LOAD,
        "-n=9 -c=9 -t=9 -s=9 -b=9 -B=10.0.0.1 -p=x -u=x -T=x/y -v=4 -w -i -x=a -y=a -z=a -C=a=b -H=A:b \
         -A=a:b -P=a:b -X=a:1 -V -k -d -S -q -l -g=x -e=x -r -h -m=POST -I -Z=x -f=x -E=x",
    ),
    (
        "oha",
        LOAD,
        "-n=9 -c=9 -p=9 -z=9s -w --wait-ongoing-requests-after-deadline -q=9 --burst-delay=1s \
         --burst-rate=9 --rand-regex-url --urls-from-file --max-repeat=9 --dump-urls=9 \
         --latency-correction --no-tui -j --json --fps=9 -m=GET --method=GET -H=A:b --proxy-header=A:b -t=9s \
         --timeout=9s --connect-timeout=9s -A=x --accept=x -d=x -D=x -Z=x -F=x -T=x/y --content-type=x/y \
         -a=a:b --basic-auth=a:b --aws-session=x --aws-sigv4=x -x=x --proxy=x --proxy-http-version=1 \
         --proxy-http2 --http-version=2 --http2 --host=x --disable-compression -r=0 --redirect=0 \
         --disable-keepalive --no-pre-lookup --ipv6 --ipv4 --cacert=x --cert=x --key=x --insecure \
         --connect-to=x --no-color --disable-color --unix-socket=x --vsock-addr=x \
         --stats-success-breakdown --db-url=x --debug -o=x --output=x --output-format=csv -u=s \
         --time-unit=s -V --version",
    ),
    (
        "httperf",
        LOAD,
        "--add-header=A:b --burst-length=9 --client=1/2 --close-with-reset -d=9 --debug=9 \
         --failure-status=500 --hog --http-version=1.0 --max-connections=9 --max-piped-calls=9 --method=GET \
         --no-host-hdr --num-calls=9 --num-conns=9 --period=1 --port=80 --print-reply --print-request \
         --rate=9 --recv-buffer=9 --retry-on-failure --send-buffer=9 --server=x --server-name=x \
         --session-cookies --ssl --ssl-ciphers=x --ssl-no-reuse --think-timeout=1 --timeout=9 --uri=/x \
         -v --verbose -V --version --wlog=y,x --wsess=1,1,1 --wsesslog=1,1,x --wset=1,1",
    ),
    (
        "hping3",
        LOAD,
        "--flood --syn --rand-source --fast --faster --spoof=10.0.0.1",
    ),
    (
        "ss",
        &["ss"],
        "-h --help -V --version -n --numeric -r --resolve -a --all -l --listening -o --options -e --extended \
         -m --memory -p --processes -T --threads -i --info --tipcinfo -s --summary --tos --cgroup -b --bpf \
         -E --events -Z --context -z --contexts -N=x --net=x -4 --ipv4 -6 --ipv6 -0 --packet -t --tcp -M \
         --mptcp -S --sctp -u --udp -d --dccp -w --raw -x --unix --tipc --vsock --xdp -f=inet --family=inet \
         -K --kill -H --no-header -O --oneline --inet-sockopt -A=tcp --query=tcp --socket=tcp -D=x --diag=x \
         -F=x --filter=x -Q --no-queues -B --bound-inactive --bpf-maps",
    ),
    (
        "nginx",
        &["engine", "-i", "no-such0"],
        "-h -v -V -t -T -q -s=stop -p=x -e=x -c=x -g=x",
    ),
    (
        "nginx, too",
        SERVE,
        "-h -v -V -t -T -q -s=stop -p=x -e=x -c=x -g=x",
    ),
    (
        "python -m http.server",
        SERVE,
        "-h --help --cgi -b=::1 --bind=::1 -d=x --directory=x -p=HTTP/1.1 --protocol=HTTP/1.1 --tls-cert=x \
         --tls-key=x --tls-password-file=x",
    ),
    (
        "other servers of files",
        SERVE,
        "-a=x --address=x --addr=x --listen=:0 --root=x --browse --domain=x --port=8000 --cors --proxy=x \
         -f -u=x --uid=x --gid=x --chroot --daemon --no-listing --maxconn=9 -P=x -S",
    ),
    (
        "httpterm",
        &["respond", "-i", "no-such0"],
        "-h -D -L=:80 -v -V -q -n=9 -N=9 -m=9 -t=9 -s=x -l -c=9",
    ),
];
const LOAD: &[&str] = &["load", "http://10.77.0.1/"];
/// There is no such directory, so that none of them serves.
const SERVE: &[&str] = &["serve", "/nonexistent"];

#[test]
fn every_option_of_the_tools_of_the_kind_is_there_or_explained() {
    let mut tried = 0;
    for (tool, command, options) in TOOLS {
        for option in options.split_whitespace() {
            let words = option.splitn(2, '=');
            let output = Command::new(OUTBOARD)
                .args(*command)
                .args(words)
                .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock")
                .output()
                .expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            let is_unknown = said.contains("unexpected argument") || said.contains("panicked");
            assert!(!is_unknown, "{tool} {option}: {said}");
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn what_is_a_switch_elsewhere_or_one_too_many_is_understood() {
    // A whole line of ab's, and one of Python's.
    for (arguments, part) in [
        (
            &["load", "-k", "-n", "9", "-c", "2", LOAD[1]][..],
            "leave it out",
        ),
        (
            &["load", "-n", "9", "-k", LOAD[1]],
            "how many requests a connection has",
        ),
        (&["load", "-i", "-n", "9", LOAD[1]], "--head"),
        (&["load", "-n", "9", "-i", LOAD[1]], "--head"),
        (&["load", "-S", "-n", "9", LOAD[1]], "nothing is estimated"),
        (&["load", "-d", "-n", "9", LOAD[1]], "how long it lasts"),
        (&["load", LOAD[1], "-q", "100"], "-R RATE"),
        (&["load", LOAD[1], LOAD[1]], "--path PATH"),
        (&["serve", "/tmp", "8000"], "outboard serve DIR -p PORT"),
    ] {
        says(arguments, &[part]);
    }
}
