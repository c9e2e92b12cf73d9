//! `outboard ss`: the offloaded sockets, as readers of `ss` expect to see them.

mod foreign;

use crate::control::{Engine, out_of_place};
use ::engine::sockets::SocketFilter;
use ::lab::table::Table;
use anyhow::{Context, Result, anyhow};
use foreign::Foreign;
use queue_pair::control::{ConnInfo, Reply, Request, SocketRow};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the sockets that the engine handles
///
/// Options and filters are those of ss(8), as far as they speak of TCP. Numbers are never turned into
/// names, as with its -n; a filter may name a service, such as sport = :https. A connection over IPv4 to a
/// socket of both families has IPv4 addresses here, and -4 shows it; ss(8) has ::ffff:10.0.0.1, and -6.
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
    /// Show what TCP knows of each connection, and on which cores its program and the engine ran last, the
    /// profile that the program wants and, of several, the interface by which it leaves
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
    /// Show whose each socket is
    #[arg(short, long)]
    processes: bool,
    /// Write all that is shown of a socket into its line
    #[arg(short = 'O', long)]
    oneline: bool,
    /// Leave out the heading
    #[arg(short = 'H', long)]
    no_header: bool,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with_all = ["ipv6", "family"])]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long, conflicts_with = "family")]
    ipv6: bool,
    /// inet (as -4) or inet6 (as -6)
    #[arg(short, long, value_name = "FAMILY", value_parser = family)]
    family: Option<Family>,
    /// Read the filter from a file; - is standard input
    #[arg(
        short = 'F',
        long = "filter",
        value_name = "FILE",
        conflicts_with = "filter"
    )]
    filter_file: Option<PathBuf>,
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

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Inet,
    Inet6,
}

fn family(word: &str) -> Result<Family, String> {
    match word {
        "inet" => Ok(Family::Inet),
        "inet6" => Ok(Family::Inet6),
        _ => Err("inet and inet6 are offloaded; ss(8) shows the kernel's others".into()),
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
        print!("{}", render(&rows, &args.shown(&filter)));
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Everything that was said about which sockets, as one filter for the engine.
    fn whole_filter(&self) -> Result<String> {
        let said = match &self.filter_file {
            Some(path) => read_filter(path)?,
            None => self.filter.join(" "),
        };
        let services = std::fs::read_to_string("/etc/services").unwrap_or_default();
        let words = said.split_whitespace();
        let words: Result<Vec<String>> = words
            .map(|word| foreign::with_port(word, &services))
            .collect();
        let said = words?.join(" ");
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
            parts.push(CONNECTED.to_owned());
        }
        if self.ipv4 || self.family == Some(Family::Inet) {
            parts.push("src 0.0.0.0/0".to_owned());
        }
        if self.ipv6 || self.family == Some(Family::Inet6) {
            parts.push("src ::/0".to_owned());
        }
        let whole = parts.join(" and ");
        read(&whole)?;
        Ok(whole)
    }

    /// `filter` is the whole one.
    fn shown(&self, filter: &str) -> Shown {
        let filter = SocketFilter::parse(filter);
        Shown {
            heading: !self.no_header,
            // As with ss, what is the same for all is not repeated.
            state: self.listening || !filter.is_ok_and(|filter| filter.names_one_state()),
            processes: self.processes,
            oneline: self.oneline,
            info: self.info,
            timers: self.options,
            memory: self.memory,
        }
    }
}

/// A filter from a file, whose lines may begin with `#` for a remark.
fn read_filter(path: &std::path::Path) -> Result<String> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("the filter in {}", path.display()))?;
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    Ok(lines.collect::<Vec<_>>().join(" "))
}

/// What is shown of each socket.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    heading: bool,
    state: bool,
    processes: bool,
    oneline: bool,
    info: bool,
    timers: bool,
    memory: bool,
}

