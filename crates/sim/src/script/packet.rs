//! Packets as scripts write them: numbers relative to the initial ones, options in order.

use core::fmt;

use wire::ip::Ecn;
use wire::tcp::Flags;

/// A packet that arrives or is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The peer's port, if it is not the usual one (`[port 40001]`).
    pub port: Option<u16>,
    /// The mark in the IP header (`[ect0]`, `[ce]`, …); unchecked if not given, and not marked if
    /// it is inbound.
    pub ecn: Option<Ecn>,
    /// DSCP, as the byte that it shares with the mark (`[tos 0x28]`); unchecked if not given. Outbound
    /// only.
    pub tos: Option<u8>,
    /// What it is.
    pub body: Body,
}

/// What a packet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// An ICMP error about a segment of ours. Inbound only.
    Icmp(Icmp),
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The control bits, ACK among them.
    pub flags: Flags,
    /// Its sequence number; relative to the sender's initial one.
    pub seq: u32,
    /// How many bytes it carries.
    pub len: u16,
    /// What it acknowledges; relative to its receiver's initial number.
    pub ack: Option<u32>,
    /// The window as it stands in the header; unchecked if not given.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: Option<u16>,
    /// The options in order; `None` (`<...>`) if they do not matter.
    pub options: Option<Vec<TcpOption>>,
}

/// An option of a TCP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// `eol`
    End,
    /// `nop`
    Nop,
    /// `mss 1460`
    Mss(u16),
    /// `wscale 7`
    WindowScale(u8),
    /// `sackOK`
    SackPermitted,
    /// `sack 1:1001 2001:3001`
    Sack(Vec<(u32, u32)>),
    /// `TS val 1 ecr 0`
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// What it echoes.
        echo: u32,
    },
    /// `FO 0xa1b2c3d4e5f60708`: a Fast Open cookie (RFC 7413), by the name that the script has for it;
    /// `FO` asks for one.
    FastOpen(Vec<u8>),
    /// `unknown 254 0xf989`: kind and contents of any other.
    Unknown(u8, Vec<u8>),
}

/// An ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// What it says.
    pub says: Unreachable,
    /// The MTU that it names.
    pub mtu: Option<u32>,
    /// The segment that it is about: sequence number and length. The start of the stream if not
    /// given.
    pub about: Option<(u32, u16)>,
}

/// What an ICMP error says, for either version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// `unreachable net_unreachable`; of IPv6, no route.
    Net,
    /// `unreachable host_unreachable`; of IPv6, the address.
    Host,
    /// `unreachable protocol_unreachable`; IPv4 only.
    Protocol,
    /// `unreachable port_unreachable`
    Port,
    /// `unreachable frag_needed` and `packet_too_big`
    TooBig,
    /// `unreachable admin_prohibited`
    Prohibited,
    /// `time_exceeded`
    TimeExceeded,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = self.ecn.map(|ecn| match ecn {
            Ecn::NotCapable => "noecn",
            Ecn::Capable0 => "ect0",
            Ecn::Capable1 => "ect1",
            Ecn::CongestionExperienced => "ce",
        });
        let tos = self.tos.filter(|tos| *tos != 0);
        let about_ip: Vec<String> = [
            mark.map(String::from),
            tos.map(|tos| format!("tos {tos:#04x}")),
            self.port.map(|port| format!("port {port}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !about_ip.is_empty() {
            write!(f, "[{}] ", about_ip.join(", "))?;
        }
        match &self.body {
            Body::Tcp(segment) => segment.fmt(f),
            Body::Icmp(icmp) => write!(f, "icmp {icmp:?}"),
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.seq.wrapping_add(self.len.into());
        write!(f, "{} {}:{end}({})", self.flags, self.seq, self.len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if let Some(urgent) = self.urgent {
            write!(f, " urg {urgent}")?;
        }
        match self.options.as_deref() {
            None => f.write_str(" <...>"),
            Some([]) => Ok(()),
            Some(options) => {
                f.write_str(" <")?;
                for (index, option) in options.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{option}")?;
                }
                f.write_str(">")
            }
        }
    }
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpOption::End => f.write_str("eol"),
            TcpOption::Nop => f.write_str("nop"),
            TcpOption::Mss(mss) => write!(f, "mss {mss}"),
            TcpOption::WindowScale(shift) => write!(f, "wscale {shift}"),
            TcpOption::SackPermitted => f.write_str("sackOK"),
            TcpOption::Sack(blocks) => {
                f.write_str("sack")?;
                for (left, right) in blocks {
                    write!(f, " {left}:{right}")?;
                }
                Ok(())
            }
            TcpOption::Timestamps { value, echo } => write!(f, "TS val {value} ecr {echo}"),
            TcpOption::FastOpen(cookie) if cookie.is_empty() => f.write_str("FO"),
            TcpOption::FastOpen(cookie) => {
                f.write_str("FO 0x")?;
                cookie.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            TcpOption::Unknown(kind, body) => {
                write!(f, "unknown {kind} 0x")?;
                body.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}
