//! `outboard ss`: the offloaded sockets, as readers of `ss` expect to see them.

use crate::control::{Engine, out_of_place};
use ::engine::sockets::SocketFilter;
use ::lab::table::Table;
use anyhow::{Result, anyhow, bail};
use queue_pair::control::{ConnInfo, Reply, Request, SocketRow};
use std::process::ExitCode;

/// Show the sockets that the engine handles
///
/// Options and filters are those of ss(8), as far as they speak of TCP. The process is always shown,
/// and numbers are never turned into names.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  outboard ss -ai\n  \
    outboard ss state established sport = :80\n  \
    outboard ss -4 '( dport = :443 or dst 10.0.0.0/8 )' and not state time-wait")]
pub struct Args {
    #[command(flatten)]
    engine: Engine,
    /// Show listening sockets too
    #[arg(short, long)]
    all: bool,
    /// Show listening sockets only
    #[arg(short, long)]
    listening: bool,
    /// Show what TCP knows of each connection, and on which cores its program and the engine ran last
    #[arg(short, long)]
    info: bool,
    /// Show what each connection waits for: the timer, how long it still runs, how often it ran out
    #[arg(short, long)]
    options: bool,
    /// Show the memory of each connection: r and rb are what is unread and how much may be, t what is
    /// in flight, w what is submitted and not acknowledged; the rest is 0, since sending takes memory
    /// of the program's
    #[arg(short, long)]
    memory: bool,
    /// Leave out the heading
    #[arg(short = 'H', long)]
    no_header: bool,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    // Not a comment of the field: rustdoc would take the brackets for links.
    #[arg(
        value_name = "FILTER",
        help = "Which sockets, in the words of ss(8): state STATE, exclude STATE, sport|dport OP \
                :PORT, src|dst ADDRESS[/BITS][:PORT], and, or, not, parentheses"
    )]
    filter: Vec<String>,
    #[command(flatten)]
    foreign: Foreign,
}

/// Options of ss(8) that say what is so anyway, or ask for what is not here.
#[derive(clap::Args)]
struct Foreign {
    #[arg(short = 't', long, hide = true)]
    tcp: bool,
    #[arg(short = 'n', long, hide = true)]
    numeric: bool,
    #[arg(short = 'p', long, hide = true)]
    processes: bool,
    #[arg(short = 's', long, hide = true)]
    summary: bool,
    #[arg(short = 'u', long, hide = true)]
    udp: bool,
    #[arg(short = 'x', long, hide = true)]
    unix: bool,
    #[arg(short = 'K', long, hide = true)]
    kill: bool,
}

impl Foreign {
    fn check(&self) -> Result<()> {
        for (given, name, instead) in [
            (self.summary, "-s", "outboard stats has the sums"),
            (
                self.udp,
                "-u",
                "only TCP is offloaded: ss -u shows the kernel's",
            ),
            (
                self.unix,
                "-x",
                "only TCP is offloaded: ss -x shows the kernel's",
            ),
            (self.kill, "-K", "a connection is its program's to end"),
        ] {
            if given {
                bail!("{name}: {instead}");
            }
        }
        Ok(())
    }
}