fn render(rows: &[SocketRow], shown: &Shown) -> String {
    let mut table = Table::default();
    let mut details = Vec::new();
    let first = usize::from(!shown.state);
    if shown.heading {
        table.row(HEADINGS.into_iter().skip(first));
        details.push(String::new());
    }
    for row in rows {
        let info = row.info.as_ref();
        let process = process(row).filter(|_| shown.processes);
        let within = row.within.then(|| "local".to_owned());
        let timer = info.and_then(timer).filter(|_| shown.timers);
        let last: Vec<String> = [process, within, timer].into_iter().flatten().collect();
        let cells = [
            state(&row.state).to_string(),
            row.receive_queue.to_string(),
            row.send_queue.to_string(),
            local(row),
            peer(row),
            last.join(" "),
        ];
        table.row(cells.into_iter().skip(first));
        // Of two ends without a connection only a timer is known.
        let known = info.filter(|info| info.send_mss > 0);
        let memory = known.map(memory).filter(|_| shown.memory);
        let described = known.map(describe).filter(|_| shown.info);
        let cores = row.cores.filter(|_| shown.info);
        let cores = cores.map(|(program, engine)| format!("core:{program} engine:{engine}"));
        let profile = row.profile.filter(|_| shown.info);
        let profile = profile.map(|profile| format!("profile:{profile}"));
        let placed = row.placed.as_ref().filter(|_| shown.info);
        let placed = placed.map(|placed| format!("placed:{} {placed}", placed.place));
        let interface = row.interface.as_ref().filter(|_| shown.info);
        let interface = interface.map(|name| format!("interface:{name}"));
        let detail = [memory, described, interface, cores, profile, placed];
        let detail: Vec<String> = detail.into_iter().flatten().collect();
        details.push(detail.join(" "));
    }
    // The first of a table is to the left by itself.
    for column in [0, 3, 4, 5] {
        if column >= first {
            table.left(column - first);
        }
    }
    let between = if shown.oneline { "  " } else { "\n\t " };
    let mut text = String::new();
    for (line, detail) in table.to_string().lines().zip(details) {
        text.push_str(line);
        if !detail.is_empty() {
            text.push_str(between);
            text.push_str(&detail);
        }
        text.push('\n');
    }
    text
}

/// This end; `*` is every address of both families.
fn local(row: &SocketRow) -> String {
    if row.both_families {
        return format!("*:{}", row.local.port());
    }
    row.local.to_string()
}

