//! What the client sends: a description, and the frame made of it.
//!
//! Frames are cut from templates that were written and summed beforehand: for each only addresses,
//! ports, numbers and timestamps are filled in, and added to the sum.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::checksum::Sum;
use wire::ip::Ecn;
use wire::segment::{EmitError, Headers, Link, TcpChecksum};
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Options, Repr, Timestamps};

use super::request::Requests;
use super::sources::Sources;

/// A segment to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The place that it comes from.
    pub place: u64,
    /// Its sequence number.
    pub seq: SeqNumber,
    /// What it acknowledges (a SYN: nothing).
    pub ack: SeqNumber,
    /// Its timestamps, value and echo, if it has any.
    pub timestamps: Option<(u32, u32)>,
    /// What it is.
    pub what: What,
}

/// What a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Opens a connection.
    Syn,
    /// Acknowledges, and nothing else.
    Acknowledge,
    /// Acknowledges, and ends our side of the connection.
    Finish,
    /// Ends the connection at once.
    Reset,
    /// Acknowledges, and asks.
    Ask {
        /// For which pattern.
        pattern: u16,
        /// As the last of the connection.
        last: bool,
    },
}

/// What the headers of all segments have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressing {
    /// Where frames go on the link: from our station to the next hop.
    pub link: Link,
    /// The server.
    pub server: SocketAddr,
    /// What our SYNs offer as the largest segment.
    pub mss: u16,
    /// The window that we offer, not yet scaled.
    pub window: u16,
    /// How far it is shifted.
    pub window_scale: u8,
    /// The hops that packets may take.
    pub hop_limit: u8,
}

/// One frame, all but what is different in each.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    /// Sum of the TCP segment and its pseudo-header.
    sum: u32,
    /// Sum of the IPv4 header.
    ip_sum: u32,
}

/// Makes frames of replies.
#[derive(Debug)]
pub struct Frames {
    sources: Sources,
    v4: bool,
    tcp_at: usize,
    /// Without timestamps, and with.
    templates: [Vec<Template>; 2],
}

/// Templates before those of the requests.
const FIXED: usize = 4;
/// Where the value of the timestamps stands in the header: they come first among the options of
/// every segment but a SYN, behind two bytes that do nothing and two that announce them.
const TIMESTAMPS_AT: usize = 24;

impl Frames {
    /// Writes the templates.
    ///
    /// # Errors
    /// If server and sources are of different families.
    pub fn new(
        addressing: &Addressing,
        sources: &Sources,
        requests: &Requests,
    ) -> Result<Self, EmitError> {
        let v4 = sources.is_ipv4();
        let mut all = [Vec::new(), Vec::new()];
        for (with, templates) in [false, true].into_iter().zip(&mut all) {
            for flags in [Flags::SYN, Flags::NONE, Flags::FIN, Flags::RST] {
                templates.push(template(addressing, v4, flags, with, &[])?);
            }
            for pattern in 0..requests.patterns() {
                for last in [false, true] {
                    let text = requests.text(pattern, last);
                    templates.push(template(addressing, v4, Flags::PSH, with, text)?);
                }
            }
        }
        Ok(Self {
            sources: sources.clone(),
            v4,
            tcp_at: if v4 { 34 } else { 54 },
            templates: all,
        })
    }

    /// Bytes of the longest frame.
    pub fn longest(&self) -> usize {
        let templates = self.templates.iter().flatten();
        templates
            .map(|template| template.bytes.len())
            .max()
            .unwrap_or(0)
    }

    /// Writes the frame of `reply` to the front of `frame`; returns its length.
    ///
    /// # Panics
    /// If `frame` is shorter than [`longest`](Self::longest).
    #[inline]
    pub fn write(&self, reply: &Reply, frame: &mut [u8]) -> usize {
        let index = match reply.what {
            What::Syn => 0,
            What::Acknowledge => 1,
            What::Finish => 2,
            What::Reset => 3,
            What::Ask { pattern, last } => FIXED + 2 * usize::from(pattern) + usize::from(last),
        };
        let template = &self.templates[usize::from(reply.timestamps.is_some())][index];
        let length = template.bytes.len();
        let frame = &mut frame[..length];
        frame.copy_from_slice(&template.bytes);
        let (source, port) = self.sources.at(reply.place);
        let mut sum = template.sum;
        match source {
            IpAddr::V4(source) if self.v4 => {
                let source_sum = add_u32(0, source.to_bits());
                frame[26..30].copy_from_slice(&source.octets());
                let checksum = !fold(template.ip_sum + source_sum);
                frame[24..26].copy_from_slice(&checksum.to_be_bytes());
                sum += source_sum;
            }
            IpAddr::V6(source) => {
                frame[22..38].copy_from_slice(&source.octets());
                for segment in source.segments() {
                    sum += u32::from(segment);
                }
            }
            IpAddr::V4(_) => {}
        }
        let tcp = &mut frame[self.tcp_at..];
        tcp[0..2].copy_from_slice(&port.to_be_bytes());
        tcp[4..8].copy_from_slice(&reply.seq.0.to_be_bytes());
        sum = add_u32(sum + u32::from(port), reply.seq.0);
        if reply.what != What::Syn {
            tcp[8..12].copy_from_slice(&reply.ack.0.to_be_bytes());
            sum = add_u32(sum, reply.ack.0);
        }
        if let Some((value, echo)) = reply.timestamps {
            let at = TIMESTAMPS_AT
                + if reply.what == What::Syn {
                    SYN_SHIFT
                } else {
                    0
                };
            tcp[at..at + 4].copy_from_slice(&value.to_be_bytes());
            tcp[at + 4..at + 8].copy_from_slice(&echo.to_be_bytes());
            sum = add_u32(add_u32(sum, value), echo);
        }
        tcp[16..18].copy_from_slice(&(!fold(sum)).to_be_bytes());
        length
    }
}

