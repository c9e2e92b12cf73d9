//! The table of correct behaviour in docs/stateless.md, row by row, without a kernel.

mod client;

use client::{Client, PORT, answers, body, field, responder, settings, tables};
use proptest::prelude::*;
use stateless::responder::Responder;
use stateless::responder::counters::Counter;
use stateless::responder::settings::{CloseStyle, Settings};
use wire::ethernet::{EtherType, Tag, Vlan};
use wire::tcp::Flags;

fn with(change: impl FnOnce(&mut Settings)) -> Responder {
    let mut settings = settings();
    change(&mut settings);
    Responder::new(settings, tables())
}

/// The one answer to a frame.
fn answer(responder: &mut Responder, frame: &[u8]) -> Vec<u8> {
    let mut answers = answers(responder, frame);
    assert_eq!(answers.len(), 1, "one answer");
    answers.remove(0)
}

/// Nothing is answered, and it is counted.
fn silence(responder: &mut Responder, frame: &[u8], counter: Counter) {
    let before = *responder.counts();
    assert!(answers(responder, frame).is_empty(), "an answer");
    let counted = responder.counts().since(&before);
    assert_eq!(counted.get(counter), 1, "{}: {counted:?}", counter.name());
}

#[test]
fn a_syn_again_gets_the_same_and_a_new_one_another() {
    let mut responder = responder();
    let mut client = Client::v4();
    let first = answer(&mut responder, &client.frame(Flags::SYN, b""));
    assert_eq!(
        answer(&mut responder, &client.frame(Flags::SYN, b"")),
        first
    );
    client.seq = client.seq.wrapping_add(1_000_000);
    assert_ne!(
        answer(&mut responder, &client.frame(Flags::SYN, b"")),
        first
    );
    // Another process with the same key answers the same.
    let mut other = Responder::new(settings(), tables());
    let again = Client::v4().frame(Flags::SYN, b"");
    assert_eq!(answer(&mut other, &again), first);
}

#[test]
fn a_forged_acknowledgement_gets_nothing() {
    let mut responder = responder();
    let request = b"GET /?s=1000 HTTP/1.1\r\n\r\n";
    let mut answered = 0;
    let mut client = Client::v4();
    for guess in 0..20_000_u32 {
        client.ack = guess.wrapping_mul(0x9e37_79b1);
        client.seq = guess.wrapping_mul(0x85eb_ca6b);
        answered += answers(&mut responder, &client.frame(Flags::ACK, request)).len();
    }
    // One guess in 16384 is at a state of the window.
    assert!(
        answered <= 20,
        "{answered} of 20000 blind guesses were answered"
    );
    let counts = responder.counts();
    assert!(counts.get(Counter::Forged) > 19_900, "{counts:?}");
    // Told to be lenient, the window is not looked at.
    let mut lenient = with(|settings| settings.strict = false);
    client.ack = client.ack.wrapping_add(1 << 30);
    answers(&mut lenient, &client.frame(Flags::ACK, request));
    assert_eq!(lenient.counts().get(Counter::Forged), 0);
}

#[test]
fn a_request_again_gets_the_same_bytes() {
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    let frame = client.frame(Flags::ACK | Flags::PSH, b"GET /?s=100&R=1 HTTP/1.1\r\n\r\n");
    let first = answer(&mut responder, &frame);
    assert_eq!(answer(&mut responder, &frame), first);
}

#[test]
fn a_request_in_two_segments_is_answered_when_it_is_whole() {
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    let request = b"GET /?s=10 HTTP/1.1\r\nHost: a\r\n\r\n";
    for cut in 1..request.len() {
        let first = client.frame(Flags::ACK, &request[..cut]);
        silence(&mut responder, &first, Counter::Incomplete);
        // The rest does not begin where a request can.
        let mut later = client.clone();
        later.seq = later.seq.wrapping_add(cut as u32);
        let second = later.frame(Flags::ACK | Flags::PSH, &request[cut..]);
        // Only 16 numbers on could one begin.
        if cut % 16 != 0 {
            silence(&mut responder, &second, Counter::Misplaced);
        }
    }
    let (response, _) = client.ask(&mut responder, std::str::from_utf8(request).expect("text"));
    assert_eq!(body(&response).len(), 10);
}