/// Prints the sockets.
pub fn run(args: Args) -> Result<ExitCode> {
    args.foreign.check()?;
    let filter = args.whole_filter()?;
    let mut control = args.engine.connect()?;
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        match control.ask(&Request::Sockets {
            after,
            filter: filter.clone(),
        })? {
            Reply::Sockets { rows: some, next } => {
                rows.extend(some);
                after = next;
            }
            other => return Err(out_of_place(&other)),
        }
        if after.is_none() {
            break;
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", render(&rows, &args.shown()));
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Everything that was said about which sockets, as one filter for the engine.
    fn whole_filter(&self) -> Result<String> {
        let said = self.filter.join(" ");
        let read =
            |text: &str| SocketFilter::parse(text).map_err(|error| anyhow!("filter: {error}"));
        let filter = read(&said)?;
        let mut parts = Vec::new();
        if !said.trim().is_empty() {
            parts.push(format!("( {said} )"));
        }
        // As with ss, a filter that names states says it all.
        if !filter.names_states() && self.listening {
            parts.push("state listening".to_owned());
        } else if !filter.names_states() && !self.all {
            parts.push("exclude listening".to_owned());
        }
        if self.ipv4 {
            parts.push("src 0.0.0.0/0".to_owned());
        }
        if self.ipv6 {
            parts.push("src ::/0".to_owned());
        }
        let whole = parts.join(" and ");
        read(&whole)?;
        Ok(whole)
    }

    fn shown(&self) -> Shown {
        Shown {
            heading: !self.no_header,
            info: self.info,
            timers: self.options,
            memory: self.memory,
        }
    }
}

/// What is shown of each socket.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    heading: bool,
    info: bool,
    timers: bool,
    memory: bool,
}

fn render(rows: &[SocketRow], shown: &Shown) -> String {
    let mut table = Table::default();
    let mut details = Vec::new();
    if shown.heading {
        table.row(HEADINGS);
        details.push(String::new());
    }
    for row in rows {
        let mut last = users(row);
        if let Some(timer) = row.info.as_ref().and_then(timer).filter(|_| shown.timers) {
            last += if last.is_empty() { "" } else { " " };
            last += &timer;
        }
        table.row([
            state(&row.state).to_string(),
            row.receive_queue.to_string(),
            row.send_queue.to_string(),
            row.local.to_string(),
            row.peer
                .map_or_else(|| "*:*".into(), |peer| peer.to_string()),
            last,
        ]);
        let mut detail = String::new();
        if let Some(info) = &row.info {
            if shown.memory {
                detail += &format!(" {}", memory(info));
            }
            if shown.info {
                detail += &format!(" {}", describe(info));
            }
        }
        if let Some((program, engine)) = row.cores.filter(|_| shown.info) {
            detail += &format!(" core:{program} engine:{engine}");
        }
        details.push(detail);
    }
    for column in [3, 4, 5] {
        table.left(column);
    }
    let mut text = String::new();
    for (line, detail) in table.to_string().lines().zip(details) {
        text.push_str(line);
        text.push('\n');
        if !detail.is_empty() {
            text.push_str(&format!("\t{detail}\n"));
        }
    }
    text
}

/// As `ss -o` writes it: `timer:(on,200ms,0)`.
fn timer(info: &ConnInfo) -> Option<String> {
    let (name, left) = info.timer.as_ref()?;
    let (seconds, milliseconds) = (left / 1000, left % 1000);
    let left = match (seconds, milliseconds) {
        (0, left) => format!("{left}ms"),
        (60.., _) => format!("{}min{}sec", seconds / 60, seconds % 60),
        (seconds @ 10.., _) | (seconds, 0) => format!("{seconds}sec"),
        (seconds, left) => format!("{seconds}.{left:03}ms"),
    };
    Some(format!("timer:({name},{left},{})", info.unanswered))
}

/// As `ss -m` writes it.
fn memory(info: &ConnInfo) -> String {
    format!(
        "skmem:(r{},rb{},t{},tb0,f0,w{},o0,bl0,d0)",
        info.unread + u64::from(info.out_of_order),
        info.receive_buffer,
        info.in_flight,
        info.unacked
    )
}

const HEADINGS: [&str; 6] = [
    "State",
    "Recv-Q",
    "Send-Q",
    "Local Address:Port",
    "Peer Address:Port",
    "Process",
];

/// `ss` abbreviates one name.
fn state(name: &str) -> &str {
    if name == "ESTABLISHED" { "ESTAB" } else { name }
}

/// Whose it is, and whether its other end is on this machine.
fn users(row: &SocketRow) -> String {
    let users = row
        .pid
        .map(|pid| format!("users:((\"{}\",pid={pid}))", row.program));
    let within = row.within.then(|| "local".to_owned());
    users
        .into_iter()
        .chain(within)
        .collect::<Vec<_>>()
        .join(" ")
}

