//! Reads an expression of nf_tables into the steps of a rule.

use super::xtables;
use crate::netfilter::rules::{
    Answer, Comparison, Header, Load, REGISTERS, Register, Rejection, RuleVerdict, Step, Then,
};
use crate::slow::kernel::netlink::Attributes;

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
/// The register that holds the verdict.
const VERDICT: u64 = 0;
/// `NFT_LOOKUP_F_INV`.
const INVERTED: u64 = 1;

/// A number of one to eight bytes, the first one most.
pub fn big_endian(value: &[u8]) -> Option<u64> {
    let fits = (1..=8).contains(&value.len());
    let number = value.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    fits.then_some(number)
}

/// A name.
pub fn text(value: Option<&[u8]>) -> String {
    let value = value.unwrap_or_default();
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

/// What a verdict says.
pub fn verdict_of(of: Attributes<'_>) -> RuleVerdict {
    let chain = || text(of.find(NFTA_VERDICT_CHAIN));
    match of.find(NFTA_VERDICT_CODE).and_then(big_endian) {
        // The upper half of the number is a queue's, or an errno.
        Some(code) => match code as u32 as i32 {
            -1 | -2 => RuleVerdict::Continue,
            -3 => RuleVerdict::Jump(chain()),
            -4 => RuleVerdict::Goto(chain()),
            -5 => RuleVerdict::Return,
            code if code & 0xff == 0 => RuleVerdict::Drop,
            1 => RuleVerdict::Accept,
            _ => RuleVerdict::Elsewhere,
        },
        None => RuleVerdict::Elsewhere,
    }
}

/// Adds the steps of an expression. True if it leaves something behind that rules can ask for: a mark.
pub fn read(expression: Attributes<'_>, steps: &mut Vec<Step>) -> bool {
    let name = text(expression.find(NFTA_EXPR_NAME));
    let of = Attributes::nested(expression.find(NFTA_EXPR_DATA).unwrap_or_default());
    // Whatever is not understood may hold or not.
    let known = step(&name, of).unwrap_or_else(|| vec![Step::Unknown(name.clone())]);
    steps.extend(known);
    let sets = |kind| of.find(kind).is_some();
    match &name[..] {
        "meta" => sets(META_SREG),
        "ct" => sets(CT_SREG),
        "notrack" => true,
        "target" => xtables::marks(&text(of.find(NFTA_TARGET_NAME))),
        _ => false,
    }
}

/// `NFT_META_*` that are names of interfaces or of their kinds.
const NAMES: [u64; 6] = [6, 7, 17, 18, 26, 27];
/// `NFT_CT_*` that are names, addresses or labels.
const LONG: [u64; 8] = [6, 8, 9, 13, 19, 20, 21, 22];
const META_SREG: u16 = 3;
const CT_SREG: u16 = 4;
const NFTA_TARGET_NAME: u16 = 1;
const NFTA_TARGET_INFO: u16 = 3;

/// The steps of an expression; `None` if it is not understood.
fn step(name: &str, of: Attributes<'_>) -> Option<Vec<Step>> {
    let number = |kind| of.find(kind).and_then(big_endian);
    let at = |kind| register(number(kind)?);
    let value = |kind| {
        let data = Attributes::nested(of.find(kind)?);
        data.find(NFTA_DATA_VALUE).map(<[u8]>::to_vec)
    };
    Some(vec![match name {
        "immediate" if number(1)? == VERDICT => {
            let data = Attributes::nested(of.find(2)?);
            Step::Verdict(verdict_of(Attributes::nested(
                data.find(NFTA_DATA_VERDICT)?,
            )))
        }
        "immediate" => Step::Value {
            to: at(1)?,
            bytes: value(2)?,
        },
        "payload" if of.find(5).is_some() => return Some(Vec::new()),
        "payload" => {
            let header = match number(2)? {
                0 => Header::Link,
                1 => Header::Network,
                2 => Header::Transport,
                _ => return None,
            };
            Step::Load {
                what: Load::Header(header, number(3)? as usize),
                to: at(1)?,
                len: len(number(4)?)?,
            }
        }
        "meta" if of.find(META_SREG).is_some() => return Some(Vec::new()),
        "meta" => Step::Load {
            what: Load::Meta(number(2)? as u32),
            to: at(1)?,
            len: if NAMES.contains(&number(2)?) { 16 } else { 4 },
        },
        "ct" if of.find(CT_SREG).is_some() => return Some(Vec::new()),
        "ct" => Step::Load {
            what: Load::Ct(number(2)? as u32),
            to: at(1)?,
            len: if LONG.contains(&number(2)?) { 16 } else { 4 },
        },
        "fib" => Step::Load {
            what: Load::Fib {
                result: number(2)? as u32,
                flags: number(3)? as u32,
            },
            to: at(1)?,
            len: 4,
        },
        "cmp" => Step::Compare {
            at: at(1)?,
            is: comparison(number(2)?)?,
            with: value(3)?,
        },
        "range" => Step::Between {
            at: at(1)?,
            inside: number(2)? == 0,
            from: value(3)?,
            to: value(4)?,
        },
        "bitwise" if number(6).unwrap_or(0) == 0 => Step::Mask {
            at: at(1)?,
            to: at(2)?,
            mask: value(4)?,
            xor: value(5)?,
        },
        "byteorder" => Step::Swap {
            at: at(1)?,
            to: at(2)?,
            len: len(number(4)?)?,
            size: len(number(5)?)?,
        },
        "lookup" => Step::Find {
            set: text(of.find(1)),
            at: at(2)?,
            then: match number(3) {
                None => Then::Nothing,
                Some(VERDICT) => Then::Verdict,
                Some(to) => Then::Load(register(to)?),
            },
            inside: number(5).unwrap_or(0) & INVERTED == 0,
        },
        "reject" => {
            let code = number(2).unwrap_or(0) as u8;
            Step::Verdict(RuleVerdict::Reject(rejection(number(1)?, code)))
        }
        "nat" | "masq" | "redir" | "tproxy" | "queue" | "synproxy" | "fwd" => {
            Step::Verdict(RuleVerdict::Elsewhere)
        }
        // They hold always, and change nothing that is asked here.
        "counter" | "log" | "last" | "notrack" | "dup" | "flow_offload" => return Some(Vec::new()),
        "match" => {
            let (name, info) = (text(of.find(1)), of.find(3).unwrap_or_default());
            return xtables::read_match(&name, number(2).unwrap_or(0), info);
        }
        "target" => {
            let info = of.find(NFTA_TARGET_INFO).unwrap_or_default();
            return Some(xtables::target(&text(of.find(NFTA_TARGET_NAME)), info));
        }
        _ => return None,
    }])
}

/// How a packet is rejected: `NFT_REJECT_*`, and a code of ICMP's or one for both families
/// (`NFT_REJECT_ICMPX_*`).
fn rejection(kind: u64, code: u8) -> Rejection {
    let (v4, v6) = match (kind, code) {
        (1, _) => (Answer::Reset, Answer::Reset),
        (2, 0) => (Answer::Unreachable(0), Answer::Unreachable(0)),
        (2, 2) => (Answer::Unreachable(1), Answer::Unreachable(3)),
        (2, 3) => (Answer::Unreachable(13), Answer::Unreachable(1)),
        (2, _) => (Answer::Unreachable(3), Answer::Unreachable(4)),
        (_, code) => (Answer::Unreachable(code), Answer::Unreachable(code)),
    };
    Rejection {
        v4: Some(v4),
        v6: Some(v6),
    }
}

/// Where a register begins: four of 16 bytes, or sixteen of 4, by the same bytes.
fn register(number: u64) -> Option<Register> {
    let at = match number {
        1..=4 => (number - 1) * 16,
        8..=23 => (number - 8) * 4,
        _ => return None,
    };
    Some(at as usize)
}

fn len(bytes: u64) -> Option<usize> {
    let bytes = usize::try_from(bytes).ok()?;
    (1..=REGISTERS).contains(&bytes).then_some(bytes)
}

fn comparison(number: u64) -> Option<Comparison> {
    Some(match number {
        0 => Comparison::Equal,
        1 => Comparison::NotEqual,
        2 => Comparison::Less,
        3 => Comparison::LessOrEqual,
        4 => Comparison::Greater,
        5 => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
