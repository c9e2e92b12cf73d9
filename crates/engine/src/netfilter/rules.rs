//! Chains, rules and sets of nf_tables, as the kernel has them: a rule is a list of small steps on a row
//! of registers, and ends where one of them does not match.

use std::collections::{BTreeMap, HashMap};

/// Where a register begins, in bytes: there are 64 of them, which steps use in pieces of 4 or 16.
pub type Register = usize;

/// Bytes of all registers.
pub const REGISTERS: usize = 64;

/// All rules of a network namespace.
#[derive(Debug, Clone, Default)]
pub struct Ruleset {
    /// The chains that hooks call: in the order in which they do so.
    pub bases: Vec<Base>,
    /// Every chain, by its table and its name.
    pub chains: HashMap<(Table, String), Chain>,
    /// Every set, by its table and its name.
    pub sets: HashMap<(Table, String), Set>,
    /// Some rule marks packets or connections, or takes them out of connection tracking: what such a
    /// rule leaves behind is not known here.
    pub marks: bool,
}

/// A table: its family (`NFPROTO_*`) and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table {
    /// Of packets.
    pub family: u8,
    /// What its maker calls it.
    pub name: String,
}

/// A chain that a hook calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Its table.
    pub table: Table,
    /// Its name.
    pub chain: String,
    /// Where it is called.
    pub hook: Hook,
    /// It is of type `nat`: only the first packet of a connection passes it.
    pub nat: bool,
    /// What falls through is dropped.
    pub drops: bool,
    /// Lower ones are called first.
    pub priority: i32,
    /// The devices for which it is called, `eth*` for all whose names begin so; every one where none is named.
    pub devices: Vec<String>,
}

impl Base {
    /// Whether it is called for this device.
    pub fn is_of(&self, device: &str) -> bool {
        let named = |name: &String| match name.strip_suffix('*') {
            Some(begin) => device.starts_with(begin),
            None => name == device,
        };
        self.devices.is_empty() || self.devices.iter().any(named)
    }
}

/// Where packets are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// By a device that has received it.
    Ingress,
    /// Before it is routed.
    Prerouting,
    /// Before this machine takes it.
    Input,
    /// Made by this machine, before it is routed.
    Output,
    /// Before it leaves.
    Postrouting,
    /// By the device that is to send it.
    Egress,
}

/// Rules, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The number by which `nft -a` shows it.
    pub handle: u64,
    /// What it does.
    pub steps: Vec<Step>,
}

/// What a rule does, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Loads a part of the packet, or of what is known of it.
    Load {
        /// What.
        what: Load,
        /// How many bytes.
        len: usize,
        /// Where to.
        to: Register,
    },
    /// Loads bytes.
    Value {
        /// These.
        bytes: Vec<u8>,
        /// Where to.
        to: Register,
    },
    /// Ends the rule unless this holds.
    Compare {
        /// Of the bytes there,
        at: Register,
        /// this,
        is: Comparison,
        /// with these.
        with: Vec<u8>,
    },
    /// Ends the rule unless the bytes at a register lie between two others, or do not.
    Between {
        /// Where.
        at: Register,
        /// They are to lie between.
        inside: bool,
        /// The least.
        from: Vec<u8>,
        /// The largest.
        to: Vec<u8>,
    },
    /// Computes `(bytes & mask) ^ xor`.
    Mask {
        /// Where from.
        at: Register,
        /// Where to.
        to: Register,
        /// Which bits stay.
        mask: Vec<u8>,
        /// Which are turned.
        xor: Vec<u8>,
    },
    /// Turns the bytes of each number round.
    Swap {
        /// Where from.
        at: Register,
        /// Where to.
        to: Register,
        /// Of how many bytes.
        len: usize,
        /// The bytes of a number.
        size: usize,
    },
    /// Ends the rule unless what a register holds is in a set, or is not.
    Find {
        /// Where.
        at: Register,
        /// The set.
        set: String,
        /// It is to be there.
        inside: bool,
        /// What is to be done with what the set, a map, has for it.
        then: Then,
    },
    /// Ends the rule unless this holds of the packet.
    Test(Test),
    /// The end: this becomes of the packet.
    Verdict(RuleVerdict),
    /// It may hold or not, and registers may be what they like: something that is not known here.
    Unknown(String),
}

/// What becomes of what is found in a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It is no map.
    Nothing,
    /// It is loaded.
    Load(Register),
    /// It is the verdict.
    Verdict,
}

/// What can be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Bytes of the packet, from this one on, from the beginning of a header.
    Header(Header, usize),
    /// `NFT_META_*`.
    Meta(u32),
    /// `NFT_CT_*`.
    Ct(u32),
    /// What the routes say: the kind of an address, or whether it is reached by the interface.
    Fib {
        /// `NFT_FIB_RESULT_*`.
        result: u32,
        /// `NFTA_FIB_F_*`.
        flags: u32,
    },
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Of Ethernet.
    Link,
    /// Of IP.
    Network,
    /// Of TCP.
    Transport,
}