/// In the words of `ss -i`.
fn describe(info: &ConnInfo) -> String {
    let milliseconds = |microseconds: u32| f64::from(microseconds) / 1_000.0;
    let segments = |bytes: u64| bytes.div_ceil(info.send_mss.max(1).into());
    let mut words = Vec::new();
    let mut say = |wanted: bool, word: String| {
        if wanted {
            words.push(word);
        }
    };
    say(info.timestamps, "ts".into());
    say(info.selective_acks, "sack".into());
    say(!info.congestion.is_empty(), info.congestion.clone());
    if let Some((theirs, ours)) = info.window_scales {
        say(true, format!("wscale:{theirs},{ours}"));
    }
    say(true, format!("rto:{}", milliseconds(info.rto_us)));
    say(info.backoff > 0, format!("backoff:{}", info.backoff));
    let (rtt, variation) = (milliseconds(info.rtt_us), milliseconds(info.rtt_var_us));
    say(true, format!("rtt:{rtt}/{variation}"));
    say(true, format!("mss:{}", info.send_mss));
    say(true, format!("pmtu:{}", info.path_mtu));
    say(true, format!("rcvmss:{}", info.receive_mss));
    say(true, format!("advmss:{}", info.announced_mss));
    let window = info.congestion_window / info.send_mss.max(1);
    say(true, format!("cwnd:{window}"));
    // All ones: no loss so far.
    let threshold = info.slow_start_threshold / info.send_mss.max(1);
    let lossy = info.slow_start_threshold < u32::MAX / 2;
    say(lossy, format!("ssthresh:{threshold}"));
    say(
        info.bytes_sent > 0,
        format!("bytes_sent:{}", info.bytes_sent),
    );
    say(
        info.bytes_resent > 0,
        format!("bytes_retrans:{}", info.bytes_resent),
    );
    say(true, format!("bytes_acked:{}", info.bytes_acked));
    say(true, format!("bytes_received:{}", info.bytes_received));
    say(true, format!("segs_out:{}", info.segments_out));
    say(true, format!("segs_in:{}", info.segments_in));
    say(true, format!("data_segs_out:{}", info.data_segments_out));
    say(true, format!("data_segs_in:{}", info.data_segments_in));
    say(true, format!("lastsnd:{}", info.since_sent_ms));
    say(true, format!("lastrcv:{}", info.since_received_ms));
    let pace = info.pacing_rate.map_or(0, |rate| rate.saturating_mul(8));
    say(pace > 0, format!("pacing_rate {pace}bps"));
    let rate = info.delivery_rate.saturating_mul(8);
    say(rate > 0, format!("delivery_rate {rate}bps"));
    let unacked = segments(info.in_flight);
    say(unacked > 0, format!("unacked:{unacked}"));
    say(
        info.retransmits > 0,
        format!("retrans:{}", info.retransmits),
    );
    say(
        info.out_of_order > 0,
        format!("out_of_order:{}", info.out_of_order),
    );
    say(true, format!("reordering:{}", info.reordering));
    let minimum = milliseconds(info.min_rtt_us);
    say(info.min_rtt_us > 0, format!("minrtt:{minimum}"));
    say(true, format!("rcv_wnd:{}", info.receive_window));
    say(true, format!("snd_wnd:{}", info.send_window));
    let age = info.age_ns as f64 / 1e9;
    say(true, format!("age:{age:.1}s"));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const HEADED: Shown = Shown {
        heading: true,
        info: false,
        timers: false,
        memory: false,
    };

    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_and_filter_are_one_question_to_the_engine() {
        for (line, expected) in [
            ("", "exclude listening"),
            ("-a", ""),
            ("-l", "state listening"),
            ("-4", "exclude listening and src 0.0.0.0/0"),
            ("-a -6", "src ::/0"),
            ("-tlnp sport = :80", "( sport = :80 ) and state listening"),
            ("-l state established", "( state established )"),
            (
                "dport = 1 or dport = 2",
                "( dport = 1 or dport = 2 ) and exclude listening",
            ),
        ] {
            let words = std::iter::once("ss").chain(line.split_whitespace());
            let only =
                Only::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(only.args.whole_filter().unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn timers_and_memory_read_like_those_of_ss() {
        let mut row = row(Some("10.77.0.2:40000"), "ESTABLISHED", Some(12));
        let info = row.info.as_mut().unwrap();
        (info.unread, info.out_of_order, info.receive_buffer) = (10, 5, 4096);
        (info.in_flight, info.unacked, info.unanswered) = (3, 7, 2);
        for (name, left, expected) in [
            ("on", 187, "timer:(on,187ms,2)"),
            ("persist", 2_040, "timer:(persist,2.040ms,2)"),
            ("on", 40_000, "timer:(on,40sec,2)"),
            ("keepalive", 7_199_000, "timer:(keepalive,119min59sec,2)"),
        ] {
            row.info.as_mut().unwrap().timer = Some((name.into(), left));
            let text = render(
                std::slice::from_ref(&row),
                &Shown {
                    timers: true,
                    memory: true,
                    ..Shown::default()
                },
            );
            assert!(
                text.contains(&format!(" users:((\"nginx\",pid=12)) {expected}\n")),
                "{text}"
            );
            let memory = "\n\t skmem:(r15,rb4096,t3,tb0,f0,w7,o0,bl0,d0)\n";
            assert!(text.contains(memory), "{text}");
        }
    }

    fn row(peer: Option<&str>, state: &str, pid: Option<u32>) -> SocketRow {
        SocketRow {
            conn: None,
            session: pid,
            pid,
            program: "nginx".into(),
            local: "10.77.0.1:80".parse().unwrap(),
            peer: peer.map(|peer| peer.parse().unwrap()),
            within: false,
            state: state.into(),
            receive_queue: 0,
            send_queue: 7,
            info: Some(ConnInfo {
                rtt_us: 1_500,
                rto_us: 201_000,
                send_mss: 1_448,
                congestion_window: 14_480,
                slow_start_threshold: u32::MAX,
                age_ns: 12_340_000_000,
                ..ConnInfo::default()
            }),
            cores: Some((1, 0)),
        }
    }

    #[test]
    fn rows_read_like_those_of_ss() {
        let rows = [
            row(None, "LISTEN", Some(12)),
            row(Some("10.77.0.2:40000"), "ESTABLISHED", Some(12)),
            row(Some("10.77.0.2:40001"), "FIN-WAIT-2", None),
        ];
        let text = render(&rows, &HEADED);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("State") && lines[0].ends_with("Process"));
        let words = |line: &str| {
            line.split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(lines[1]),
            [
                "LISTEN",
                "0",
                "7",
                "10.77.0.1:80",
                "*:*",
                "users:((\"nginx\",pid=12))"
            ]
        );
        assert_eq!(words(lines[2])[0], "ESTAB");
        assert_eq!(words(lines[3]).len(), 5);
        assert_eq!(render(&rows, &Shown::default()).lines().count(), 3);
    }

    #[test]
    fn details_stand_under_their_row() {
        let text = render(
            &[row(Some("10.77.0.2:40000"), "ESTABLISHED", None)],
            &Shown {
                info: true,
                ..Shown::default()
            },
        );
        let detail = text.lines().nth(1).unwrap();
        assert!(detail.starts_with("\t rto:201 rtt:1.5/0 mss:1448 pmtu:0"));
        assert!(detail.contains(" cwnd:10 bytes_acked:0 "));
        assert!(!detail.contains("ssthresh"));
        assert!(detail.ends_with("age:12.3s core:1 engine:0"), "{detail}");
    }
}
