//! `outboard ss`: the offloaded sockets, as readers of `ss` expect to see them.

mod filter;

use crate::control::{Engine, out_of_place};
use ::lab::table::Table;
use anyhow::{Result, anyhow, bail};
use filter::Filter;
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
    /// Show what TCP knows of each connection
    #[arg(short, long)]
    info: bool,
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
    #[arg(short = 'o', long, hide = true)]
    options: bool,
    #[arg(short = 'm', long, hide = true)]
    memory: bool,
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
            (
                self.options,
                "-o",
                "the engine does not tell its timers; -i shows rto and backoff",
            ),
            (
                self.memory,
                "-m",
                "memory is the program's own: Recv-Q and Send-Q say how much of it is used",
            ),
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
    let filter = Filter::parse(&args.filter).map_err(|error| anyhow!("filter: {error}"))?;
    let mut control = args.engine.connect()?;
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        match control.ask(&Request::Sockets { after })? {
            Reply::Sockets { rows: some, next } => {
                rows.extend(some.into_iter().filter(|row| args.wants(row, &filter)));
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
        print!("{}", render(&rows, !args.no_header, args.info));
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn wants(&self, row: &SocketRow, filter: &Filter) -> bool {
        let is_ipv4 = row.local.ip().to_canonical().is_ipv4();
        let of_family = match (self.ipv4, self.ipv6) {
            (true, _) => is_ipv4,
            (_, true) => !is_ipv4,
            _ => true,
        };
        let of_kind = match row.peer {
            // As with ss, a filter that names states says it all.
            _ if filter.names_states() => true,
            None => self.all || self.listening,
            Some(_) => !self.listening,
        };
        of_family && of_kind && filter.wants(row)
    }
}

fn render(rows: &[SocketRow], heading: bool, info: bool) -> String {
    let mut table = Table::default();
    let mut details = Vec::new();
    if heading {
        table.row(HEADINGS);
        details.push(None);
    }
    for row in rows {
        table.row([
            state(&row.state).to_string(),
            row.receive_queue.to_string(),
            row.send_queue.to_string(),
            row.local.to_string(),
            row.peer
                .map_or_else(|| "*:*".into(), |peer| peer.to_string()),
            users(row),
        ]);
        details.push(row.info.as_ref().filter(|_| info));
    }
    for column in [3, 4, 5] {
        table.left(column);
    }
    let mut text = String::new();
    for (line, detail) in table.to_string().lines().zip(details) {
        text.push_str(line);
        text.push('\n');
        if let Some(detail) = detail {
            text.push_str(&format!("\t {}\n", describe(detail)));
        }
    }
    text
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
    use super::{ConnInfo, SocketRow, render};

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
        }
    }

    #[test]
    fn rows_read_like_those_of_ss() {
        let rows = [
            row(None, "LISTEN", Some(12)),
            row(Some("10.77.0.2:40000"), "ESTABLISHED", Some(12)),
            row(Some("10.77.0.2:40001"), "FIN-WAIT-2", None),
        ];
        let text = render(&rows, true, false);
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
        assert_eq!(render(&rows, false, false).lines().count(), 3);
    }

    #[test]
    fn details_stand_under_their_row() {
        let text = render(
            &[row(Some("10.77.0.2:40000"), "ESTABLISHED", None)],
            false,
            true,
        );
        let detail = text.lines().nth(1).unwrap();
        assert!(detail.starts_with("\t rto:201 rtt:1.5/0 mss:1448 pmtu:0"));
        assert!(detail.contains(" cwnd:10 bytes_acked:0 "));
        assert!(!detail.contains("ssthresh"));
        assert!(detail.ends_with("age:12.3s"), "{detail}");
    }
}
