//! From rule to rule, from chain to chain, from hook to hook: what becomes of a packet.
//!
//! The way goes for all peers at once. Where a rule holds for some of them, it goes two ways: those go by
//! the rule's verdict, the others to the next rule. Where it is not known whether a rule holds, everybody
//! goes to the next rule, and at the end it is seen whether its verdict would have made a difference.

use super::matching::Registers;
use super::packet::{Packet, Way};
use super::ranges::Ranges;
use super::rules::{
    Answer, Base, Datum, Hook, Rejection, Rule, RuleVerdict, Ruleset, Set, Step, Table, Then,
};
use super::truth::Truth;

/// How deep chains may call each other (`NFT_JUMP_STACK_SIZE`).
const DEPTH: usize = 16;
/// Rules that are looked at for one packet; what has more is beyond us.
const RULES: usize = 1 << 18;

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It arrives.
    Accepted,
    /// It is dropped, or refused: then its sender is told so.
    Dropped(Place, Option<Answer>),
    /// Only the kernel can bring it where it goes.
    Elsewhere(Place),
    /// It depends on what is not known here.
    Unclear(Place),
}

impl Outcome {
    fn is_like(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }
}

/// Where something was decided: a rule, or a chain's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The table.
    pub table: Table,
    /// The chain.
    pub chain: String,
    /// The rule's handle; none for the policy.
    pub rule: Option<u64>,
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let family = match self.table.family {
            1 => "inet",
            2 => "ip",
            5 => "netdev",
            7 => "bridge",
            10 => "ip6",
            _ => "",
        };
        let (table, chain) = (&self.table.name, &self.chain);
        match self.rule {
            Some(handle) => write!(
                f,
                "rule {handle} of chain {chain} in table {family} {table}"
            ),
            None => write!(f, "the policy of chain {chain} in table {family} {table}"),
        }
    }
}

/// What becomes of the packets of which peers: every peer is in one part.
pub type Verdict = Vec<(Ranges, Outcome)>;

/// Where a chain has brought the packets of some peers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    At(Outcome),
    /// Back to where it was called.
    Through,
}

impl End {
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::At(a), Self::At(b)) => a.is_like(b),
            (Self::Through, Self::Through) => true,
            _ => false,
        }
    }
}

type Ends = Vec<(Ranges, End)>;

/// What a rule says: to the peers for which it holds, or may hold.
struct Says {
    peers: Ranges,
    verdict: RuleVerdict,
    certain: bool,
}

impl Ruleset {
    /// What becomes of `packet`, for each of these peers.
    pub fn verdict(&self, packet: &Packet<'_>, peers: Ranges) -> Verdict {
        let mut walk = Walk {
            rules: self,
            packet,
            left: RULES,
        };
        let hooks = match packet.way {
            Way::In => [Hook::Ingress, Hook::Prerouting, Hook::Input],
            Way::Out => [Hook::Output, Hook::Postrouting, Hook::Egress],
        };
        let mut going = peers;
        let mut verdict = Verdict::new();
        for hook in hooks {
            for base in self.bases.iter().filter(|base| base.hook == hook) {
                if !walk.passes(base) {
                    continue;
                }
                let mut on = Ranges::NONE;
                for (peers, outcome) in walk.base(base, going) {
                    if outcome == Outcome::Accepted {
                        on = on.union(&peers);
                    } else {
                        verdict.push((peers, outcome));
                    }
                }
                going = on;
            }
        }
        if !going.is_empty() {
            verdict.push((going, Outcome::Accepted));
        }
        verdict
    }
}

/// How a chain is called.
struct Called<'a> {
    table: &'a Table,
    /// What it means that it has nothing to say.
    through: End,
    /// How many more may be called.
    depth: usize,
}

impl Called<'_> {
    fn jump(&self) -> Self {
        Self {
            through: End::Through,
            ..self.goto()
        }
    }

    fn goto(&self) -> Self {
        Self {
            table: self.table,
            through: self.through.clone(),
            depth: self.depth - 1,
        }
    }
}

struct Walk<'a> {
    rules: &'a Ruleset,
    packet: &'a Packet<'a>,
    left: usize,
}

