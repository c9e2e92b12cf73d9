//! `S. 0:0(0) ack 1 win 65535 <mss 1460,nop,wscale 7>` and `icmp unreachable port_unreachable`.

use wire::ip::Ecn;
use wire::tcp::{Flags, MAX_OPTIONS_LEN};

use super::cursor::{Cursor, Parsed};
use crate::script::packet::{Body, Icmp, Packet, Segment, TcpOption, Unreachable};

const U32: u64 = u32::MAX as u64;
const U16: u64 = u16::MAX as u64;

pub(super) fn packet(cursor: &mut Cursor<'_>, inbound: bool) -> Parsed<Packet> {
    let mut packet = Packet {
        port: None,
        ecn: None,
        tos: None,
        body: Body::Icmp(Icmp {
            says: Unreachable::Net,
            mtu: None,
            about: None,
        }),
    };
    if cursor.eat("[")? {
        about_ip(cursor, &mut packet, inbound)?;
    }
    let at = cursor.here();
    if cursor.eat_word("icmp")? {
        if !inbound {
            return cursor.error_at(at, "an ICMP error can only arrive");
        }
        packet.body = Body::Icmp(icmp(cursor)?);
    } else {
        packet.body = Body::Tcp(segment(cursor, inbound)?);
    }
    Ok(packet)
}

/// `[ect0]`, `[port 40001]`, `[ce, port 40001]`, `[tos 0x28]`
fn about_ip(cursor: &mut Cursor<'_>, packet: &mut Packet, inbound: bool) -> Parsed<()> {
    loop {
        cursor.skip()?;
        let at = cursor.here();
        match cursor.word()? {
            "noecn" => packet.ecn = Some(Ecn::NotCapable),
            "ect0" => packet.ecn = Some(Ecn::Capable0),
            "ect1" => packet.ecn = Some(Ecn::Capable1),
            "ce" => packet.ecn = Some(Ecn::CongestionExperienced),
            "port" => packet.port = Some(cursor.number("a port", U16)? as u16),
            "tos" if !inbound => {
                let byte = cursor.number("a type of service", 0xff)? as u8;
                if byte & 0b11 != 0 {
                    return cursor.error_at(at, "the last two bits are a mark, which has a word");
                }
                packet.tos = Some(byte);
            }
            other => {
                return cursor.error_at(
                    at,
                    format!("{other:?}: expected noecn, ect0, ect1, ce, port N or, of what leaves, tos N"),
                );
            }
        }
        if !cursor.eat(",")? {
            return cursor.expect("]");
        }
    }
}

fn segment(cursor: &mut Cursor<'_>, inbound: bool) -> Parsed<Segment> {
    let flags = flags(cursor)?;
    let (seq, len) = range(cursor)?;
    let mut segment = Segment {
        flags,
        seq,
        len,
        ack: None,
        window: None,
        urgent: None,
        options: Some(Vec::new()),
    };
    if cursor.eat_word("ack")? {
        segment.ack = Some(cursor.number("an acknowledgement number", U32)? as u32);
    }
    if segment.ack.is_some() != flags.contains(Flags::ACK) {
        return cursor.error("the flag . and an acknowledgement number go together");
    }
    if cursor.eat_word("win")? {
        segment.window = Some(cursor.number("a window", U16)? as u16);
    }
    if cursor.eat_word("urg")? {
        segment.urgent = Some(cursor.number("an urgent pointer", U16)? as u16);
    }
    cursor.skip()?;
    let at = cursor.here();
    if cursor.eat("<")? {
        if cursor.eat("...")? {
            cursor.expect(">")?;
            segment.options = None;
        } else {
            segment.options = Some(options(cursor)?);
        }
    }
    if inbound && segment.options.is_none() {
        return cursor.error_at(at, "what arrives must have known options");
    }
    Ok(segment)
}

fn flags(cursor: &mut Cursor<'_>) -> Parsed<Flags> {
    cursor.skip()?;
    let rest = cursor.rest();
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let mut flags = Flags::NONE;
    for letter in rest[..end].chars() {
        flags |= match letter {
            'F' => Flags::FIN,
            'S' => Flags::SYN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            '.' => Flags::ACK,
            'U' => Flags::URG,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            '-' => Flags::NONE,
            _ => return cursor.error("expected the flags of a segment: F S R P . U E W or -"),
        };
    }
    if end == 0 {
        return cursor.error("expected the flags of a segment");
    }
    cursor.advance(end);
    Ok(flags)
}