#[test]
fn requests_in_one_segment_are_answered_together_and_padded_once() {
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    let one = |size| format!("GET /?s={size} HTTP/1.1\r\n\r\n");
    let (response, fin) = client.ask(&mut responder, &(one(5) + &one(6) + &one(7)));
    assert!(!fin);
    assert_eq!(response.matches("HTTP/1.1 200 OK").count(), 3);
    assert_eq!(response.matches("X-Pad").count(), 1);
    assert_eq!(responder.counts().get(Counter::Responses), 3);
    // What there is no room for, or is not whole, is not acknowledged.
    let (large, half) = (one(1000), "GET / HT");
    let all = one(5) + &large + &large + half;
    let frame = client.frame(Flags::ACK, all.as_bytes());
    let answer = answer(&mut responder, &frame);
    client.seq = client.seq.wrapping_add((one(5) + &large).len() as u32);
    client.take(&answer);
    // And the client goes on from there.
    client.get(&mut responder, "/");
}

#[test]
fn a_response_fits_segment_and_window() {
    for (mss, window) in [(1460, 300), (536, 64_240), (256, 64_240), (1000, 1000)] {
        let mut responder = responder();
        let mut client = Client::v4();
        (client.mss, client.window) = (Some(mss), window);
        client.connect(&mut responder);
        for _ in 0..3 {
            let (response, _) = client.get(&mut responder, "/?s=1000");
            assert!(
                response.len() <= usize::from(window.min(mss - 12)),
                "{}",
                response.len()
            );
            let length: usize = field(&response, "Content-Length")
                .and_then(|text| text.parse().ok())
                .expect("a length");
            assert_eq!(body(&response).len(), length);
        }
        assert_eq!(responder.counts().get(Counter::Clipped), 3);
    }
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    client.window = 0;
    let frame = client.frame(Flags::ACK, b"GET / HTTP/1.1\r\n\r\n");
    silence(&mut responder, &frame, Counter::SmallWindow);
    client.mss = Some(100);
    silence(
        &mut responder,
        &client.frame(Flags::SYN, b""),
        Counter::SmallMss,
    );
}

#[test]
fn timestamps_are_echoed_and_go_forward() {
    let mut responder = responder();
    let mut client = Client::v6();
    client.connect(&mut responder);
    let value = |frame: &[u8]| {
        let segment = wire::segment::parse(frame, Default::default()).expect("well formed");
        segment.tcp.options.timestamps.expect("timestamps").value
    };
    let request = b"GET / HTTP/1.1\r\n\r\n";
    let before = value(&answer(&mut responder, &client.frame(Flags::ACK, request)));
    client.clock = Some(1500);
    let after = value(&answer(&mut responder, &client.frame(Flags::ACK, request)));
    assert_eq!(after.wrapping_sub(before), 500);
    client.clock = None;
    let without = answer(&mut responder, &client.frame(Flags::ACK, request));
    let segment = wire::segment::parse(&without, Default::default()).expect("well formed");
    assert_eq!(segment.tcp.options.timestamps, None);
}

#[test]
fn a_connection_ends_by_fin_and_acknowledgement() {
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    let (response, fin) = client.get(&mut responder, "/?s=1&C=1");
    assert!(fin);
    assert_eq!(field(&response, "Connection"), Some("close"));
    // Data and FIN may be acknowledged apart.
    let mut before_fin = client.clone();
    before_fin.ack = before_fin.ack.wrapping_sub(1);
    for acknowledgement in [&before_fin, &client] {
        let frame = acknowledgement.frame(Flags::ACK, b"");
        silence(&mut responder, &frame, Counter::Acks);
    }
    // A FIN that crossed ours is answered with ours again.
    let again = answer(
        &mut responder,
        &before_fin.frame(Flags::ACK | Flags::FIN, b""),
    );
    let segment = wire::segment::parse(&again, Default::default()).expect("well formed");
    assert!(segment.tcp.flags.contains(Flags::FIN));
    let last = client.send(&mut responder, Flags::ACK | Flags::FIN, b"");
    let (flags, _) = client.take(&last[0]);
    assert_eq!(flags, Flags::ACK);
    // What comes after the end gets nothing.
    assert!(answers(&mut responder, &client.frame(Flags::ACK, b"more")).is_empty());
}

