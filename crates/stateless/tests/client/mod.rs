//! A client of one segment at a time, which can send what no kernel would.

#![allow(dead_code, reason = "each test uses a part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stateless::responder::Responder;
use stateless::responder::settings::Settings;
use stateless::responder::tables::Tables;
use wire::checksum::Sum;
use wire::ethernet::{MacAddr, Vlan};
use wire::ip::Ecn;
use wire::segment::{ChecksumPolicy, Headers, Link, Segment, TcpChecksum, parse};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, Timestamps};

pub const PORT: u16 = 80;
pub const KEY: [u8; 16] = *b"a key of 16 byte";

/// Settings for tests.
pub fn settings() -> Settings {
    Settings::new(KEY, vec![PORT..=PORT, 8000..=8009])
}

/// Texts, with objects.
pub fn tables() -> Tables {
    let object = |path: &str, status, fields: &str, body: &[u8]| {
        (path.to_owned(), status, fields.to_owned(), body.to_vec())
    };
    Tables::new([
        object("/health", 200, "Content-Type: text/plain\r\n", b"fine\n"),
        object("/old", 302, "Location: http://new.example/\r\n", b""),
        object(
            "/favicon.ico",
            200,
            "Content-Type: image/x-icon\r\n",
            &[7; 900],
        ),
    ])
}

pub fn responder() -> Responder {
    Responder::new(settings(), tables())
}

/// A client: where it is, and what it has sent and received.
#[derive(Clone)]
pub struct Client {
    pub local: (IpAddr, u16),
    pub remote: (IpAddr, u16),
    pub vlan: Vlan,
    pub seq: u32,
    pub ack: u32,
    pub clock: Option<u32>,
    pub window: u16,
    pub mss: Option<u16>,
    /// Whether its SYN has the other two options, too, that Linux sends.
    pub linux: bool,
}

/// As a local peer sends a frame of IPv4 without tags and options: with the sum of the pseudo-header
/// in the place of the checksum.
pub fn leave_to_device(frame: &mut [u8]) {
    let length = (frame.len() - 34) as u16;
    let mut pseudo = [0; 12];
    pseudo[..8].copy_from_slice(&frame[26..34]);
    pseudo[9] = 6;
    pseudo[10..].copy_from_slice(&length.to_be_bytes());
    let sum = Sum::of(&pseudo).fold();
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
}