/// `1:1001(1000)`: the sequence number and the length.
fn range(cursor: &mut Cursor<'_>) -> Parsed<(u32, u16)> {
    cursor.skip()?;
    let at = cursor.here();
    let seq = cursor.number("a sequence number", U32)? as u32;
    cursor.expect(":")?;
    let end = cursor.number("a sequence number", U32)? as u32;
    cursor.expect("(")?;
    let len = cursor.number("a length", U16)? as u16;
    cursor.expect(")")?;
    if seq.wrapping_add(len.into()) != end {
        return cursor.error_at(at, format!("{len} bytes do not lead from {seq} to {end}"));
    }
    Ok((seq, len))
}

fn options(cursor: &mut Cursor<'_>) -> Parsed<Vec<TcpOption>> {
    let mut options = Vec::new();
    cursor.skip()?;
    let start = cursor.here();
    loop {
        cursor.skip()?;
        let at = cursor.here();
        options.push(match cursor.word()? {
            "eol" => TcpOption::End,
            "nop" => TcpOption::Nop,
            "mss" => TcpOption::Mss(cursor.number("an MSS", U16)? as u16),
            "wscale" => TcpOption::WindowScale(cursor.number("a window scale", 255)? as u8),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => TcpOption::Sack(blocks(cursor)?),
            "TS" => {
                if !cursor.eat_word("val")? {
                    return cursor.error("expected val");
                }
                let value = cursor.number("a timestamp", U32)? as u32;
                if !cursor.eat_word("ecr")? {
                    return cursor.error("expected ecr");
                }
                let echo = cursor.number("a timestamp", U32)? as u32;
                TcpOption::Timestamps { value, echo }
            }
            "FO" => TcpOption::FastOpen(bytes(cursor)?),
            "unknown" => {
                let kind = cursor.number("the kind of an option", 255)? as u8;
                TcpOption::Unknown(kind, bytes(cursor)?)
            }
            other => return cursor.error_at(at, format!("{other:?} is no option of TCP")),
        });
        if cursor.eat(">")? {
            break;
        }
        cursor.expect(",")?;
    }
    let len: usize = options.iter().map(TcpOption::encoded_len).sum();
    if len > MAX_OPTIONS_LEN {
        return cursor.error_at(
            start,
            format!("{len} bytes of options; a header has room for {MAX_OPTIONS_LEN}"),
        );
    }
    Ok(options)
}

/// `1:1001 2001:3001`
fn blocks(cursor: &mut Cursor<'_>) -> Parsed<Vec<(u32, u32)>> {
    let mut blocks = Vec::new();
    while cursor.at_digit()? {
        if blocks.len() == 4 {
            return cursor.error("more than four blocks");
        }
        let left = cursor.number("a sequence number", U32)? as u32;
        cursor.expect(":")?;
        blocks.push((left, cursor.number("a sequence number", U32)? as u32));
    }
    Ok(blocks)
}

/// `0xf989` as bytes; nothing for no bytes.
fn bytes(cursor: &mut Cursor<'_>) -> Parsed<Vec<u8>> {
    if !cursor.eat("0x")? {
        return Ok(Vec::new());
    }
    let digits = cursor.word()?;
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = core::str::from_utf8(pair).ok().filter(|t| t.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    match pairs.map(byte).collect::<Option<Vec<u8>>>() {
        Some(bytes) if bytes.len() <= MAX_OPTIONS_LEN => Ok(bytes),
        _ => cursor.error("expected pairs of hexadecimal digits"),
    }
}

/// After `icmp`.
fn icmp(cursor: &mut Cursor<'_>) -> Parsed<Icmp> {
    cursor.skip()?;
    let at = cursor.here();
    let says = match cursor.word()? {
        "unreachable" => {
            let at = cursor.here();
            match cursor.word()? {
                "net_unreachable" => Unreachable::Net,
                "host_unreachable" => Unreachable::Host,
                "protocol_unreachable" => Unreachable::Protocol,
                "port_unreachable" => Unreachable::Port,
                "frag_needed" => Unreachable::TooBig,
                "admin_prohibited" => Unreachable::Prohibited,
                other => return cursor.error_at(at, format!("unreachable {other:?} is unknown")),
            }
        }
        "packet_too_big" => Unreachable::TooBig,
        "time_exceeded" => Unreachable::TimeExceeded,
        other => return cursor.error_at(at, format!("icmp {other:?} is unknown")),
    };
    let mtu = if cursor.eat_word("mtu")? {
        Some(cursor.number("an MTU", U32)? as u32)
    } else {
        None
    };
    let about = if cursor.eat("[")? {
        let about = range(cursor)?;
        cursor.expect("]")?;
        Some(about)
    } else {
        None
    };
    Ok(Icmp { says, mtu, about })
}
