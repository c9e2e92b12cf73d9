//! The places that connections come from: source addresses and ports, numbered without gaps.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::walk::MAX_PLACES;

/// A run of addresses that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    count: u64,
}

/// Why source addresses cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Not an address, a prefix or a range.
    #[error("{0:?} is no address (10.0.0.7), range (10.0.0.7-10.0.0.9) or prefix (10.0.0.0/24)")]
    Syntax(String),
    /// The range ends before it begins, or its ends are of two families.
    #[error("{0:?} is no range: it must end where it begins or later, in the same family")]
    Backwards(String),
    /// Addresses of both families.
    #[error("source addresses must be of the server's family")]
    MixedFamilies,
    /// None, or too many.
    #[error("{0} source addresses: must be 1 to 16777216, in at most {MAX_RANGES} ranges")]
    Count(u64),
    /// Port 0 is none.
    #[error("source ports must be 1 to 65535, the lower first")]
    Ports,
}

/// Most ranges of addresses.
pub const MAX_RANGES: usize = 16;

impl AddressRange {
    /// One address.
    pub const fn single(address: IpAddr) -> Self {
        Self {
            first: address,
            count: 1,
        }
    }

    /// Reads an address, a range of two or a prefix. Of an IPv4 prefix shorter than 31 bits the
    /// first and the last address (the network's and its broadcast) are left out; of an IPv6
    /// prefix the first.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let syntax = || SourceError::Syntax(text.to_owned());
        if let Some((first, last)) = text.split_once('-') {
            let first: IpAddr = first.trim().parse().map_err(|_| syntax())?;
            let last: IpAddr = last.trim().parse().map_err(|_| syntax())?;
            let backwards = || SourceError::Backwards(text.to_owned());
            if first.is_ipv4() != last.is_ipv4() {
                return Err(backwards());
            }
            let distance = number(last)
                .checked_sub(number(first))
                .ok_or_else(backwards)?;
            let count = u64::try_from(distance)
                .unwrap_or(u64::MAX)
                .saturating_add(1);
            return Ok(Self { first, count });
        }
        if let Some((address, length)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| syntax())?;
            let width = if address.is_ipv4() { 32 } else { 128 };
            let length: u32 = length.parse().map_err(|_| syntax())?;
            let host_bits = u32::checked_sub(width, length).ok_or_else(syntax)?;
            let size = if host_bits >= 64 {
                u64::MAX
            } else {
                1 << host_bits
            };
            let network = number(address).checked_shr(host_bits).unwrap_or(0);
            let network = network.checked_shl(host_bits).unwrap_or(0);
            let (skip, drop) = match (address.is_ipv4(), host_bits) {
                (_, 0) | (true, 1) => (0, 0),
                (true, _) => (1, 2),
                (false, _) => (1, 1),
            };
            return Ok(Self {
                first: address_of(network + skip, address.is_ipv4()),
                count: size - drop,
            });
        }
        Ok(Self::single(text.trim().parse().map_err(|_| syntax())?))
    }

    /// The first address.
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// The last address.
    pub fn last(&self) -> IpAddr {
        self.at(self.count - 1)
    }

    /// How many there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    fn at(&self, index: u64) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + index as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(index)).into(),
        }
    }

    #[inline]
    fn index_of(&self, address: IpAddr) -> Option<u64> {
        let distance = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                u64::from(address.to_bits().checked_sub(first.to_bits())?)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                u64::try_from(address.to_bits().checked_sub(first.to_bits())?).ok()?
            }
            _ => return None,
        };
        (distance < self.count).then_some(distance)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.first)?;
        if self.count > 1 {
            write!(formatter, "-{}", self.last())?;
        }
        Ok(())
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address_of(number: u128, v4: bool) -> IpAddr {
    if v4 {
        Ipv4Addr::from_bits(number as u32).into()
    } else {
        Ipv6Addr::from_bits(number).into()
    }
}

/// Source addresses and ports.
#[derive(Debug, Clone)]
pub struct Sources {
    ranges: Vec<AddressRange>,
    addresses: u64,
    first_port: u16,
    ports: u64,
}

