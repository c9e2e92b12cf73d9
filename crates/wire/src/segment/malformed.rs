//! Why a frame is refused.

use crate::{ethernet, ipv4, ipv6, tcp};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a frame is not a TCP segment that may be acted upon.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Malformed {
            $($(#[$doc])* $variant,)*
        }

        impl Malformed {
            /// Every reason, in the order of their discriminants.
            pub const ALL: &[Malformed] = &[$(Malformed::$variant,)*];

            /// A stable name, for counters.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Malformed::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// The frame ends within its Ethernet header.
    EthernetTruncated = "ethernet_truncated",
    /// More than two VLAN tags.
    VlanTags = "vlan_tags",
    /// Neither IPv4 nor IPv6.
    NotIp = "not_ip",
    /// ICMP, but no error about a TCP segment sent from the address that it was sent to.
    Icmp = "icmp",
    /// The ICMP checksum is wrong.
    IcmpChecksum = "icmp_checksum",
    /// IP, but not TCP.
    NotTcp = "not_tcp",
    /// The IP version is not what the Ethernet header says.
    IpVersion = "ip_version",
    /// The frame ends within its IP packet.
    IpTruncated = "ip_truncated",
    /// IPv4 header and total length contradict each other or the protocol.
    Ipv4HeaderLength = "ipv4_header_length",
    /// The IPv4 header's checksum is wrong.
    Ipv4Checksum = "ipv4_checksum",
    /// An IPv6 extension header ends outside the packet, or stands where it may not.
    Ipv6Extension = "ipv6_extension",
    /// Too many IPv6 extension headers.
    Ipv6Extensions = "ipv6_extensions",
    /// An IPv6 routing header with stations still to visit.
    Ipv6Routing = "ipv6_routing",
    /// A fragment.
    Fragment = "fragment",
    /// The source address is no single host's (RFC 1122 section 3.2.1.3).
    SourceAddress = "source_address",
    /// The destination address is no single host's (RFC 9293 MUST-57).
    DestinationAddress = "destination_address",
    /// The packet ends within its TCP header.
    TcpTruncated = "tcp_truncated",
    /// The TCP data offset lies within the fixed header.
    TcpDataOffset = "tcp_data_offset",
    /// The TCP checksum is wrong (RFC 9293 MUST-3).
    TcpChecksum = "tcp_checksum",
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Malformed {}

impl From<ethernet::Error> for Malformed {
    fn from(error: ethernet::Error) -> Malformed {
        match error {
            ethernet::Error::Truncated => Malformed::EthernetTruncated,
            ethernet::Error::TooManyTags => Malformed::VlanTags,
        }
    }
}

impl From<ipv4::Error> for Malformed {
    fn from(error: ipv4::Error) -> Malformed {
        match error {
            ipv4::Error::Truncated => Malformed::IpTruncated,
            ipv4::Error::Version => Malformed::IpVersion,
            ipv4::Error::HeaderLength => Malformed::Ipv4HeaderLength,
        }
    }
}

impl From<ipv6::Error> for Malformed {
    fn from(error: ipv6::Error) -> Malformed {
        match error {
            ipv6::Error::Truncated => Malformed::IpTruncated,
            ipv6::Error::Version => Malformed::IpVersion,
            ipv6::Error::Extension => Malformed::Ipv6Extension,
            ipv6::Error::TooManyExtensions => Malformed::Ipv6Extensions,
            ipv6::Error::Routing => Malformed::Ipv6Routing,
            ipv6::Error::Fragment => Malformed::Fragment,
        }
    }
}

impl From<tcp::Error> for Malformed {
    fn from(error: tcp::Error) -> Malformed {
        match error {
            tcp::Error::Truncated => Malformed::TcpTruncated,
            tcp::Error::DataOffset => Malformed::TcpDataOffset,
        }
    }
}
