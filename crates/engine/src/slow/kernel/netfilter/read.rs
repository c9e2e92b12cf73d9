//! Reads all rules of nf_tables: tables, chains, rules, sets and their elements, each by a dump.
//!
//! A change in between makes what is read a mixture; it is announced, too, and then read again.

use rustix::io::Errno;

use super::steps::{self, big_endian, text, verdict_of};
use crate::netfilter::rules::{
    Base, Chain, Datum, Element, Hook, Rule, Ruleset, Set, Table, intervals,
};
use crate::slow::kernel::netlink::{Attributes, Message, NFTABLES};
use crate::slow::kernel::opener::{Dump, Opener};

const NEWTABLE: u16 = NFTABLES;
const NEWCHAIN: u16 = NFTABLES | 3;
const NEWRULE: u16 = NFTABLES | 6;
const NEWSET: u16 = NFTABLES | 9;
const NEWSETELEM: u16 = NFTABLES | 12;

const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
/// Its chains are not called.
const DORMANT: u32 = 1;

const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_HOOK_DEV: u16 = 3;
const NFTA_HOOK_DEVS: u16 = 4;
/// Among the devices: how the names of some begin (Linux 6.16 and newer).
const NFTA_DEVICE_PREFIX: u16 = 2;

const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;

const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_DESC: u16 = 9;
const NFTA_SET_DESC_CONCAT: u16 = 2;
const NFTA_SET_FIELD_LEN: u16 = 1;
const SET_INTERVAL: u32 = 0x4;
/// With a timeout, or filled by packets.
const SET_MOVES: u32 = 0x10 | 0x20;

const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_FLAGS: u16 = 3;
const NFTA_SET_ELEM_EXPR: u16 = 7;
const NFTA_SET_ELEM_KEY_END: u16 = 10;
const NFTA_SET_ELEM_EXPRESSIONS: u16 = 11;
const ELEM_INTERVAL_END: u32 = 1;
const ELEM_CATCHALL: u32 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;

const NFPROTO_NETDEV: u8 = 5;
/// Length of `struct nfgenmsg`.
const GENMSG_LEN: usize = 4;