#[test]
fn the_client_may_end_it_and_may_do_so_with_its_request() {
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    let closed = client.send(&mut responder, Flags::ACK | Flags::FIN, b"");
    let (flags, _) = client.take(&closed[0]);
    assert_eq!(flags, Flags::ACK | Flags::FIN);
    silence(
        &mut responder,
        &client.frame(Flags::ACK, b""),
        Counter::Acks,
    );

    let mut client = Client::v4();
    client.connect(&mut responder);
    let request = b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    let closed = client.send(&mut responder, Flags::ACK | Flags::FIN, request);
    let (flags, payload) = client.take(&closed[0]);
    assert!(flags.contains(Flags::FIN));
    assert_eq!(
        String::from_utf8_lossy(&payload).matches("200 OK").count(),
        2
    );
    silence(
        &mut responder,
        &client.frame(Flags::ACK, b""),
        Counter::Acks,
    );
}

#[test]
fn a_reset_after_the_fin_is_an_option() {
    let mut responder = with(|settings| settings.close = CloseStyle::Reset);
    let mut client = Client::v4();
    client.connect(&mut responder);
    client.get(&mut responder, "/?C=1");
    let reset = client.send(&mut responder, Flags::ACK, b"");
    assert_eq!(client.take(&reset[0]).0, Flags::RST);
}

#[test]
fn nothing_that_could_be_an_answer_is_answered() {
    let mut responder = responder();
    let client = Client::v4();
    let cases = [
        (Flags::RST, Counter::ResetsReceived),
        (Flags::RST | Flags::ACK, Counter::ResetsReceived),
        (Flags::SYN | Flags::ACK, Counter::SynAck),
        (Flags::SYN | Flags::FIN, Counter::Flags),
        (Flags::NONE, Counter::Flags),
        (Flags::FIN, Counter::Flags),
    ];
    for (flags, counter) in cases {
        silence(&mut responder, &client.frame(flags, b""), counter);
    }
    for port in [PORT, 8000, 8009] {
        let mut client = Client::v4();
        client.local.1 = port;
        silence(
            &mut responder,
            &client.frame(Flags::SYN, b""),
            Counter::Loop,
        );
    }
    let mut itself = Client::v4();
    itself.local = itself.remote;
    silence(
        &mut responder,
        &itself.frame(Flags::SYN, b""),
        Counter::Loop,
    );
    let mut damaged = client.frame(Flags::SYN, b"");
    *damaged.last_mut().expect("bytes") ^= 1;
    silence(&mut responder, &damaged, Counter::Checksum);
}

#[test]
fn a_burst_ends_at_a_state() {
    let mut responder = with(|settings| settings.bursts = true);
    let mut client = Client::v4();
    client.connect(&mut responder);
    for target in [
        "/?s=50k",
        "/?s=10k&p=500",
        "/?s=3000&k=1&p=1000",
        "/?s=1k&C=1",
    ] {
        // `get` checks that the segments are in order, and the next request that a state is met.
        let (response, fin) = client.get(&mut responder, target);
        assert!(response.starts_with("HTTP/1.1 200"), "{target}");
        assert_eq!(fin, target.ends_with("C=1"));
    }
    let mut client = Client::v4();
    client.window = 5000;
    client.connect(&mut responder);
    let (response, _) = client.get(&mut responder, "/?s=50k");
    assert!(response.len() <= 5000, "within the window");
}