/// The other end; of a listener any, of its family.
fn peer(row: &SocketRow) -> String {
    match row.peer {
        Some(peer) => peer.to_string(),
        None if row.both_families => "*:*".into(),
        None if row.local.is_ipv4() => "0.0.0.0:*".into(),
        None => "[::]:*".into(),
    }
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

/// Without a word of states: as with ss, neither what listens nor what is no connection yet, or none any
/// more.
const CONNECTED: &str = "exclude listening exclude syn-recv exclude time-wait";

const HEADINGS: [&str; 6] = [
    "State",
    "Recv-Q",
    "Send-Q",
    "Local Address:Port",
    "Peer Address:Port",
    "Process",
];

/// `ss` calls some otherwise.
fn state(name: &str) -> &str {
    match name {
        "ESTABLISHED" => "ESTAB",
        "SYN-RECEIVED" => "SYN-RECV",
        "CLOSED" => "UNCONN",
        name => name,
    }
}

/// Whose it is.
fn process(row: &SocketRow) -> Option<String> {
    let pid = row.pid?;
    Some(format!("users:((\"{}\",pid={pid}))", row.program))
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
    say(info.fast_open, "fastopen".into());
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
    if let Some(bbr) = info.bbr {
        let gain = |percent| significant(f64::from(steps(percent)) / 256.0);
        let (rate, rtt) = (
            bbr.bandwidth.saturating_mul(8),
            milliseconds(bbr.min_rtt_us),
        );
        let gains = format!(
            "pacing_gain:{},cwnd_gain:{}",
            gain(bbr.pacing_gain),
            gain(bbr.cwnd_gain)
        );
        say(true, format!("bbr:(bw:{rate}bps,mrtt:{rtt},{gains})"));
    }
    say(true, format!("lastsnd:{}", info.since_sent_ms));
    say(true, format!("lastrcv:{}", info.since_received_ms));
    // As ss does: what would be sent if each round trip took a window.
    let bits = u64::from(info.congestion_window) * 8;
    let rate = (bits * 1_000_000).checked_div(info.rtt_us.into());
    let rate = rate.filter(|rate| *rate > 0);
    say(rate.is_some(), format!("send {}bps", rate.unwrap_or(0)));
    let pace = info.pacing_rate.map_or(0, |rate| rate.saturating_mul(8));
    say(pace > 0, format!("pacing_rate {pace}bps"));
    let rate = info.delivery_rate.saturating_mul(8);
    say(rate > 0, format!("delivery_rate {rate}bps"));
    let unacked = segments(info.in_flight);
    say(unacked > 0, format!("unacked:{unacked}"));
    let again = segments(info.resent.into());
    say(
        info.retransmits > 0,
        format!("retrans:{again}/{}", info.retransmits),
    );
    let lost = segments(info.lost.into());
    say(lost > 0, format!("lost:{lost}"));
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

/// The steps of 1/256 in which the kernel counts BBR's gains, of one in percent.
fn steps(percent: u16) -> u32 {
    u32::from(percent) * 256 / 100
}

/// A number of one digit before the point, as C writes it with `%g`.
fn significant(number: f64) -> String {
    let text = format!("{number:.5}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const HEADED: Shown = Shown {
        heading: true,
        state: true,
        processes: true,
        oneline: false,
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
            ("", CONNECTED),
            ("-a", ""),
            ("-l", "state listening"),
            ("-4", &format!("{CONNECTED} and src 0.0.0.0/0")),
            ("-a -6", "src ::/0"),
            ("-tlnp sport = :80", "( sport = :80 ) and state listening"),
            ("-ttnO -A tcp -f inet -a", "src 0.0.0.0/0"),
            ("-a -f inet6", "src ::/0"),
            ("-l state established", "( state established )"),
            (
                "dport = 1 or dport = 2",
                &format!("( dport = 1 or dport = 2 ) and {CONNECTED}"),
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
                    processes: true,
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
            both_families: false,
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
            profile: Some(queue_pair::Profile::Latency),
            placed: None,
            interface: None,
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
                "0.0.0.0:*",
                "users:((\"nginx\",pid=12))"
            ]
        );
        assert_eq!(words(lines[2])[0], "ESTAB");
        assert_eq!(words(lines[3]).len(), 5);
        assert_eq!(render(&rows, &Shown::default()).lines().count(), 3);
        // Without -p nobody is named, and one state for all is not repeated.
        let text = render(&rows[..1], &Shown::default());
        assert_eq!(words(&text), ["0", "7", "10.77.0.1:80", "0.0.0.0:*"]);
    }

    #[test]
    fn bbr_tells_what_it_makes_of_the_path() {
        let mut info = ConnInfo {
            congestion: "bbr".into(),
            bbr: Some(queue_pair::control::BbrInfo {
                bandwidth: 1_250_000,
                min_rtt_us: 40_125,
                pacing_gain: 277,
                cwnd_gain: 200,
            }),
            ..ConnInfo::default()
        };
        let told = " bbr:(bw:10000000bps,mrtt:40.125,pacing_gain:2.76953,cwnd_gain:2) lastsnd:";
        assert!(describe(&info).contains(told), "{}", describe(&info));
        info.bbr = None;
        assert!(!describe(&info).contains("bbr:("));
    }

    #[test]
    fn the_state_is_left_out_where_there_is_but_one() {
        for (line, shown) in [
            ("", true),
            ("-l", true),
            ("state connected", true),
            ("state established", false),
            ("state established or sport = :80", true),
            ("-4 state established sport = :80", false),
        ] {
            let words = std::iter::once("ss").chain(line.split_whitespace());
            let args = Only::try_parse_from(words).map(|only| only.args);
            let args = args.unwrap_or_else(|error| panic!("{line}: {error}"));
            let filter = args.whole_filter().unwrap();
            assert_eq!(args.shown(&filter).state, shown, "{line}");
        }
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
        assert!(
            detail.ends_with("core:1 engine:0 profile:latency"),
            "{detail}"
        );
        let oneline = Shown {
            info: true,
            oneline: true,
            ..Shown::default()
        };
        let text = render(&[row(None, "LISTEN", None)], &oneline);
        assert!(
            text.lines().count() == 1 && text.contains("  rto:201 "),
            "{text}"
        );
    }
}
