//! Packet formats: Ethernet, IPv4, IPv6, TCP and its options; sequence arithmetic, checksums, flows
#![forbid(unsafe_code)]