impl Sources {
    /// All pairs of these addresses and ports.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn new(ranges: Vec<AddressRange>, ports: RangeInclusive<u16>) -> Result<Self, SourceError> {
        let addresses = ranges
            .iter()
            .fold(0_u64, |sum, range| sum.saturating_add(range.count));
        if addresses == 0 || addresses > 1 << 24 || ranges.len() > MAX_RANGES {
            return Err(SourceError::Count(addresses));
        }
        if ranges
            .windows(2)
            .any(|two| two[0].first.is_ipv4() != two[1].first.is_ipv4())
        {
            return Err(SourceError::MixedFamilies);
        }
        if ports.is_empty() || *ports.start() == 0 {
            return Err(SourceError::Ports);
        }
        let ports_count = u64::from(ports.end() - ports.start()) + 1;
        debug_assert!(addresses * ports_count <= MAX_PLACES);
        Ok(Self {
            ranges,
            addresses,
            first_port: *ports.start(),
            ports: ports_count,
        })
    }

    /// The ranges of addresses.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    /// The ports.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.first_port..=self.first_port + (self.ports - 1) as u16
    }

    /// How many places there are.
    pub const fn places(&self) -> u64 {
        self.addresses * self.ports
    }

    /// Whether the addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.ranges[0].first.is_ipv4()
    }

    /// The address and port of a place below [`places`](Self::places).
    #[inline]
    pub fn at(&self, place: u64) -> (IpAddr, u16) {
        let port = self.first_port + (place % self.ports) as u16;
        let mut index = place / self.ports;
        for range in &self.ranges {
            if index < range.count {
                return (range.at(index), port);
            }
            index -= range.count;
        }
        (self.ranges[0].first, port)
    }

    /// The place of an address and port, if they are ours.
    #[inline]
    pub fn place_of(&self, address: IpAddr, port: u16) -> Option<u64> {
        let port = u64::from(port.checked_sub(self.first_port)?);
        if port >= self.ports {
            return None;
        }
        let mut before = 0;
        for range in &self.ranges {
            if let Some(index) = range.index_of(address) {
                return Some((before + index) * self.ports + port);
            }
            before += range.count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(text: &str) -> AddressRange {
        AddressRange::parse(text).expect(text)
    }

    #[test]
    fn what_people_write_is_read() {
        for (text, shown, count) in [
            ("10.0.0.7", "10.0.0.7", 1),
            ("10.0.0.7-10.0.0.9", "10.0.0.7-10.0.0.9", 3),
            ("10.0.0.0/24", "10.0.0.1-10.0.0.254", 254),
            ("10.0.0.4/31", "10.0.0.4-10.0.0.5", 2),
            ("10.0.0.4/32", "10.0.0.4", 1),
            ("10.1.2.3/16", "10.1.0.1-10.1.255.254", 65_534),
            ("fd00::/120", "fd00::1-fd00::ff", 255),
            ("fd00::5", "fd00::5", 1),
        ] {
            assert_eq!(range(text).to_string(), shown);
            assert_eq!(range(text).count(), count, "{text}");
        }
        for text in [
            "",
            "10.0.0",
            "10.0.0.1/33",
            "10.0.0.9-10.0.0.1",
            "10.0.0.1-fd00::1",
            "a/b",
        ] {
            assert!(AddressRange::parse(text).is_err(), "{text}");
        }
        for text in ["0.0.0.0/0", "::/0", "fd00::/64"] {
            let sources = Sources::new(vec![range(text)], 1..=65_535);
            assert!(matches!(sources, Err(SourceError::Count(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_place_is_an_address_and_a_port(
            place: prop::sample::Index, low in 1..60_000_u16, more in 0..5000_u16,
        ) {
            let ranges = vec![range("10.0.0.7"), range("10.9.0.0/22"), range("10.8.0.1-10.8.0.3")];
            let sources = Sources::new(ranges, low..=low + more).unwrap();
            let place = place.index(sources.places() as usize) as u64;
            let (address, port) = sources.at(place);
            prop_assert_eq!(sources.place_of(address, port), Some(place));
            prop_assert!(sources.ports().contains(&port));
            let elsewhere = IpAddr::from([10, 0, 0, 8]);
            prop_assert_eq!(sources.place_of(elsewhere, port), None);
        }
    }
}
