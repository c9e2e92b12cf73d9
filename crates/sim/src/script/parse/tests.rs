use super::*;
use crate::script::packet::{Body, TcpOption};
use proptest::prelude::*;

const WHOLE: &str = r#"
// A comment.
--ip_version=ipv4
--tolerance_usecs=10000
`sysctl -q net.ipv4.tcp_timestamps=0
 net.ipv4.tcp_rmem="4096 65536 65536"`

0.000 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0    setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
+0    bind(3, {sa_family = AF_INET, sin_port = htons(9000), sin_addr = inet_addr("0.0.0.0")}, ...) = 0
+0    listen(3, 1) = 0 /* another */
0.1   < S 0:0(0) win 65535 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7>
+0    > S. 0:0(0) ack 1 <...>
@linux +.01 < [ect0, port 40001] P. 1:1001(1000) ack 1 win 257 <nop,nop,sack 1:2 3:4>
+0~+.2 > [tos 0x28] . 1:1(0) ack 1001
*     > R 1:1(0)
+0...0.3 read(4, ..., 1000) = -1 EAGAIN (Resource temporarily unavailable)
+0    poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1
+0    fcntl(4, F_GETFL) = 0x802 (flags O_RDWR|O_NONBLOCK)
+0    < icmp unreachable frag_needed mtu 1200 [1:1001(1000)]
+0    %{ assert tcpi_snd_cwnd == 10, 'why'
         assert not (tcpi_rto + 1 > 2 * 3) and tcpi_state == TCP_ESTABLISHED }%
"#;

#[test]
fn a_whole_script_is_read() {
    let script = parse(WHOLE).unwrap();
    assert_eq!(script.options.version, Some(Version::V4));
    assert_eq!(script.options.tolerance, Duration::from_millis(10));
    assert_eq!(script.settings.len(), 2);
    assert_eq!(script.settings[1].value, "4096 65536 65536");
    assert_eq!(script.events.len(), 14);
    assert_eq!(script.events[6].only, Some(Side::Linux));
    let What::Inbound(packet) = &script.events[6].what else {
        panic!("a packet");
    };
    assert_eq!(packet.port, Some(40_001));
    let Body::Tcp(segment) = &packet.body else {
        panic!("a segment");
    };
    let sack = TcpOption::Sack(vec![(1, 2), (3, 4)]);
    let options = vec![TcpOption::Nop, TcpOption::Nop, sack];
    assert_eq!(segment.options.as_ref(), Some(&options));
    let What::Outbound(packet) = &script.events[7].what else {
        panic!("a packet");
    };
    assert_eq!((packet.tos, packet.ecn), (Some(0x28), None));
    let When::Between(_, latest) = script.events[7].when else {
        panic!("a range");
    };
    assert_eq!(latest, Moment::After(Duration::from_millis(200)));
    assert_eq!(script.events[8].when, When::Any);
    let When::During(_, end) = script.events[9].when else {
        panic!("a span");
    };
    assert_eq!(end, Moment::After(Duration::from_millis(300)));
    let What::Assert(assertions) = &script.events[13].what else {
        panic!("assertions");
    };
    assert_eq!(assertions[0].text, "tcpi_snd_cwnd == 10");
    assert_eq!(assertions.len(), 2);
    let fields = |name: &str| match name {
        "tcpi_rto" => Some(5),
        "tcpi_state" => Some(1),
        _ => None,
    };
    assert_eq!(assertions[1].condition.value(&fields), Ok(1));
    assert!(assertions[0].condition.value(&fields).is_err());
}

/// Where a text is wrong, and what is said of it.
fn wrong(text: &str) -> (u32, u32, String) {
    let error = parse(text).unwrap_err();
    (error.line, error.column, error.message)
}

#[test]
fn errors_name_line_and_column() {
    for (text, line, column, part) in [
        ("0 < S 0:0(0)\n+0 frob(3) = 0", 2, 4, "frob"),
        ("0 < S 0:0(1)", 1, 7, "do not lead"),
        ("0 < S. 0:0(0) win 5", 1, 14, "go together"),
        ("0 < Q 0:0(0)", 1, 5, "flags"),
        ("0 < S 0:0(0) <mss 1460", 1, 23, "expected \",\""),
        ("0 < S 0:0(0) <mss 146000>", 1, 19, "more than 65535"),
        ("0 < S 0:0(0) <...>", 1, 14, "known options"),
        ("0 > icmp unreachable port_unreachable", 1, 5, "only arrive"),
        ("0 < [tos 0x28] S 0:0(0)", 1, 6, "of what leaves"),
        ("0 > [tos 0x29] . 1:1(0) ack 1", 1, 6, "a mark"),
        ("\n  /* no end", 2, 3, "no end"),
        ("0~1 close(3) = 0", 1, 1, "range of times"),
        ("0...1 > . 1:1(0) ack 1", 1, 1, "only a call"),
        ("0 close(3, 4) = 0", 1, 3, "takes 1 arguments"),
        ("0 close(3) = -1 EWHAT", 1, 17, "no error"),
        ("--mtu=9", 1, 7, "less than 576"),
        ("`rm -rf`", 1, 2, "name=value"),
        ("`net.ipv4.ip_forward=1`", 1, 2, "cannot be set"),
        ("0 %{ assert os == 1 }%", 1, 13, "tcpi_"),
        ("x", 1, 1, "expected a time"),
        ("99999999 close(3) = 0", 1, 1, "more than"),
    ] {
        let (at_line, at_column, message) = wrong(text);
        assert_eq!((at_line, at_column), (line, column), "{text:?}: {message}");
        assert!(message.contains(part), "{text:?}: {message}");
    }
}

#[test]
fn there_are_limits() {
    let long = " ".repeat(MAX_TEXT + 1);
    assert!(wrong(&long).2.contains("longer"));
    let many = "0 close(3) = 0\n".repeat(MAX_EVENTS + 1);
    assert!(wrong(&many).2.contains("events"));
    let deep = format!("0 %{{ assert {}1 }}%", "(".repeat(1000));
    assert!(wrong(&deep).2.contains("deep"));
    let deep = format!("0 %{{ assert {}1 }}%", "not ".repeat(1000));
    assert!(wrong(&deep).2.contains("deep"));
    let nested = format!("0 close({}", "[".repeat(1000));
    assert!(wrong(&nested).2.contains("deep"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".*") {
        let _ = parse(&text);
    }

    #[test]
    fn a_damaged_script_is_read_or_refused(at in 0..WHOLE.len(), damage in "[ -~]{0,3}", cut in 0..4_usize) {
        let end = (at + cut).min(WHOLE.len());
        let text = format!("{}{damage}{}", &WHOLE[..at], &WHOLE[end..]);
        let _ = parse(&text);
    }
}