impl Client {
    pub fn v4() -> Self {
        Self::new(Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 1))
    }

    pub fn v6() -> Self {
        let address = |host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
        Self::new(address(2), address(1))
    }

    fn new(local: impl Into<IpAddr>, remote: impl Into<IpAddr>) -> Self {
        Self {
            local: (local.into(), 40_000),
            remote: (remote.into(), PORT),
            vlan: Vlan::None,
            seq: 0xffff_ff00,
            ack: 0,
            clock: Some(1000),
            window: 64_240,
            mss: Some(1460),
            linux: true,
        }
    }

    /// A frame from here.
    pub fn frame(&self, flags: Flags, payload: &[u8]) -> Vec<u8> {
        let linux = self.linux && flags.contains(Flags::SYN);
        let headers = Headers {
            link: Link {
                src: MacAddr([2, 0, 0, 0, 0, 2]),
                dst: MacAddr([2, 0, 0, 0, 0, 1]),
                vlan: self.vlan,
            },
            src: self.local.0,
            dst: self.remote.0,
            hop_limit: 64,
            dscp: 0,
            ecn: Ecn::NotCapable,
            tcp: Repr {
                src_port: self.local.1,
                dst_port: self.remote.1,
                seq: SeqNumber(self.seq),
                ack: flags.contains(Flags::ACK).then_some(SeqNumber(self.ack)),
                flags,
                window: self.window,
                options: Options {
                    mss: self.mss.filter(|_| flags.contains(Flags::SYN)),
                    sack_permitted: linux,
                    window_scale: linux.then_some(7),
                    timestamps: self.clock.map(|value| Timestamps { value, echo: 0 }),
                    ..Options::NONE
                },
            },
        };
        let mut frame = vec![0; headers.len()];
        let checksum = TcpChecksum::Complete(Sum::of(payload));
        headers
            .emit(payload.len(), checksum, &mut frame)
            .expect("fits");
        frame.extend_from_slice(payload);
        frame
    }

    /// Takes up an answer: checks that it is for here and next in order, and acknowledges it. What
    /// it says of the flags, and its payload.
    pub fn take(&mut self, frame: &[u8]) -> (Flags, Vec<u8>) {
        let segment = parse(frame, ChecksumPolicy::Verify).expect("well formed");
        assert_eq!((segment.dst, segment.tcp.dst_port), self.local);
        assert_eq!((segment.src, segment.tcp.src_port), self.remote);
        assert_eq!(segment.link.vlan, self.vlan);
        let flags = segment.tcp.flags;
        if flags.contains(Flags::SYN) {
            self.ack = segment.tcp.seq.0;
        }
        assert_eq!(segment.tcp.seq.0, self.ack, "next in order");
        if let Some(ack) = segment.tcp.ack {
            assert_eq!(ack.0, self.seq, "acknowledges all that was sent");
        }
        self.check_clock(&segment);
        self.ack = self.ack.wrapping_add(segment.sequence_len());
        (flags, segment.payload.to_vec())
    }

    fn check_clock(&self, segment: &Segment<'_>) {
        let echo = segment.tcp.options.timestamps.map(|stamps| stamps.echo);
        if !segment.tcp.flags.contains(Flags::RST) {
            assert_eq!(echo, self.clock);
        }
    }

    /// Sends, and counts what it sends.
    pub fn send(
        &mut self,
        responder: &mut Responder,
        flags: Flags,
        payload: &[u8],
    ) -> Vec<Vec<u8>> {
        let answers = answers(responder, &self.frame(flags, payload));
        let counted = u32::from(flags.contains(Flags::SYN)) + u32::from(flags.contains(Flags::FIN));
        self.seq = self.seq.wrapping_add(payload.len() as u32 + counted);
        answers
    }

    /// Connects.
    pub fn connect(&mut self, responder: &mut Responder) {
        let answers = self.send(responder, Flags::SYN, b"");
        let [answer] = &answers[..] else {
            panic!("{} answers to a SYN", answers.len());
        };
        let (flags, payload) = self.take(answer);
        assert_eq!(flags, Flags::SYN | Flags::ACK);
        assert!(payload.is_empty());
        assert!(self.send(responder, Flags::ACK, b"").is_empty());
    }

    /// Sends a request and returns the response, and whether a FIN came with it.
    pub fn ask(&mut self, responder: &mut Responder, request: &str) -> (String, bool) {
        let answers = self.send(responder, Flags::ACK | Flags::PSH, request.as_bytes());
        assert!(!answers.is_empty(), "no answer to {request:?}");
        let mut response = Vec::new();
        let mut fin = false;
        for answer in &answers {
            let (flags, payload) = self.take(answer);
            response.extend(payload);
            fin |= flags.contains(Flags::FIN);
        }
        (String::from_utf8_lossy(&response).into_owned(), fin)
    }

    /// A GET of HTTP/1.1.
    pub fn get(&mut self, responder: &mut Responder, target: &str) -> (String, bool) {
        self.ask(
            responder,
            &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"),
        )
    }
}

/// The answers to a frame.
pub fn answers(responder: &mut Responder, frame: &[u8]) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    responder.respond(frame, |answer| answers.push(answer.to_vec()));
    answers
}

/// The body of a response.
pub fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").expect("a blank line").1
}

/// The value of a header field.
pub fn field<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let head = response.split("\r\n\r\n").next()?;
    let line = head.lines().find_map(|line| line.strip_prefix(name))?;
    line.strip_prefix(": ")
}
