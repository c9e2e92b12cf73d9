//! Extensions of the older kind that rules of nf_tables may hold, as iptables-nft makes them: matches and
//! targets, with a structure of each one's own.

use crate::netfilter::rules::{Answer, Rejection, RuleVerdict, Side, Step, Test};
use crate::slow::kernel::netlink::{u16_at, u32_at};

/// The steps of a match; `None` if it is not understood.
pub fn read_match(name: &str, revision: u64, info: &[u8]) -> Option<Vec<Step>> {
    let test = match (name, revision) {
        ("comment", _) => return Some(Vec::new()),
        ("tcp", 0) => tcp(info)?,
        ("multiport", 1) => multiport(info)?,
        ("conntrack", 1..=3) => conntrack(info, revision)?,
        ("state", 0) => Test::State(u32_at(info, 0)?),
        ("addrtype", 1) => addrtype(info)?,
        _ => return None,
    };
    Some(vec![Step::Test(test)])
}

/// The steps of a target.
pub fn target(name: &str, info: &[u8]) -> Vec<Step> {
    let verdict = match name {
        "REJECT" => RuleVerdict::Reject(rejection(info)),
        "LOG" | "NFLOG" | "ULOG" | "AUDIT" | "TRACE" | "TCPMSS" | "TCPOPTSTRIP" | "CHECKSUM"
        | "CLASSIFY" | "DSCP" | "TOS" | "TTL" | "HL" | "ECN" | "SET" | "RATEEST" | "LED"
        | "IDLETIMER" => return Vec::new(),
        name if marks(name) => return Vec::new(),
        // Addresses are rewritten, a program decides, or somebody whom nobody knows here.
        _ => RuleVerdict::Elsewhere,
    };
    vec![Step::Verdict(verdict)]
}

/// `struct ipt_reject_info` and `ip6t_reject_info`: one number, which means something else in each family.
fn rejection(info: &[u8]) -> Rejection {
    let with = u32_at(info, 0);
    let v4 = match with {
        Some(code @ 0..=3) => Some(Answer::Unreachable(code as u8)),
        Some(5) => Some(Answer::Unreachable(9)),
        Some(6) => Some(Answer::Unreachable(10)),
        Some(7) => Some(Answer::Reset),
        Some(8) => Some(Answer::Unreachable(13)),
        _ => None,
    };
    let v6 = match with {
        Some(code @ 0..=4) => Some(Answer::Unreachable(code as u8)),
        Some(6) => Some(Answer::Reset),
        Some(7) => Some(Answer::Unreachable(5)),
        Some(8) => Some(Answer::Unreachable(6)),
        _ => None,
    };
    Rejection { v4, v6 }
}

/// Whether a target leaves something behind that other rules can ask for.
pub fn marks(target: &str) -> bool {
    const MARK: [&str; 7] = [
        "MARK",
        "CONNMARK",
        "CT",
        "NOTRACK",
        "SECMARK",
        "CONNSECMARK",
        "HMARK",
    ];
    MARK.contains(&target)
}

fn not_if(inverted: bool, test: Test) -> Test {
    if inverted {
        Test::Not(Box::new(test))
    } else {
        test
    }
}

/// `struct xt_tcp`: ranges of both ports, an option, flags, and what of it is inverted.
fn tcp(info: &[u8]) -> Option<Test> {
    let port = |side, at: usize, inverted: bool| {
        let range = (u16_at(info, at)?, u16_at(info, at + 2)?);
        let ranges = vec![range];
        let all = range == (0, u16::MAX) && !inverted;
        Some((!all).then(|| not_if(inverted, Test::Port { side, ranges })))
    };
    let (option, mask, set) = (*info.get(8)?, *info.get(9)?, *info.get(10)?);
    let inverted = *info.get(11)?;
    if option != 0 {
        // Whether a segment has it, who knows.
        return None;
    }
    let source = port(Side::Source, 0, inverted & 1 != 0)?;
    let destination = port(Side::Destination, 4, inverted & 2 != 0)?;
    let flags = Test::Flags(mask, set);
    let flags = (mask != 0).then(|| not_if(inverted & 4 != 0, flags));
    let tests = [source, destination, flags];
    Some(Test::All(tests.into_iter().flatten().collect()))
}

/// `struct xt_multiport_v1`: which side, how many ports, which of them begin a range.
fn multiport(info: &[u8]) -> Option<Test> {
    const PORTS: usize = 15;
    let side = match info.first()? {
        0 => Side::Source,
        1 => Side::Destination,
        2 => Side::Either,
        _ => return None,
    };
    let count = usize::from(*info.get(1)?).min(PORTS);
    let begins = |at: usize| info.get(2 + 2 * PORTS + at).map(|flag| *flag != 0);
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < count {
        let first = u16_at(info, 2 + 2 * at)?;
        let last = if begins(at)? && at + 1 < count {
            at += 1;
            u16_at(info, 2 + 2 * at)?
        } else {
            first
        };
        ranges.push((first, last));
        at += 1;
    }
    let inverted = *info.get(2 + 3 * PORTS)? != 0;
    Some(not_if(inverted, Test::Port { side, ranges }))
}

/// `struct xt_conntrack_mtinfo`: what is asked is the state, or it is not understood.
fn conntrack(info: &[u8], revision: u64) -> Option<Test> {
    const STATE: u16 = 1;
    const UNTRACKED: u32 = 1 << 8;
    let (asked, inverted) = (u16_at(info, 146)?, u16_at(info, 148)?);
    if asked != STATE {
        return None;
    }
    let states = match revision {
        1 => u32::from(*info.get(150)?),
        _ => u32::from(u16_at(info, 150)?),
    };
    // Those of rewritten addresses, which no connection of the engine's has, lie where nf_tables has the
    // untracked ones.
    let untracked = if states & UNTRACKED == 0 { 0 } else { 1 << 6 };
    let states = states & 0x3f | untracked;
    Some(not_if(inverted & STATE != 0, Test::State(states)))
}

/// `struct xt_addrtype_info_v1`: kinds of the source, kinds of the destination, flags.
fn addrtype(info: &[u8]) -> Option<Test> {
    let (source, destination) = (u16_at(info, 0)?, u16_at(info, 2)?);
    let flags = u32_at(info, 4)?;
    let kind = |destination, kinds, inverted: u32| {
        let test = Test::AddressKind { destination, kinds };
        (kinds != 0).then(|| not_if(flags & inverted != 0, test))
    };
    let tests = [kind(false, source, 1), kind(true, destination, 2)];
    Some(Test::All(tests.into_iter().flatten().collect()))
}