/// Takes the segments of a burst as a TCP does that keeps what comes out of order, and asks for what
/// is missing by acknowledging: those in `lost` do not arrive the first time. What is acknowledged
/// by a FIN is `true`.
fn receive_with_losses(
    responder: &mut Responder,
    client: &mut Client,
    burst: Vec<Vec<u8>>,
    lost: &[usize],
) -> (Vec<u8>, bool) {
    let begin = client.ack;
    let mut stream: Vec<Option<u8>> = Vec::new();
    let mut fin = None;
    let mut arriving: std::collections::VecDeque<_> = burst
        .into_iter()
        .enumerate()
        .filter_map(|(number, frame)| (!lost.contains(&number)).then_some(frame))
        .collect();
    let mut now = 0;
    loop {
        let Some(frame) = arriving.pop_front() else {
            if fin.is_some_and(|fin| client.ack == fin) {
                break;
            }
            // Silence: the responder's patience ends.
            now += 100_000_000;
            assert!(now < 60_000_000_000, "it never comes");
            responder.tick(now, |frame| arriving.push_back(frame.to_vec()));
            continue;
        };
        let segment = wire::segment::parse(&frame, wire::segment::ChecksumPolicy::Verify).unwrap();
        let at = segment.tcp.seq.0.wrapping_sub(begin) as usize;
        stream.resize(stream.len().max(at + segment.payload.len()), None);
        for (to, byte) in stream[at..].iter_mut().zip(segment.payload) {
            assert!(to.is_none_or(|known| known == *byte), "other bytes again");
            *to = Some(*byte);
        }
        if segment.tcp.flags.contains(Flags::PSH) {
            let end = at + segment.payload.len();
            let close = u32::from(segment.tcp.flags.contains(Flags::FIN));
            fin = Some(begin.wrapping_add(end as u32 + close));
        }
        let whole = stream.iter().take_while(|byte| byte.is_some()).count();
        let mut reached = begin.wrapping_add(whole as u32);
        if let Some(fin) = fin
            && fin.wrapping_sub(reached) == 1
            && whole == stream.len()
        {
            reached = fin;
        }
        client.ack = reached;
        let frame = client.frame(Flags::ACK, b"");
        responder.respond(&frame, |frame| arriving.push_back(frame.to_vec()));
    }
    let bytes: Vec<u8> = stream.into_iter().map(|byte| byte.unwrap()).collect();
    let closed = client.ack != begin.wrapping_add(bytes.len() as u32);
    (bytes, closed)
}

#[test]
fn a_segment_of_a_burst_that_is_lost_is_sent_again() {
    let mut responder = with(|settings| settings.bursts = true);
    let losses: [&[usize]; 8] = [
        &[],
        &[0],
        &[1],
        &[34],
        &[35],
        &[3, 4, 20, 34, 35],
        &[30, 31, 32, 33, 34, 35],
        &[1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23],
    ];
    for close in [false, true] {
        let mut client = Client::v4();
        client.local.1 += u16::from(close);
        client.connect(&mut responder);
        for lost in losses {
            if close {
                client.local.1 += 10;
                client.connect(&mut responder);
            }
            let target = if close { "/?s=50000&C=1" } else { "/?s=50000" };
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let before = *responder.counts();
            let burst = client.send(&mut responder, Flags::ACK, request.as_bytes());
            assert_eq!(burst.len(), 36);
            let (response, closed) = receive_with_losses(&mut responder, &mut client, burst, lost);
            let response = String::from_utf8(response).unwrap();
            assert_eq!(body(&response).len(), 50_000, "{lost:?}");
            assert_eq!(closed, close, "{lost:?}");
            let counted = responder.counts().since(&before);
            assert_eq!(counted.get(Counter::Repairs), lost.len() as u64, "{lost:?}");
            assert_eq!(counted.get(Counter::Forgotten), 0);
            assert_eq!(counted.get(Counter::Requests), 1);
            // Nothing more is said of it.
            assert_eq!(responder.next_tick_ns(), None, "{lost:?}");
        }
        if !close {
            assert!(client.get(&mut responder, "/?s=10").0.contains("200 OK"));
        }
    }
}

#[test]
fn a_burst_that_nobody_acknowledges_is_forgotten() {
    let mut responder = with(|settings| settings.bursts = true);
    let mut client = Client::v4();
    client.connect(&mut responder);
    client.send(&mut responder, Flags::ACK, b"GET /?s=3000 HTTP/1.1\r\n\r\n");
    let mut frames = 0;
    for second in 0..100 {
        responder.tick(second * 1_000_000_000, |_| frames += 1);
    }
    assert_eq!((frames, responder.next_tick_ns()), (6, None));
    assert_eq!(responder.counts().get(Counter::Forgotten), 1);
    // A reset does so at once.
    client.local.1 += 1;
    client.connect(&mut responder);
    client.send(&mut responder, Flags::ACK, b"GET /?s=3000 HTTP/1.1\r\n\r\n");
    assert!(responder.next_tick_ns().is_some());
    client.send(&mut responder, Flags::RST | Flags::ACK, b"");
    assert_eq!(responder.next_tick_ns(), None);
}