impl Walk<'_> {
    /// Whether the packet passes this chain at all.
    fn passes(&self, base: &Base) -> bool {
        let family = match base.table.family {
            2 => !self.packet.is_v6(),
            10 => self.packet.is_v6(),
            1 | 5 => true,
            // Those of bridges and of ARP are not on the way of what arrives at an interface.
            _ => false,
        };
        family && base.is_of(&self.packet.interface.name) && (!base.nat || self.packet.opens())
    }

    fn base(&mut self, base: &Base, peers: Ranges) -> Verdict {
        let policy = match base.drops {
            true => {
                let place = Place {
                    table: base.table.clone(),
                    chain: base.chain.clone(),
                    rule: None,
                };
                Outcome::Dropped(place, None)
            }
            false => Outcome::Accepted,
        };
        let called = Called {
            table: &base.table,
            through: End::At(policy),
            depth: DEPTH,
        };
        let ends = self.chain(&called, &base.chain, peers);
        let ends = ends.into_iter().filter_map(|(peers, end)| match end {
            End::At(outcome) => Some((peers, outcome)),
            // Through a base chain leads to its policy.
            End::Through => None,
        });
        ends.collect()
    }

    /// Where a chain brings the packets of these peers.
    fn chain(&mut self, called: &Called<'_>, name: &str, peers: Ranges) -> Ends {
        let Called {
            table,
            through,
            depth,
        } = called;
        let place = |rule: Option<&Rule>| Place {
            table: (*table).clone(),
            chain: name.to_owned(),
            rule: rule.map(|rule| rule.handle),
        };
        let chain = (*table).clone();
        let chain = self.rules.chains.get(&(chain, name.to_owned()));
        let (Some(chain), 1..) = (chain, depth) else {
            // It has gone while it was read, or is called in a circle: the kernel would not have that.
            return vec![(peers, End::At(Outcome::Unclear(place(None))))];
        };
        let mut going = peers;
        let mut ends = Ends::new();
        let mut doubts: Vec<(Place, Ends)> = Vec::new();
        for rule in &chain.rules {
            if going.is_empty() {
                break;
            }
            if self.left == 0 {
                ends.push((going, End::At(Outcome::Unclear(place(Some(rule))))));
                return ends;
            }
            self.left -= 1;
            let (said, mut on) = self.rule(table, rule, going);
            for Says {
                peers,
                verdict,
                certain,
            } in said
            {
                let at = |outcome: fn(Place) -> Outcome| End::At(outcome(place(Some(rule))));
                let all = |end: End| vec![(peers.clone(), end)];
                let mut reached = match &verdict {
                    RuleVerdict::Accept => all(End::At(Outcome::Accepted)),
                    RuleVerdict::Drop => all(at(|place| Outcome::Dropped(place, None))),
                    RuleVerdict::Reject(Rejection { v4, v6 }) => {
                        let answer = if self.packet.is_v6() { *v6 } else { *v4 };
                        all(End::At(Outcome::Dropped(place(Some(rule)), answer)))
                    }
                    RuleVerdict::Elsewhere => all(at(Outcome::Elsewhere)),
                    RuleVerdict::Return => all(through.clone()),
                    RuleVerdict::Continue => Ends::new(),
                    RuleVerdict::Jump(to) => self.chain(&called.jump(), to, peers.clone()),
                    RuleVerdict::Goto(to) => self.chain(&called.goto(), to, peers.clone()),
                };
                let comes_back = matches!(verdict, RuleVerdict::Jump(_));
                let mut back = match verdict {
                    RuleVerdict::Continue => peers.clone(),
                    _ => Ranges::NONE,
                };
                if comes_back {
                    reached.retain(|(peers, end)| {
                        let through = *end == End::Through;
                        if through {
                            back = back.union(peers);
                        }
                        !through
                    });
                }
                if certain {
                    on = on.union(&back);
                    ends.append(&mut reached);
                } else {
                    on = on.union(&peers);
                    doubts.push((place(Some(rule)), reached));
                }
            }
            going = on;
        }
        if !going.is_empty() {
            ends.push((going, through.clone()));
        }
        for (place, reached) in doubts.into_iter().rev() {
            ends = doubted(ends, &reached, &place);
        }
        ends
    }

    /// What a rule says to whom, and to whom it says nothing.
    fn rule(&self, table: &Table, rule: &Rule, peers: Ranges) -> (Vec<Says>, Ranges) {
        let bits = self.packet.bits();
        let marked = self.rules.marks;
        let mut registers = Registers::default();
        let mut matched = peers;
        let mut unmatched = Ranges::NONE;
        let mut certain = true;
        for step in &rule.steps {
            let truth = match step {
                Step::Load { what, len, to } => {
                    let bytes = self.packet.load(*what, *len, marked);
                    registers.put(*to, &bytes);
                    Truth::Yes
                }
                Step::Value { bytes, to } => {
                    registers.put(*to, &super::packet::known(bytes));
                    Truth::Yes
                }
                Step::Mask { at, to, mask, xor } => {
                    registers.mask(*at, *to, mask, xor);
                    Truth::Yes
                }
                Step::Swap { at, to, len, size } => {
                    registers.swap(*at, *to, *len, *size);
                    Truth::Yes
                }
                Step::Compare { at, is, with } => registers.compare(self.packet, *at, *is, with),
                Step::Between {
                    at,
                    inside,
                    from,
                    to,
                } => {
                    let lies = registers.between(self.packet, *at, from, to);
                    lies.not_if(!inside, bits)
                }
                Step::Test(test) => self.packet.test(test, marked),
                Step::Unknown(_) => {
                    registers.forget();
                    Truth::Maybe
                }
                Step::Verdict(verdict) => {
                    let verdict = verdict.clone();
                    let says = Says {
                        peers: matched,
                        verdict,
                        certain,
                    };
                    return (vec![says], unmatched);
                }
                Step::Find {
                    at,
                    set,
                    inside,
                    then,
                } => {
                    let set = self.rules.sets.get(&(table.clone(), set.clone()));
                    match (set, then) {
                        (Some(set), Then::Nothing) => {
                            let found = in_any(registers.find(self.packet, *at, set));
                            found.or_moves(set).not_if(!inside, bits)
                        }
                        (Some(set), Then::Load(to)) => self.load(&mut registers, *at, set, *to),
                        (Some(set), Then::Verdict) => {
                            let said = self.by_map(&registers, *at, set, matched, certain);
                            let (said, rest) = said;
                            return (said, unmatched.union(&rest));
                        }
                        (None, _) => Truth::Maybe,
                    }
                }
            };
            match truth {
                Truth::Yes => {}
                Truth::No => return (Vec::new(), unmatched.union(&matched)),
                Truth::Maybe => certain = false,
                Truth::Of(peers) => {
                    unmatched = unmatched.union(&matched.subtract(&peers));
                    matched = matched.intersect(&peers);
                    if matched.is_empty() {
                        break;
                    }
                }
            }
        }
        // It counted, or marked, or nobody was left.
        (Vec::new(), unmatched.union(&matched))
    }

    /// Loads what a map has.
    fn load(&self, registers: &mut Registers, at: usize, set: &Set, to: usize) -> Truth {
        let found = registers.find(self.packet, at, set);
        match &found[..] {
            [] if set.otherwise.is_none() && !set.moves => Truth::No,
            [(Truth::Yes, element)] if !set.moves => match &element.datum {
                Some(Datum::Value(bytes)) => {
                    registers.put(to, &super::packet::known(bytes));
                    Truth::Yes
                }
                _ => Truth::Maybe,
            },
            _ => {
                registers.forget();
                Truth::Maybe
            }
        }
    }

    /// What a map of verdicts says.
    fn by_map(
        &self,
        registers: &Registers,
        at: usize,
        set: &Set,
        peers: Ranges,
        certain: bool,
    ) -> (Vec<Says>, Ranges) {
        let mut left = peers;
        let mut said = Vec::new();
        for (truth, element) in registers.find(self.packet, at, set) {
            let Some(Datum::Verdict(verdict)) = &element.datum else {
                continue;
            };
            let verdict = verdict.clone();
            let (peers, known) = match truth {
                // Any key may have come to mean this.
                _ if set.moves => (left.clone(), false),
                Truth::Yes => (left.clone(), true),
                Truth::Of(peers) => (left.intersect(&peers), true),
                Truth::Maybe | Truth::No => (left.clone(), false),
            };
            if peers.is_empty() {
                continue;
            }
            if known {
                left = left.subtract(&peers);
            }
            let certain = certain && known;
            said.push(Says {
                peers,
                verdict,
                certain,
            });
        }
        if let Some(Some(Datum::Verdict(verdict))) = &set.otherwise
            && !left.is_empty()
        {
            let peers = core::mem::take(&mut left);
            let unclear = said.iter().any(|says| !says.certain);
            let certain = certain && !unclear;
            let verdict = verdict.clone();
            said.push(Says {
                peers,
                verdict,
                certain,
            });
        }
        (said, left)
    }
}

