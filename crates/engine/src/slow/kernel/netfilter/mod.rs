//! What is steered to the engine is not seen by netfilter. The rules of nf_tables are read by netlink,
//! and [followed](crate::netfilter).
//!
//! The older xtables are visible only through their own tools: the kernel lists which tables exist,
//! `iptables-legacy-save` what is in them; a table that exists and cannot be read counts as having rules.
//! Nobody follows those: starting in silence would switch them off for the offloaded ports, so the engine
//! looks first, and refuses unless it is told otherwise. [Tables](OlderTables) that come later are not looked into.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Stdio};

use super::addresses::Addresses;
use super::netlink::{A_WHILE, Attributes, NFTABLES, Netlink, Notified};
use super::opener::{Dump, Opener};
use crate::netfilter::Ruleset;
use rustix::io::Errno;

mod older;
mod read;
mod steps;
mod xtables;

pub use older::OlderTables;
use older::{FAMILIES, Family};
use steps::{big_endian, text};

const NFT_MSG_NEWCHAIN: u16 = NFTABLES | 3;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_USE: u16 = 6;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFPROTO_ARP: u8 = 3;
const NFPROTO_NETDEV: u8 = 5;
const NF_PREROUTING: u32 = 0;
const NF_INPUT: u32 = 1;
const NF_OUTPUT: u32 = 3;
const NF_POSTROUTING: u32 = 4;
/// Of an `inet` table, which can have one as well.
const NF_INET_INGRESS: u32 = 5;
const POLICY_DROP: u64 = 0;
/// Length of `struct nfgenmsg`.
const GENMSG_LEN: usize = 4;

/// Whether the rules of nf_tables can be read.
///
/// # Errors
/// The kernel's: who has no CAP_NET_ADMIN may not ask.
pub fn are_readable(opener: &Opener) -> rustix::io::Result<()> {
    chains(opener, |_, _| None).map(drop)
}

/// Rules of the older tables in the way of what comes in or goes out, and policies there that drop: nobody follows
/// those. Empty where nothing would be bypassed.
pub fn rules_in_the_way() -> Vec<String> {
    let mut found = Vec::new();
    for Family {
        name: family,
        list,
        tools,
    } in FAMILIES
    {
        let tables = match std::fs::read_to_string(list) {
            Ok(tables) => tables,
            // The kernel has none of this family.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            // To ask for one by its name would make it.
            Err(error) => {
                found.push(format!(
                    "{family}: whether it has any is not known, since {list} cannot be read ({error}), which \
                     root may or who has CAP_DAC_READ_SEARCH"
                ));
                continue;
            }
        };
        for table in tables.lines() {
            let place = format!("{family}, table {table}");
            match saved_rules(&tools, table) {
                Some(rules) => {
                    let rules = xtables_rules(&rules);
                    found.extend(rules.map(|rule| format!("{place}: {rule}")));
                }
                None => found.push(format!(
                    "{place}: it exists, and no {} is there to read it",
                    tools[0]
                )),
            }
        }
    }
    found
}

/// The rules of nf_tables and the addresses to which they are applied, as they change.
#[derive(Debug)]
pub struct Followed {
    /// Of each interface, in their order.
    addresses: Vec<Addresses>,
    rules: Ruleset,
    opener: Opener,
}

impl Followed {
    /// Those of now, read with the help of `opener`, with the addresses of the interfaces with these indices.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn of_interfaces(indices: &[u32], opener: Opener) -> rustix::io::Result<Self> {
        let each = indices.iter().copied().map(Addresses::of_interface);
        Ok(Self {
            addresses: each.collect::<rustix::io::Result<_>>()?,
            rules: read::ruleset(&opener)?,
            opener,
        })
    }

    /// Reads the rules again.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn update_rules(&mut self) -> rustix::io::Result<()> {
        self.rules = read::ruleset(&self.opener)?;
        Ok(())
    }

    /// Reads the addresses again.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn update_addresses(&mut self) -> rustix::io::Result<()> {
        let mut each = self.addresses.iter_mut();
        each.try_for_each(|addresses| addresses.update_and_ask().map(drop))
    }

    /// The rules.
    pub fn rules(&self) -> &Ruleset {
        &self.rules
    }

    /// The interfaces' own addresses.
    pub fn addresses(&self) -> Vec<std::net::IpAddr> {
        self.owned().map(|(_, address)| address).collect()
    }

    /// The same, with the places of their interfaces.
    pub fn owned(&self) -> impl Iterator<Item = (usize, std::net::IpAddr)> {
        let each = self.addresses.iter().enumerate();
        each.flat_map(|(place, of)| of.list().iter().map(move |address| (place, *address)))
    }

    /// Readable when the addresses have changed.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.addresses.iter().map(AsFd::as_fd)
    }
}