#[test]
fn an_idle_connection_is_probed() {
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    // With a byte that was acknowledged before, as some do, and without.
    for byte in [&b""[..], b"\0"] {
        let mut probe = client.clone();
        probe.seq = probe.seq.wrapping_sub(1);
        let answer = answer(&mut responder, &probe.frame(Flags::ACK, byte));
        assert_eq!(client.take(&answer).0, Flags::ACK);
    }
    let mut probe = client.clone();
    probe.seq = probe.seq.wrapping_sub(1);
    // But nothing that could be a part of a request.
    for bytes in [&b"\n"[..], b"G", b"\0\0"] {
        let frame = probe.frame(Flags::ACK, bytes);
        silence(&mut responder, &frame, Counter::Misplaced);
    }
}

#[test]
fn what_nobody_can_have_sent_is_not_answered() {
    let strange = |responder: &mut Responder, change: &dyn Fn(&mut Client)| {
        let mut client = Client::v4();
        change(&mut client);
        silence(responder, &client.frame(Flags::SYN, b""), Counter::Martian);
    };
    let mut responder = with(|settings| settings.broadcasts = vec![[192, 0, 2, 255].into()]);
    for source in [
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [127, 9, 9, 9],
        [240, 0, 0, 1],
        [192, 0, 2, 255],
    ] {
        strange(&mut responder, &|client| client.local.0 = source.into());
    }
    strange(&mut responder, &|client| client.local.1 = 0);
    strange(&mut responder, &|client| client.remote.1 = 0);
    let mut client = Client::v6();
    client.local.0 = std::net::Ipv6Addr::LOCALHOST.into();
    silence(
        &mut responder,
        &client.frame(Flags::SYN, b""),
        Counter::Martian,
    );
    // On the loopback these are neighbours.
    let mut responder = with(|settings| settings.loopback = true);
    answer(&mut responder, &client.frame(Flags::SYN, b""));
    let mut client = Client::v4();
    client.local.0 = [127, 0, 0, 2].into();
    answer(&mut responder, &client.frame(Flags::SYN, b""));
}

#[test]
fn a_refusal_names_the_limit_and_what_to_do() {
    let say = |bursts: bool, target: &str| {
        let mut settings = settings();
        settings.bursts = bursts;
        let tables = tables().with_limits(&settings);
        let mut responder = Responder::new(settings, tables);
        let mut client = Client::v4();
        client.connect(&mut responder);
        let (response, _) = client.get(&mut responder, target);
        assert!(response.starts_with("HTTP/1.1 501"), "{response}");
        body(&response).to_owned()
    };
    let said = say(false, "/60000");
    assert!(said.contains("at most 1140 bytes") && said.contains("--mode afxdp takes 59700"));
    assert!(say(true, "/60000").contains("at most 59700 bytes"));
    assert!(say(false, "/?s=1100&k=1&p=1").contains("8 chunks"));
}

#[test]
fn a_connection_ends_before_its_numbers_leave_the_window() {
    let mut responder = responder();
    let mut client = Client::v4();
    client.connect(&mut responder);
    let mut requests = 0;
    while !client.get(&mut responder, "/?s=1000").1 {
        requests += 1;
        assert!(requests < 10_000, "it never ends");
    }
    assert!(requests > 3000, "{requests}");
    assert_eq!(responder.counts().get(Counter::WornOut), 1);
    let last = client.send(&mut responder, Flags::ACK | Flags::FIN, b"");
    client.take(&last[0]);
}

#[test]
fn tags_and_families_come_back_as_they_came() {
    let tag = |kind, control| Tag { kind, control };
    let inner = tag(EtherType::VLAN, 0xe007);
    for vlan in [
        Vlan::None,
        Vlan::Single(inner),
        Vlan::Double {
            outer: tag(EtherType::SERVICE_VLAN, 100),
            inner,
        },
    ] {
        for mut client in [Client::v4(), Client::v6()] {
            client.vlan = vlan;
            let mut responder = responder();
            client.connect(&mut responder);
            client.get(&mut responder, "/?s=10");
            client.get(&mut responder, "/?s=10&C=1");
        }
    }
}