/// How bytes compare, the first one most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The same.
    Equal,
    /// Others.
    NotEqual,
    /// Less.
    Less,
    /// Not more.
    LessOrEqual,
    /// More.
    Greater,
    /// Not less.
    GreaterOrEqual,
}

/// What an extension of the older kind asks of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// The state of its connection is one of these: bits as in `NFT_CT_STATE`.
    State(u32),
    /// A port lies in one of these ranges.
    Port {
        /// Which port.
        side: Side,
        /// From the first to the last of each.
        ranges: Vec<(u16, u16)>,
    },
    /// Of the flags under the first, the second are set, and no others.
    Flags(u8, u8),
    /// An address is of one of these kinds: bits of 1 << `RTN_*`.
    AddressKind {
        /// The destination's, not the source's.
        destination: bool,
        /// Which.
        kinds: u16,
    },
    /// Not this.
    Not(Box<Test>),
    /// All of these.
    All(Vec<Test>),
}

/// Which port is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// That from which it comes.
    Source,
    /// That to which it goes.
    Destination,
    /// Any of both.
    Either,
}

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleVerdict {
    /// This chain has no objection.
    Accept,
    /// Nobody gets it.
    Drop,
    /// Nobody gets it, and its sender is told so.
    Reject(Rejection),
    /// The next rule.
    Continue,
    /// Back to the chain that called.
    Return,
    /// On in another chain, and back.
    Jump(String),
    /// On in another chain, and not back.
    Goto(String),
    /// It goes where only the kernel can bring it: rewritten, or to a program.
    Elsewhere,
}

/// How the sender of a packet is told that nobody gets it, by the family of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejection {
    /// Over IPv4.
    pub v4: Option<Answer>,
    /// Over IPv6.
    pub v6: Option<Answer>,
}

/// What the sender of a packet is told whom nobody gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// RST.
    Reset,
    /// That its destination is unreachable: this code of ICMP's, or ICMPv6's, message.
    Unreachable(u8),
}

/// A set, or a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// Its elements come and go by themselves, or by packets.
    pub moves: bool,
    /// Its keys have several fields, each padded to four bytes: their lengths.
    pub fields: Vec<usize>,
    /// The elements: the least key and the largest, and what a map has for them.
    pub elements: Vec<Element>,
    /// What a map has for everything else, if it says so.
    pub otherwise: Option<Option<Datum>>,
}

/// Keys of a set, and what the map has for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The least.
    pub from: Vec<u8>,
    /// The largest.
    pub to: Vec<u8>,
    /// What the map has.
    pub datum: Option<Datum>,
}

/// What a map has for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    /// Bytes.
    Value(Vec<u8>),
    /// What becomes of the packet.
    Verdict(RuleVerdict),
}

/// The elements of a set of intervals, whose begins and ends the kernel has as elements of their own.
/// What has no end goes to the largest key.
pub fn intervals(bounds: Vec<(Vec<u8>, bool, Option<Datum>)>) -> Vec<Element> {
    // Of the same key the end comes first: one interval ends where the next begins.
    let mut sorted: BTreeMap<(Vec<u8>, bool), Option<Datum>> = BTreeMap::new();
    for (key, ends, datum) in bounds {
        sorted.insert((key, !ends), datum);
    }
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Option<(Vec<u8>, Option<Datum>)> = None;
    for ((key, begins), datum) in sorted {
        if let Some((from, of)) = open.take() {
            let to = before(&key);
            elements.push(Element {
                from,
                to,
                datum: of,
            });
        }
        if begins {
            open = Some((key, datum));
        }
    }
    if let Some((from, datum)) = open {
        let to = vec![0xff; from.len()];
        elements.push(Element { from, to, datum });
    }
    elements
}

/// The key before this one.
fn before(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    for byte in key.iter_mut().rev() {
        let (less, borrowed) = byte.overflowing_sub(1);
        *byte = less;
        if !borrowed {
            break;
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_made_of_their_bounds_in_any_order() {
        let end = |key: u16| (key.to_be_bytes().to_vec(), true, None);
        let begin = |key: u16| (key.to_be_bytes().to_vec(), false, None);
        let found = intervals(vec![
            end(0x0200),
            end(0),
            begin(0xff00),
            begin(0x0100),
            end(0x0300),
            begin(0x0200),
        ]);
        let found: Vec<_> = found.iter().map(|e| (&e.from[..], &e.to[..])).collect();
        let expected: [(&[u8], &[u8]); 3] = [
            (&[1, 0], &[1, 0xff]),
            (&[2, 0], &[2, 0xff]),
            (&[0xff, 0], &[0xff, 0xff]),
        ];
        assert_eq!(found, expected);
    }
}
