//! Registers that hold what is known of a packet, byte by byte, and whether they match.

use super::octet::{Address, FIRST_PORT, Octet};
use super::packet::Packet;
use super::ranges::Ranges;
use super::rules::{Comparison, REGISTERS, Register, Set};
use super::truth::Truth;

/// The registers.
#[derive(Debug, Clone)]
pub struct Registers([Octet; REGISTERS]);

impl Default for Registers {
    fn default() -> Self {
        Self([Octet::UNKNOWN; REGISTERS])
    }
}

impl Registers {
    /// Puts bytes there. As the kernel does, it fills up the last four bytes with zeros.
    pub fn put(&mut self, to: Register, bytes: &[Octet]) {
        let zero = Octet::Bits {
            value: 0,
            known: 0xff,
        };
        let room = self.0.get_mut(to..).unwrap_or_default();
        let filled = bytes.len().next_multiple_of(4);
        let bytes = bytes.iter().copied().chain(core::iter::repeat(zero));
        for (place, byte) in room.iter_mut().zip(bytes.take(filled)) {
            *place = byte;
        }
    }

    /// Nothing is known of any of them any more.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    fn get(&self, at: Register, len: usize) -> Vec<Octet> {
        let rest = self.0.get(at..).unwrap_or_default();
        let bytes = rest.iter().copied();
        let unknown = core::iter::repeat(Octet::UNKNOWN);
        bytes.chain(unknown).take(len).collect()
    }

    /// Computes `(bytes & mask) ^ xor`.
    pub fn mask(&mut self, at: Register, to: Register, mask: &[u8], xor: &[u8]) {
        let bytes = self.get(at, mask.len());
        let xor = xor.iter().copied().chain(core::iter::repeat(0));
        let masked = bytes.iter().zip(mask).zip(xor);
        let masked: Vec<_> = masked
            .map(|((b, mask), xor)| b.masked(*mask, xor))
            .collect();
        self.put(to, &masked);
    }

    /// Turns the bytes of each number of `size` bytes round.
    pub fn swap(&mut self, at: Register, to: Register, len: usize, size: usize) {
        let mut bytes = self.get(at, len);
        let numbers = bytes.chunks_mut(size.max(1));
        numbers.for_each(<[Octet]>::reverse);
        self.put(to, &bytes);
    }

    /// Whether the bytes at `at` compare so with `with`.
    pub fn compare(&self, packet: &Packet<'_>, at: Register, is: Comparison, with: &[u8]) -> Truth {
        let bits = packet.bits();
        let (least, most) = (vec![0; with.len()], vec![0xff; with.len()]);
        match is {
            Comparison::Equal => self.equal(packet, at, with),
            Comparison::NotEqual => self.equal(packet, at, with).not(bits),
            Comparison::LessOrEqual => self.between(packet, at, &least, with),
            Comparison::Greater => self.between(packet, at, &least, with).not(bits),
            Comparison::GreaterOrEqual => self.between(packet, at, with, &most),
            Comparison::Less => self.between(packet, at, with, &most).not(bits),
        }
    }

    /// Whether the bytes at `at` are these.
    pub fn equal(&self, packet: &Packet<'_>, at: Register, with: &[u8]) -> Truth {
        // What is compared of each address: mask and value, byte by byte.
        let mut peer = ([0; 16], [0; 16]);
        let mut own = ([0; 16], [0; 16]);
        let mut truth = Truth::Yes;
        let octets = self.get(at, with.len());
        for (n, (octet, byte)) in octets.iter().copied().zip(with).enumerate() {
            match octet {
                Octet::Port(0) => {
                    // Both bytes, if both are asked for.
                    let wanted = [*byte, with.get(n + 1).copied().unwrap_or(0xff)];
                    if u16::from_be_bytes(wanted) < FIRST_PORT {
                        return Truth::No;
                    }
                    truth = Truth::Maybe;
                }
                Octet::Port(_) => truth = Truth::Maybe,
                Octet::Bits { value, known } if (value ^ byte) & known != 0 => return Truth::No,
                Octet::Bits { known: 0xff, .. } => {}
                Octet::Bits { .. } => truth = Truth::Maybe,
                Octet::Address { mask, .. } if byte & !mask != 0 => return Truth::No,
                Octet::Address { whose, at, mask } => {
                    let (masks, values) = match whose {
                        Address::Peer => &mut peer,
                        Address::Own => &mut own,
                    };
                    masks[usize::from(at) % 16] = mask;
                    values[usize::from(at) % 16] = *byte;
                }
            }
        }
        let of_own = if own.0 == [0; 16] {
            Truth::Yes
        } else {
            Truth::of_each(packet.own_bytes().map(|address| {
                let mut compared = address.iter().zip(own.0).zip(own.1);
                compared.all(|((byte, mask), value)| byte & mask == value)
            }))
        };
        truth.and(of_own).and(of_prefix(packet.bits(), peer))
    }

    /// Whether the bytes at `at` are neither less than `from` nor more than `to`.
    pub fn between(&self, packet: &Packet<'_>, at: Register, from: &[u8], to: &[u8]) -> Truth {
        let octets = self.get(at, from.len());
        let lies = |bytes: &[u8]| from <= bytes && bytes <= to;
        let known: Option<Vec<u8>> = octets.iter().map(|octet| octet.value()).collect();
        if let Some(bytes) = known {
            return Truth::is(lies(&bytes));
        }
        if let ([Octet::Port(0), Octet::Port(1)], &[a, b], &[c, d]) = (&octets[..], from, to) {
            let (from, to) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            return match () {
                () if to < FIRST_PORT => Truth::No,
                () if from <= FIRST_PORT && to == u16::MAX => Truth::Yes,
                () => Truth::Maybe,
            };
        }
        let is_address = |wanted: Address| {
            octets.iter().enumerate().all(|(n, octet)| {
                let n = n as u8;
                matches!(octet, Octet::Address { whose, at, mask: 0xff } if *whose == wanted && *at == n)
            })
        };
        if is_address(Address::Own) {
            let bytes = packet.own_bytes();
            return Truth::of_each(bytes.map(|bytes| bytes.get(..from.len()).is_some_and(lies)));
        }
        if is_address(Address::Peer) {
            return Truth::Of(Ranges::of([peers(packet.bits(), from, to)]));
        }
        Truth::Maybe
    }

    /// Whether what is at `at` is in a set, and what a map has for it: each of its data with when it is that.
    pub fn find<'s>(
        &self,
        packet: &Packet<'_>,
        at: Register,
        set: &'s Set,
    ) -> Vec<(Truth, &'s super::rules::Element)> {
        let each = set.elements.iter();
        let found = each.map(|element| (self.is_in(packet, at, set, element), element));
        found.filter(|(truth, _)| *truth != Truth::No).collect()
    }

    fn is_in(
        &self,
        packet: &Packet<'_>,
        at: Register,
        set: &Set,
        element: &super::rules::Element,
    ) -> Truth {
        let (from, to) = (&element.from[..], &element.to[..]);
        if from == to {
            return self.equal(packet, at, from);
        }
        if set.fields.len() < 2 {
            return self.between(packet, at, from, to);
        }
        let mut truth = Truth::Yes;
        let mut begins = 0;
        for field in &set.fields {
            let range = begins..begins + field;
            let (Some(from), Some(to)) = (from.get(range.clone()), to.get(range)) else {
                return Truth::Maybe;
            };
            truth = truth.and(self.between(packet, at + begins, from, to));
            begins += field.next_multiple_of(4);
        }
        truth
    }
}

/// The addresses from one to another, of which only the front may be given.
fn peers(bits: u32, from: &[u8], to: &[u8]) -> (u128, u128) {
    let number = |bytes: &[u8], rest: u8| {
        let bytes = bytes.iter().copied().chain(core::iter::repeat(rest));
        let bytes = bytes.take(bits as usize / 8);
        bytes.fold(0, |number, byte| number << 8 | u128::from(byte))
    };
    (number(from, 0), number(to, 0xff))
}

/// For which peers it holds that the bits under a mask have a value: a mask that is no prefix is beyond us.
fn of_prefix(bits: u32, (mask, value): ([u8; 16], [u8; 16])) -> Truth {
    if mask == [0; 16] {
        return Truth::Yes;
    }
    let number = u128::from_be_bytes(mask);
    if number.leading_ones() + number.trailing_zeros() != 128 {
        return Truth::Maybe;
    }
    let mut last = value;
    for (byte, mask) in last.iter_mut().zip(mask) {
        *byte |= !mask;
    }
    Truth::Of(Ranges::of([peers(bits, &value, &last)]))
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