/// All rules of this network namespace, as they are now.
///
/// # Errors
/// The kernel does not answer. One without nf_tables has no rules.
pub fn ruleset(opener: &Opener) -> rustix::io::Result<Ruleset> {
    let mut rules = Ruleset::default();
    let mut dormant = Vec::new();
    let tables = dump(opener, (Dump::Tables, NEWTABLE), |family, of| {
        let flags = of.find(NFTA_TABLE_FLAGS).and_then(big_endian).unwrap_or(0);
        if flags as u32 & DORMANT != 0 {
            dormant.push(table(family, of, NFTA_TABLE_NAME));
        }
    });
    match tables {
        // No nf_tables in this kernel.
        Err(Errno::PROTONOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => return Ok(rules),
        other => other?,
    }
    dump(opener, (Dump::Chains, NEWCHAIN), |family, of| {
        let (table, name) = (
            table(family, of, NFTA_CHAIN_TABLE),
            text(of.find(NFTA_CHAIN_NAME)),
        );
        if let Some(base) = base(&table, &name, of)
            && !dormant.contains(&table)
        {
            rules.bases.push(base);
        }
        rules.chains.entry((table, name)).or_default();
    })?;
    rules.bases.sort_by_key(|base| (base.hook, base.priority));
    dump(opener, (Dump::Rules, NEWRULE), |family, of| {
        let table = table(family, of, NFTA_RULE_TABLE);
        let name = text(of.find(NFTA_RULE_CHAIN));
        let handle = of.find(NFTA_RULE_HANDLE).and_then(big_endian).unwrap_or(0);
        let of = of.find(NFTA_RULE_EXPRESSIONS).unwrap_or_default();
        let list = Attributes::nested(of).filter(|(kind, _)| *kind == NFTA_LIST_ELEM);
        let mut steps = Vec::new();
        for (_, expression) in list {
            rules.marks |= steps::read(Attributes::nested(expression), &mut steps);
        }
        let chain: &mut Chain = rules.chains.entry((table, name)).or_default();
        chain.rules.push(Rule { handle, steps });
    })?;
    let mut shapes = Vec::new();
    dump(opener, (Dump::Sets, NEWSET), |family, of| {
        let name = (
            table(family, of, NFTA_SET_TABLE),
            text(of.find(NFTA_SET_NAME)),
        );
        let flags = of.find(NFTA_SET_FLAGS).and_then(big_endian).unwrap_or(0) as u32;
        let key = of.find(NFTA_SET_KEY_LEN).and_then(big_endian).unwrap_or(0) as usize;
        let set = Set {
            moves: flags & SET_MOVES != 0,
            fields: fields(of),
            ..Set::default()
        };
        shapes.push((name.clone(), flags & SET_INTERVAL != 0, key));
        rules.sets.insert(name, set);
    })?;
    for ((table, name), of_intervals, key) in shapes {
        let elements = elements(opener, &table, &name, key);
        let Some(set) = rules.sets.get_mut(&(table, name)) else {
            continue;
        };
        let elements = match elements {
            Ok(elements) => elements,
            // It is gone by now.
            Err(Errno::NOENT) => Read::default(),
            Err(error) => return Err(error),
        };
        set.otherwise = elements.otherwise;
        set.moves |= elements.conditional;
        set.elements = if of_intervals && set.fields.len() < 2 {
            intervals(elements.bounds)
        } else {
            elements.whole
        };
    }
    Ok(rules)
}

/// Every answer to a dump of one kind: its family and its attributes.
fn dump(
    opener: &Opener,
    (what, new): (Dump, u16),
    mut each: impl FnMut(u8, Attributes<'_>),
) -> rustix::io::Result<()> {
    opener.rules(what)?.rest(|message: Message<'_>| {
        if message.kind == new
            && let Some((header, attributes)) = message.split::<GENMSG_LEN>()
        {
            each(header[0], attributes);
        }
    })
}

fn table(family: u8, of: Attributes<'_>, name: u16) -> Table {
    let name = text(of.find(name));
    Table { family, name }
}

/// The hook that calls a chain, if one does that is on the way of anything of the engine's.
fn base(table: &Table, name: &str, of: Attributes<'_>) -> Option<Base> {
    let called = Attributes::nested(of.find(NFTA_CHAIN_HOOK)?);
    let number = called.find(NFTA_HOOK_HOOKNUM).and_then(big_endian);
    let hook = match (table.family, number) {
        (NFPROTO_NETDEV, Some(1)) => Hook::Egress,
        // One whose number does not come is taken for the first.
        (NFPROTO_NETDEV, _) | (_, Some(5) | None) => Hook::Ingress,
        (_, Some(0)) => Hook::Prerouting,
        (_, Some(1)) => Hook::Input,
        (_, Some(3)) => Hook::Output,
        (_, Some(4)) => Hook::Postrouting,
        (_, Some(_)) => return None,
    };
    let priority = called.find(NFTA_HOOK_PRIORITY).and_then(big_endian);
    let one = called.find(NFTA_HOOK_DEV).map(|name| text(Some(name)));
    let several = Attributes::nested(called.find(NFTA_HOOK_DEVS).unwrap_or_default());
    let several = several.map(|(kind, name)| match kind {
        NFTA_DEVICE_PREFIX => format!("{}*", text(Some(name))),
        _ => text(Some(name)),
    });
    let policy = of.find(NFTA_CHAIN_POLICY).and_then(big_endian);
    Some(Base {
        table: table.clone(),
        chain: name.to_owned(),
        hook,
        nat: text(of.find(NFTA_CHAIN_TYPE)) == "nat",
        drops: policy == Some(0),
        priority: priority.unwrap_or(0) as u32 as i32,
        devices: one.into_iter().chain(several).collect(),
    })
}

/// The lengths of the fields of a key.
fn fields(of: Attributes<'_>) -> Vec<usize> {
    let of = Attributes::nested(of.find(NFTA_SET_DESC).unwrap_or_default());
    let of = Attributes::nested(of.find(NFTA_SET_DESC_CONCAT).unwrap_or_default());
    let len = |(_, field)| Attributes::nested(field).find(NFTA_SET_FIELD_LEN);
    let lens = of.filter_map(len).filter_map(big_endian);
    lens.map(|len| len as usize).collect()
}

/// The elements of a set, as they come.
#[derive(Default)]
struct Read {
    /// Where intervals begin and end.
    bounds: Vec<(Vec<u8>, bool, Option<Datum>)>,
    /// The same, if each is whole.
    whole: Vec<Element>,
    otherwise: Option<Option<Datum>>,
    /// Some hold for some packets only, up to a rate for one.
    conditional: bool,
}

fn elements(opener: &Opener, table: &Table, set: &str, key_len: usize) -> rustix::io::Result<Read> {
    let mut read = Read::default();
    let mut netlink = opener.elements(table.family, &table.name, set)?;
    netlink.rest(|message| {
        if message.kind != NEWSETELEM {
            return;
        }
        let Some((_, attributes)) = message.split::<GENMSG_LEN>() else {
            return;
        };
        let list = attributes
            .find(NFTA_SET_ELEM_LIST_ELEMENTS)
            .unwrap_or_default();
        for (_, element) in Attributes::nested(list) {
            read.element(Attributes::nested(element), key_len);
        }
    })?;
    Ok(read)
}

impl Read {
    fn element(&mut self, of: Attributes<'_>, key_len: usize) {
        let flags = of.find(NFTA_SET_ELEM_FLAGS).and_then(big_endian);
        let flags = flags.unwrap_or(0) as u32;
        let bytes = |kind| {
            let value = Attributes::nested(of.find(kind)?).find(NFTA_DATA_VALUE)?;
            let mut value = value.to_vec();
            value.resize(key_len, 0);
            Some(value)
        };
        let datum = of.find(NFTA_SET_ELEM_DATA).and_then(|datum| {
            let datum = Attributes::nested(datum);
            let value = datum.find(NFTA_DATA_VALUE);
            let verdict = datum.find(NFTA_DATA_VERDICT);
            value
                .map(|value| Datum::Value(value.to_vec()))
                .or_else(|| Some(Datum::Verdict(verdict_of(Attributes::nested(verdict?)))))
        });
        let any = |kind| of.find(kind).is_some();
        self.conditional |= any(NFTA_SET_ELEM_EXPR) || any(NFTA_SET_ELEM_EXPRESSIONS);
        if flags & ELEM_CATCHALL != 0 {
            self.otherwise = Some(datum);
            return;
        }
        let Some(from) = bytes(NFTA_SET_ELEM_KEY) else {
            return;
        };
        let ends = flags & ELEM_INTERVAL_END != 0;
        self.bounds.push((from.clone(), ends, datum.clone()));
        let to = bytes(NFTA_SET_ELEM_KEY_END).unwrap_or_else(|| from.clone());
        self.whole.push(Element { from, to, datum });
    }
}