/// Says which chains there are that offloaded packets do not pass, as they come and go.
#[derive(Debug)]
pub struct Watch {
    notifications: Netlink,
    known: Vec<String>,
    /// There are changes that have not been read.
    is_due: bool,
    opener: Opener,
}

impl Watch {
    /// Of the chains that come from now on, and, at the first [`update`](Self::update), of those that
    /// are there.
    ///
    /// # Errors
    /// The kernel has no nf_tables, or does not tell of them.
    pub fn open(opener: Opener) -> rustix::io::Result<Self> {
        Ok(Self {
            notifications: opener.rule_changes()?,
            known: Vec::new(),
            is_due: true,
            opener,
        })
    }

    /// Hears what the kernel has announced: whether there are changes since the last [`update`](Self::update).
    ///
    /// # Errors
    /// It cannot be heard.
    pub fn hear(&mut self) -> rustix::io::Result<bool> {
        let is_due = &mut self.is_due;
        let heard = self
            .notifications
            .notifications(A_WHILE, |_| *is_due = true)?;
        self.is_due |= heard == Notified::Overrun;
        Ok(self.is_due)
    }

    /// Hears what the kernel has announced, and asks if that was anything: the chains that are there,
    /// and how many of them, at the front, were not.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn update(&mut self) -> rustix::io::Result<(&[String], usize)> {
        if !self.hear()? {
            return Ok((&self.known, 0));
        }
        let mut there = chains(&self.opener, |family, hook| {
            bypassed(family, hook).or_else(|| bypassed_on_the_way_out(family, hook))
        })?;
        there.sort_by_key(|chain| self.known.contains(chain));
        let new = there.iter().filter(|chain| !self.known.contains(chain));
        let new = new.count();
        self.known = there;
        self.is_due = false;
        Ok((&self.known, new))
    }

    /// The chains that were there at the last update.
    pub fn known(&self) -> &[String] {
        &self.known
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}

/// The chains that hold rules, or drop by policy, at hooks that `named` names.
fn chains(
    opener: &Opener,
    named: impl Fn(u8, Option<u32>) -> Option<&'static str>,
) -> rustix::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut netlink = match opener.rules(Dump::Chains) {
        Ok(netlink) => netlink,
        // A kernel without netfilter, or nf_tables, has no rules.
        Err(Errno::PROTONOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => return Ok(found),
        Err(error) => return Err(error),
    };
    let answer = netlink.rest(|message| {
        if message.kind != NFT_MSG_NEWCHAIN {
            return;
        }
        let Some((header, attributes)) = message.split::<GENMSG_LEN>() else {
            return;
        };
        let Some(hook) = attributes.find(NFTA_CHAIN_HOOK) else {
            return;
        };
        let number = Attributes::nested(hook)
            .find(NFTA_HOOK_HOOKNUM)
            .and_then(big_endian)
            .map(|number| number as u32);
        let Some(hook) = named(header[0], number) else {
            return;
        };
        let rules = attributes.find(NFTA_CHAIN_USE).and_then(big_endian);
        let drops = attributes.find(NFTA_CHAIN_POLICY).and_then(big_endian) == Some(POLICY_DROP);
        if rules != Some(0) || drops {
            found.push(format!(
                "nftables, table {}: chain {} at the {hook} hook",
                text(attributes.find(NFTA_CHAIN_TABLE)),
                text(attributes.find(NFTA_CHAIN_NAME)),
            ));
        }
    });
    match answer {
        // No nf_tables in this kernel.
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(found),
        Err(error) => Err(error),
    }
}

/// The name of a hook that steered packets do not pass; `None` for the others. A hook whose number
/// does not come is taken for one.
fn bypassed(family: u8, number: Option<u32>) -> Option<&'static str> {
    match (family, number) {
        // ARP is the kernel's in any case.
        (NFPROTO_ARP, _) => None,
        // Egress too: what the engine sends by AF_XDP does not pass it.
        (NFPROTO_NETDEV, Some(0)) | (_, Some(NF_INET_INGRESS)) => Some("ingress"),
        (NFPROTO_NETDEV, _) => Some("egress"),
        (_, Some(NF_PREROUTING)) => Some("prerouting"),
        (_, Some(NF_INPUT)) => Some("input"),
        (_, Some(_)) => None,
        (_, None) => Some("(unknown)"),
    }
}

