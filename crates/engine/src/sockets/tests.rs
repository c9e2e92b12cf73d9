//! What filters want, and what is none.

use super::*;

fn row(state: &str, local: &str, peer: Option<&str>) -> SocketRow {
    SocketRow {
        both_families: false,
        cores: None,
        profile: None,
        placed: None,
        conn: None,
        session: None,
        pid: None,
        program: String::new(),
        local: local.parse().unwrap(),
        peer: peer.map(|peer| peer.parse().unwrap()),
        within: false,
        state: state.into(),
        receive_queue: 0,
        send_queue: 0,
        info: None,
        interface: None,
    }
}

/// Which of four sockets a filter wants.
fn wanted(text: &str) -> Vec<usize> {
    let rows = [
        row("LISTEN", "10.0.0.1:80", None),
        row("ESTABLISHED", "10.0.0.1:80", Some("10.0.0.2:40000")),
        row("TIME-WAIT", "10.0.0.1:443", Some("192.0.2.9:50000")),
        row("SYN-RECEIVED", "[fd00::1]:80", Some("[fd00::2]:40000")),
    ];
    let filter = SocketFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (0..4).filter(|index| filter.wants(&rows[*index])).collect()
}

#[test]
fn sockets_are_told_apart_as_ss_does() {
    for (text, expected) in [
        ("state established", &[1][..]),
        ("state listening", &[0]),
        ("state listen", &[0]),
        ("state syn-recv", &[3]),
        ("exclude time-wait", &[0, 1, 3]),
        ("state connected", &[1, 2, 3]),
        ("state synchronized", &[1, 2, 3]),
        ("state bucket", &[2, 3]),
        ("state big", &[0, 1]),
        ("state all", &[0, 1, 2, 3]),
        ("sport = :80", &[0, 1, 3]),
        ("sport != 80", &[2]),
        ("dport gt :45000", &[2]),
        ("dport >= 40000", &[1, 2, 3]),
        ("dport lt 40000", &[]),
        ("sport le 80", &[0, 1, 3]),
        ("sport :443", &[2]),
        ("dport 40000", &[1, 3]),
        ("src :443", &[2]),
        ("dst *:40000", &[1, 3]),
        ("dst 10.0.0.0/8:40000", &[1]),
        ("dst 10.0.0.0/8:1", &[]),
        ("src [fd00::]/16:80", &[3]),
        ("src [fd00::]/16", &[3]),
        ("src fd00::1", &[3]),
        ("state listening state time-wait", &[0, 2]),
        ("state all exclude established exclude time-wait", &[0, 3]),
        ("state listening and state time-wait", &[]),
        ("dst 10.0.0.0/8", &[1]),
        ("dst = 10.0.0.2:40000", &[1]),
        ("dst 10.0.0.2:1", &[]),
        ("src fd00::/16", &[3]),
        ("dst [fd00::2]:40000", &[3]),
        ("dst [fd00::2]", &[3]),
        ("src 0.0.0.0/0", &[0, 1, 2]),
        ("src 10.0.0.1/31 and dst 192.0.2.0/24", &[2]),
        ("state established sport = :80", &[1]),
        ("sport = :443 or state listening", &[0, 2]),
        ("not sport = :80", &[2]),
        ("! ( sport = :443 or dst fd00::/8 )", &[0, 1]),
        ("(sport = :80 or sport = :443) and dport = 50000", &[2]),
        ("sport = :80 and dport = :40000 or sport = :443", &[1, 2, 3]),
        ("sport = :443 or sport = :80 and dport = :40000", &[1, 2, 3]),
    ] {
        assert_eq!(wanted(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_filter_is_refused_with_one_that_is() {
    for (text, part) in [
        ("stat established", "state established sport = :80"),
        ("state up", "there are established"),
        ("state", "is no state"),
        ("sport like 80", "sport = :80"),
        ("dst 10.0.0.1:http", "dst 10.0.0.0/8"),
        ("sport = http", "sport = :80"),
        ("dst nowhere", "dst 10.0.0.0/8"),
        ("dst 10.0.0.0/33", "dst 10.0.0.0/8"),
        ("( sport = :80", "not closed"),
        ("sport = :80 )", "follows"),
        ("sport = :80 and", "missing"),
    ] {
        let error = SocketFilter::parse(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_filter_of_states_is_known() {
    let names = |text: &str| SocketFilter::parse(text).unwrap().names_states();
    assert!(names("sport = :80 and ( not state listening )"));
    assert!(!names("sport = :80 or dst 10.0.0.1"));
    assert!(!SocketFilter::parse("").unwrap().names_states());
    let one = |text: &str| SocketFilter::parse(text).unwrap().names_one_state();
    assert!(one("state listening sport = :80"));
    assert!(!one("state connected") && !one("not state listening") && !one("sport = :80"));
    assert!(!one("state listening state closing") && !one("state closed or sport = :80"));
}

#[test]
fn what_is_out_of_the_question_is_known() {
    for (text, may) in [
        ("", true),
        ("sport = :80", true),
        ("not sport = :80", true),
        ("state big", false),
        ("exclude time-wait", false),
        ("not ( state time-wait or sport = :80 )", false),
        ("not ( state time-wait and sport = :80 )", true),
        ("state established or dst 10.0.0.0/8", true),
        (
            "( sport = :80 ) and exclude listening exclude time-wait",
            false,
        ),
    ] {
        let filter = SocketFilter::parse(text).unwrap();
        assert_eq!(filter.may_want("TIME-WAIT"), may, "{text}");
    }
}

#[test]
fn what_anybody_may_send_is_bounded() {
    for text in [
        "( ".repeat(1000),
        "not ".repeat(1000),
        "a".repeat(5000),
        vec!["sport = :80"; 100].join(" or "),
    ] {
        let error = SocketFilter::parse(&text).unwrap_err();
        assert!(error.contains("more than"), "{error}");
    }
    // As deep as can be.
    let text = format!("{} state listening", "not ".repeat(198));
    assert_eq!(wanted(&text), [0]);
    assert!(SocketFilter::parse(&"( ".repeat(200)).is_err());
}