/// Whether it is any of these.
fn in_any(found: Vec<(Truth, &super::rules::Element)>) -> Truth {
    let mut pairs = Vec::new();
    let mut doubt = false;
    for (truth, _) in found {
        match truth {
            Truth::Yes => return Truth::Yes,
            Truth::No => {}
            Truth::Maybe => doubt = true,
            Truth::Of(peers) => pairs.extend(peers.iter()),
        }
    }
    match (doubt, pairs.is_empty()) {
        (true, _) => Truth::Maybe,
        (false, true) => Truth::No,
        (false, false) => Truth::Of(Ranges::of(pairs)),
    }
}

impl Truth {
    /// Of a set that moves, nothing is known.
    fn or_moves(self, set: &Set) -> Self {
        match (set.moves, set.otherwise.is_some()) {
            (true, _) => Self::Maybe,
            (false, true) => Self::Yes,
            (false, false) => self,
        }
    }
}

/// The ends of a chain one of whose rules may have led to others: where that makes a difference it is
/// unclear.
fn doubted(ends: Ends, reached: &Ends, place: &Place) -> Ends {
    let mut result = Ends::new();
    for (mut peers, end) in ends {
        for (others, other) in reached {
            if other.is_like(&end) {
                continue;
            }
            let doubtful = peers.intersect(others);
            if doubtful.is_empty() {
                continue;
            }
            peers = peers.subtract(&doubtful);
            result.push((doubtful, End::At(Outcome::Unclear(place.clone()))));
        }
        if !peers.is_empty() {
            result.push((peers, end));
        }
    }
    result
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