/// The same of hooks that only what is sent would pass. Who has rules there seldom means a server's
/// answers, so they do not keep an engine from starting.
fn bypassed_on_the_way_out(family: u8, number: Option<u32>) -> Option<&'static str> {
    match (family, number) {
        (NFPROTO_ARP | NFPROTO_NETDEV, _) => None,
        (_, Some(NF_OUTPUT)) => Some("output"),
        (_, Some(NF_POSTROUTING)) => Some("postrouting"),
        _ => None,
    }
}

/// What the first of `tools` that can says of a table of the older kind.
fn saved_rules(tools: &[&str], table: &str) -> Option<String> {
    let say = |tool: &str, arguments: &[&str]| {
        let output = Command::new(tool)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    tools
        .iter()
        .filter(|tool| say(tool, &["-V"]).is_some_and(|version| reads_xtables(&version)))
        .find_map(|tool| say(tool, &["-t", table]))
}

/// Whether a tool of this version reads the older tables: under the same name there is one that
/// translates what is in nf_tables, and it would show an empty table.
fn reads_xtables(version: &str) -> bool {
    !version.contains("nf_tables")
}

/// The lines of an iptables-save listing that are in the way of what comes in or goes out: rules, and policies that
/// drop. On the way out, where nobody is refused, those do not count that accept.
fn xtables_rules(listing: &str) -> impl Iterator<Item = &str> {
    let drops = |chain: &str, line: &str| {
        let policy = line.strip_prefix(':').and_then(|it| it.strip_prefix(chain));
        policy.is_some_and(|policy| policy.starts_with(" DROP"))
    };
    let is_in = move |chain: &str, line: &str| {
        let rule = line.strip_prefix("-A ");
        let name = rule.and_then(|rule| rule.split(' ').next());
        name == Some(chain) || drops(chain, line)
    };
    let refusing = ["OUTPUT", "POSTROUTING"]
        .map(|chain| (chain, listing.lines().any(|line| drops(chain, line))));
    listing.lines().filter(move |line| {
        let on_the_way_in = ["INPUT", "PREROUTING"]
            .iter()
            .any(|chain| is_in(chain, line));
        let on_the_way_out = refusing.iter().any(|(chain, refuses)| {
            let accepts = line.ends_with(" -j ACCEPT");
            is_in(chain, line) && (!accepts || *refuses)
        });
        on_the_way_in || on_the_way_out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_drop_policies_are_found() {
        let listing = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
                       -A INPUT -p tcp -j ACCEPT\n-A OUTPUT -j ACCEPT\n-A INPUTS -j ACCEPT\nCOMMIT";
        let found: Vec<_> = xtables_rules(listing).collect();
        assert_eq!(found, [":INPUT DROP [0:0]", "-A INPUT -p tcp -j ACCEPT"]);
        let owner = "-A OUTPUT -p tcp -m owner --uid-owner 33 -j REJECT";
        let listing = format!(
            "*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -o lo -j ACCEPT\n{owner}\nCOMMIT"
        );
        let found: Vec<_> = xtables_rules(&listing).collect();
        assert_eq!(found, [owner]);
        let listing = ":OUTPUT DROP [0:0]\n-A OUTPUT -o lo -j ACCEPT\n:POSTROUTING ACCEPT [0:0]";
        let found: Vec<_> = xtables_rules(listing).collect();
        assert_eq!(found, [":OUTPUT DROP [0:0]", "-A OUTPUT -o lo -j ACCEPT"]);
    }

    #[test]
    fn a_tool_that_reads_other_tables_is_not_asked() {
        assert!(reads_xtables("iptables-save v1.8.9 (legacy)"));
        assert!(reads_xtables("iptables-save v1.6.1"));
        assert!(!reads_xtables("iptables-save v1.8.9 (nf_tables)"));
    }

    #[test]
    fn hooks_that_steered_packets_pass_are_none_of_ours() {
        assert_eq!(bypassed(1, Some(NF_INPUT)), Some("input"));
        assert_eq!(bypassed(2, Some(NF_PREROUTING)), Some("prerouting"));
        assert_eq!(bypassed(1, Some(NF_INET_INGRESS)), Some("ingress"));
        assert_eq!(bypassed(2, Some(3)), None, "output");
        assert_eq!(bypassed(NFPROTO_ARP, Some(0)), None);
    }

    #[test]
    fn what_is_sent_does_not_pass_the_hooks_on_the_way_out() {
        assert_eq!(bypassed_on_the_way_out(2, Some(NF_OUTPUT)), Some("output"));
        assert_eq!(bypassed_on_the_way_out(1, Some(2)), None, "forward");
        assert_eq!(bypassed_on_the_way_out(NFPROTO_ARP, Some(NF_OUTPUT)), None);
    }

    #[test]
    fn the_kernel_answers() {
        read::ruleset(&Opener::default()).expect("a kernel with or without nf_tables answers");
    }
}