/// How much later the timestamps come in a SYN: behind the largest segment.
const SYN_SHIFT: usize = 4;

fn template(
    addressing: &Addressing,
    v4: bool,
    flags: Flags,
    timestamps: bool,
    payload: &[u8],
) -> Result<Template, EmitError> {
    let syn = flags.contains(Flags::SYN);
    let headers = Headers {
        link: addressing.link,
        src: if v4 {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        },
        dst: addressing.server.ip(),
        hop_limit: addressing.hop_limit,
        dscp: 0,
        ecn: Ecn::NotCapable,
        tcp: Repr {
            src_port: 0,
            dst_port: addressing.server.port(),
            seq: SeqNumber(0),
            ack: (!syn).then_some(SeqNumber(0)),
            flags,
            window: addressing.window,
            options: Options {
                mss: syn.then_some(addressing.mss),
                window_scale: syn.then_some(addressing.window_scale),
                timestamps: timestamps.then_some(Timestamps::default()),
                ..Options::NONE
            },
        },
    };
    let mut bytes = vec![0; headers.len() + payload.len()];
    let checksum = TcpChecksum::Complete(Sum::of(payload));
    let length = headers.emit(payload.len(), checksum, &mut bytes)?;
    bytes[length..].copy_from_slice(payload);
    let tcp_at = headers.tcp_offset();
    let word = |at: usize| u32::from(!u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    Ok(Template {
        sum: word(tcp_at + 16),
        ip_sum: if v4 { word(24) } else { 0 },
        bytes,
    })
}

/// Adds the two words of a number.
#[inline]
const fn add_u32(sum: u32, number: u32) -> u32 {
    sum + (number >> 16) + (number & 0xffff)
}

/// Folds a sum of fewer than 2^16 words.
#[inline]
const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::super::request::{Common, Pattern};
    use super::super::sources::AddressRange;
    use super::*;
    use proptest::prelude::*;
    use wire::segment::{ChecksumPolicy, parse};

    fn frames(server: &str, source: &str) -> (Frames, Requests, Sources) {
        let addressing = Addressing {
            link: Link::default(),
            server: server.parse().unwrap(),
            mss: 1448,
            window: 65_535,
            window_scale: 6,
            hop_limit: 64,
        };
        let patterns: Vec<_> = ["/", "/another"]
            .iter()
            .map(|path| Pattern {
                path: (*path).into(),
                weight: 1.0,
            })
            .collect();
        let requests = Requests::new(&Common::default(), &patterns).unwrap();
        let sources = Sources::new(vec![AddressRange::parse(source).unwrap()], 1..=65_535).unwrap();
        let frames = Frames::new(&addressing, &sources, &requests).unwrap();
        (frames, requests, sources)
    }

    fn what() -> impl Strategy<Value = What> {
        prop_oneof![
            Just(What::Syn),
            Just(What::Acknowledge),
            Just(What::Finish),
            Just(What::Reset),
            (0..2_u16, any::<bool>()).prop_map(|(pattern, last)| What::Ask { pattern, last }),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_says_what_the_reply_says(
            v6: bool, place: prop::sample::Index, seq: u32, ack: u32, what in what(),
            timestamps: Option<(u32, u32)>,
        ) {
            let (frames, requests, sources) = if v6 {
                frames("[fd00::1]:80", "fd00::2-fd00:0:0:1::7fff".split('-').next().unwrap())
            } else {
                frames("10.0.0.1:80", "10.1.0.0/20")
            };
            let place = place.index(sources.places() as usize) as u64;
            let reply = Reply { place, seq: SeqNumber(seq), ack: SeqNumber(ack), timestamps, what };
            let mut buffer = vec![0; frames.longest()];
            let length = frames.write(&reply, &mut buffer);
            let segment = parse(&buffer[..length], ChecksumPolicy::Verify).expect("a valid frame");
            prop_assert_eq!((segment.src, segment.tcp.src_port), sources.at(place));
            prop_assert_eq!(segment.tcp.seq.0, seq);
            prop_assert_eq!(segment.tcp.ack.map(|ack| ack.0), (what != What::Syn).then_some(ack));
            let seen = segment.tcp.options.timestamps.map(|both| (both.value, both.echo));
            prop_assert_eq!(seen, timestamps);
            let flags = segment.tcp.flags;
            prop_assert_eq!(flags.contains(Flags::SYN), what == What::Syn);
            prop_assert_eq!(flags.contains(Flags::FIN), what == What::Finish);
            prop_assert_eq!(flags.contains(Flags::RST), what == What::Reset);
            let text = match what {
                What::Ask { pattern, last } => requests.text(pattern.into(), last),
                _ => &[],
            };
            prop_assert_eq!(segment.payload, text);
            prop_assert_eq!(segment.tcp.options.mss, (what == What::Syn).then_some(1448));
        }
    }
}