#[test]
fn the_url_says_what_comes_back() {
    let mut responder = responder();
    let mut get = |target: &str| {
        let mut client = Client::v4();
        client.connect(&mut responder);
        client.get(&mut responder, target)
    };
    let status = |response: &str| response[9..12].parse::<u32>().expect("a status");
    for (target, wanted, size) in [
        ("/", 200, 64),
        ("/0", 200, 0),
        ("/1k", 200, 1024),
        ("/?s=99", 200, 99),
        ("/?r=503&s=3", 503, 3),
        ("/?r=204", 204, 0),
        ("/health", 200, 5),
        ("/old", 302, 0),
    ] {
        let (response, fin) = get(target);
        assert_eq!(
            (status(&response), body(&response).len()),
            (wanted, size),
            "{target}"
        );
        assert!(!fin, "{target}");
    }
    for (target, wanted) in [
        ("/none", 404),
        ("/?t=5", 501),
        ("/?s=9k", 501),
        ("/?r=99", 400),
        ("/?s=x", 400),
        ("/?s=100&k=1&p=1", 501),
    ] {
        let (response, _) = get(target);
        assert_eq!(status(&response), wanted, "{target}");
        assert!(!body(&response).is_empty(), "{target} says why");
    }
    assert!(body(&get("/?").0).contains("C  1: close"));
    assert_eq!(
        field(&get("/old").0, "Location"),
        Some("http://new.example/")
    );
    assert_eq!(field(&get("/?c=0").0, "Cache-Control"), Some("no-store"));
    assert_eq!(field(&get("/?e=1&s=7").0, "ETag"), Some("\"7\""));
    assert_eq!(
        body(&get("/?s=20&k=1&p=16").0),
        "10\r\n.outboard.123456\r\n4\r\n789.\r\n0\r\n\r\n"
    );
    assert_ne!(body(&get("/?s=20&R=1").0), body(&get("/?s=20").0));
    let (response, fin) = get("/?s=5&b=9");
    assert_eq!(field(&response, "Content-Length"), Some("9"));
    assert!(fin, "the client cannot know where it ends");
}

#[test]
fn versions_and_methods_are_told_apart() {
    let mut responder = responder();
    let mut ask = |request: &str| {
        let mut client = Client::v4();
        client.connect(&mut responder);
        client.ask(&mut responder, request)
    };
    let (response, fin) = ask("GET / HTTP/1.0\r\n\r\n");
    assert!(fin && field(&response, "Connection") == Some("close"));
    let (response, fin) = ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert!(!fin && field(&response, "Connection") == Some("keep-alive"));
    assert!(!ask("GET /?K=1 HTTP/1.0\r\n\r\n").1);
    assert!(ask("GET / HTTP/1.1\r\nconnection: CLOSE\r\n\r\n").1);
    let (response, _) = ask("HEAD /?s=100 HTTP/1.1\r\n\r\n");
    assert_eq!(field(&response, "Content-Length"), Some("100"));
    assert_eq!(body(&response), "");
    for (request, status) in [
        ("\x16\x03\x01\x02", "400"),
        ("get / x\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\n\r\n", "501"),
    ] {
        let (response, fin) = ask(request);
        assert_eq!(&response[9..12], status, "{request:?}");
        assert!(fin, "{request:?}");
    }
}

proptest! {
    /// No answer is larger than what was asked for: nothing to a stranger, and no more to a SYN
    /// than it brought.
    #[test]
    fn it_is_no_reflector(bytes in proptest::collection::vec(any::<u8>(), 0..200), flags: u8, ack: u32) {
        let mut responder = responder();
        let mut client = Client::v4();
        client.ack = ack;
        let frame = client.frame(Flags::from_bits(flags), &bytes);
        for answer in answers(&mut responder, &frame) {
            prop_assert!(answer.len() <= frame.len() + 4, "{} for {}", answer.len(), frame.len());
        }
    }

    #[test]
    fn any_frame_is_survived(frame in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut responder = responder();
        let answers = answers(&mut responder, &frame);
        prop_assert!(answers.is_empty());
    }
}
