//! What else decides on what comes and goes: the rules of netfilter, which the engine
//! [follows](crate::netfilter); programs of cgroups and profiles of security modules, which what is
//! offloaded does not pass, and whoever made them has to be told. Policies of [IPsec](super::ipsec) hold like rules that
//! only the kernel can follow.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use netdev::cgroup::Hook;
use queue_pair::control::Explanation;
use rustix::io::Errno;

use super::Desk;
use super::ipsec::Ipsec;
use super::older_tables::Older;
use crate::exchange::Order;
use crate::netfilter::{Access, Cut, Interface, Policy, policy};
use crate::network::canonical;
use crate::poller::Source;
use crate::slow::kernel::netfilter::{Followed, Watch};
use crate::slow::kernel::{cgroups, lsm};
use crate::stats::Drop;

/// Why nothing is known of the rules.
const SILENT: &str = "the kernel does not say which rules there are";
/// How long who did not answer in time is not asked: all else that the slow half does comes first.
const REST: Duration = Duration::from_secs(5);
/// With more listeners those that are gone are forgotten.
const ASKED: usize = 4096;
/// Of those that are gone so many are remembered: their connections may go on.
const PAST: usize = 256;

/// What the rules of netfilter say of what the engine has.
#[derive(Debug, Default)]
pub(super) struct Netfilter {
    /// Tells when they change.
    watch: Option<Watch>,
    /// What they are, if they are followed and the kernel says so.
    followed: Option<Followed>,
    /// They could not be read when they were last asked for.
    silent: bool,
    /// They are not to be asked for again before.
    rests_until: Option<Instant>,
    /// Some may have changed since they were read.
    unread: bool,
    /// They are followed.
    pub(super) follows: bool,
    /// What decides beside them.
    ipsec: Ipsec,
    pub(super) older: Older,
    /// What follows, as the fast half has heard.
    policy: Policy,
}

/// Takes out, and returns, those that listen no longer, but for some.
fn forget_past(
    asked: &mut Vec<(IpAddr, u16)>,
    listens: impl Fn((IpAddr, u16)) -> bool,
) -> Vec<(IpAddr, u16)> {
    let mut past = 0;
    let is_too_much = |local: &mut (IpAddr, u16)| {
        let is_past = !listens(*local);
        past += usize::from(is_past);
        is_past && past > PAST
    };
    asked.extract_if(.., is_too_much).collect()
}

impl Netfilter {
    /// Whether they are to be asked for again, sooner or later.
    pub(super) fn is_silent(&self) -> bool {
        (self.silent && self.followed.is_some()) || self.ipsec.is_silent()
    }

    /// Whether they are not to be asked for now.
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// Why all that is new is the kernel's, if something decides that it alone can follow.
    fn only_the_kernels(&self) -> Option<&str> {
        self.ipsec.why().or(self.older.why())
    }

    /// What they say of a listener.
    fn of_listener(&self, interfaces: &[Interface], local: SocketAddr) -> Access {
        if let Some(why) = self.only_the_kernels() {
            return Err(why.to_owned());
        }
        match &self.followed {
            Some(followed) if !self.silent => {
                let (rules, own) = (followed.rules(), followed.addresses());
                let own = own.iter().filter(|own| policy::covers(local.ip(), **own));
                policy::by_family(own, |own| {
                    of_all(interfaces, |interface| {
                        rules.listener(interface, own, local)
                    })
                })
            }
            _ => Err(SILENT.to_owned()),
        }
    }

    /// Whose segments are dropped of connections with those of the listeners that are `asked` for. Where
    /// the kernel does not say which rules there are, those hold that it said last.
    fn cuts(
        &self,
        interfaces: &[Interface],
        asked: impl Fn((IpAddr, u16)) -> bool,
        listeners: &HashMap<(IpAddr, u16), Access>,
    ) -> HashMap<(IpAddr, u16), Cut> {
        let mut cuts = HashMap::new();
        let Some(followed) = &self.followed else {
            return cuts;
        };
        for local in listeners.keys().copied().filter(|local| asked(*local)) {
            let own = followed.owned();
            for (place, own) in own.filter(|(_, own)| policy::covers(local.0, *own)) {
                let cut = interfaces.get(place).and_then(|interface| {
                    let rules = followed.rules();
                    rules.cut(interface, own, Some(local.1))
                });
                cuts.extend(cut.map(|cut| ((own, local.1), cut)));
            }
        }
        cuts
    }

    /// The same of connections that programs have opened.
    fn cuts_of_connections(&self, interfaces: &[Interface]) -> HashMap<(IpAddr, u16), Cut> {
        let Some(followed) = &self.followed else {
            return HashMap::new();
        };
        let cuts = followed.owned().filter_map(|(place, own)| {
            let interface = interfaces.get(place)?;
            Some(((own, 0), followed.rules().cut(interface, own, None)?))
        });
        cuts.collect()
    }

    fn of_connections(&self, interfaces: &[Interface]) -> Access {
        if let Some(why) = self.only_the_kernels() {
            return Err(why.to_owned());
        }
        match &self.followed {
            Some(followed) if !self.silent => {
                let (rules, own) = (followed.rules(), followed.addresses());
                policy::by_family(own.iter(), |own| {
                    of_all(interfaces, |interface| rules.connections(interface, own))
                })
            }
            _ => Err(SILENT.to_owned()),
        }
    }
}

/// What holds by whichever interface a packet comes and goes. What the rules say of one alone only the kernel can
/// follow: here nobody asks for each packet by which it came.
fn of_all(interfaces: &[Interface], of: impl Fn(&Interface) -> Access) -> Access {
    let Some((first, others)) = interfaces.split_first() else {
        return Err(SILENT.to_owned());
    };
    let access = of(first)?;
    for other in others {
        if of(other)? != access {
            let (one, other) = (&first.name, &other.name);
            return Err(format!(
                "the rules refuse other peers by {one} than by {other}"
            ));
        }
    }
    Ok(access)
}

impl Desk {
    /// Follows the rules of this network namespace, or only tells of them.
    #[must_use]
    pub fn with_netfilter(mut self, follows: bool) -> Self {
        let watched = Watch::open(self.opener.clone()).and_then(|watch| {
            self.control.poller.add(watch.as_fd(), Source::Netfilter)?;
            Ok(watch)
        });
        match watched {
            Ok(watch) => self.netfilter.watch = Some(watch),
            Err(error) => {
                tracing::info!(%error, "the kernel does not tell of rules that come later");
            }
        }
        self.netfilter.follows = follows;
        self.netfilter.ipsec = Ipsec::of(self.opener.clone());
        if follows {
            let followed = Followed::of_interfaces(&self.facts.indices, self.opener.clone());
            let followed = followed.and_then(|followed| {
                let poller = &mut self.control.poller;
                for fd in followed.fds() {
                    poller.add(fd, Source::Netfilter)?;
                }
                Ok(followed)
            });
            match followed {
                Ok(followed) => self.netfilter.followed = Some(followed),
                Err(error) => tracing::warn!(%error, "{SILENT}: everything is left to it"),
            }
        }
        self.netfilter_changed();
        self
    }

    /// Reads which rules there are now, and says what follows.
    pub(super) fn netfilter_changed(&mut self) {
        let rested = self.netfilter.rests(Instant::now());
        let (follows, poller) = (self.netfilter.follows, &self.control.poller);
        let add = |fd: BorrowedFd<'_>| poller.add(fd, Source::Netfilter);
        let mut is_late = self.netfilter.ipsec.update(follows, rested, add) == Err(Errno::TIMEDOUT);
        // Who was late for that is asked for nothing else now.
        let rests = rested || is_late;
        let Netfilter {
            watch,
            followed,
            follows,
            silent,
            rests_until,
            unread,
            ..
        } = &mut self.netfilter;
        // Addresses change on every network, now and then. Where nobody tells of rules, they may have as well.
        *unread |= watch.as_mut().is_none_or(|watch| watch.hear() != Ok(false));
        let mut asked = if rests { Err(Errno::TIMEDOUT) } else { Ok(()) };
        if let Some(watch) = watch
            && !rests
        {
            match watch.update() {
                Ok((_, 0)) => {}
                Ok(_) if *follows => {}
                Ok((chains, new)) => {
                    let chains = chains[..new].join("; ");
                    tracing::warn!(
                        chains,
                        "what is offloaded does not pass these rules: say the same in the \
                         engine's access lists, or leave the program to the kernel"
                    );
                }
                Err(error) => {
                    if !*silent {
                        tracing::warn!(%error, "{SILENT}");
                    }
                    // Who does not answer is not asked, and waited for, once more at once.
                    if matches!(error, Errno::TIMEDOUT | Errno::PIPE) {
                        asked = Err(error);
                    }
                }
            }
        }
        if let Some(rules) = followed {
            // What tells of addresses is heard in any case, or it would go on calling.
            let heard = rules.update_addresses().and(asked);
            let read = heard.and_then(|()| match *unread {
                true => rules.update_rules(),
                false => Ok(()),
            });
            *unread &= read.is_err();
            if let Err(error) = &read
                && !*silent
            {
                tracing::warn!(%error, "{SILENT}: everything is left to it until it does");
            }
            *silent = read.is_err();
            is_late |= read == Err(Errno::TIMEDOUT);
        }
        if !rested {
            *rests_until = is_late.then(|| Instant::now() + REST);
        }
        self.follow_netfilter(None);
    }

    /// The fast half hears what follows from the rules: for the listeners that it has, and a new one.
    pub(super) fn follow_netfilter(&mut self, new: Option<SocketAddr>) {
        if !self.netfilter.follows {
            return;
        }
        let new = new.map(canonical).map(|local| (local.ip(), local.port()));
        let known = self.netfilter.policy.listeners.keys().copied();
        let mut asked: Vec<(IpAddr, u16)> = known.chain(new).collect();
        if asked.len() > ASKED || new.is_none() {
            // A port of which no socket was shown lately has no listener, but may have connections.
            let listens = |local| Some(local) == new || self.proves_port(local.1);
            for forgotten in forget_past(&mut asked, listens) {
                let cuts = &self.netfilter.policy.cuts;
                if cuts.keys().any(|(_, port)| *port == forgotten.1) {
                    self.counters.drop(Drop::CutsForgotten);
                }
            }
        }
        let named = self.facts.indices.iter().zip(self.facts.interface.names());
        let interfaces = named.map(|(index, name)| Interface {
            index: *index,
            name: name.clone(),
            has_others: self.facts.indices.len() > 1,
        });
        let interfaces: Vec<Interface> = interfaces.collect();
        let of = &self.netfilter;
        let listeners = asked.into_iter().map(|local| {
            let of_known = of.policy.listeners.get(&local).filter(|_| new.is_some());
            let access = of_known.cloned();
            (
                local,
                access.unwrap_or_else(|| of.of_listener(&interfaces, local.into())),
            )
        });
        let listeners: HashMap<_, _> = listeners.collect();
        let connections = match &of.policy.connections {
            Some(access) if new.is_some() => access.clone(),
            _ => of.of_connections(&interfaces),
        };
        let rules = of.followed.as_ref().map(Followed::rules);
        let mut cuts = of.cuts(
            &interfaces,
            |local| new.is_none_or(|new| new == local),
            &listeners,
        );
        if new.is_some() {
            cuts.extend(of.policy.cuts.clone());
        } else {
            cuts.extend(of.cuts_of_connections(&interfaces));
        }
        let policy = Policy {
            listeners,
            connections: Some(connections),
            any: rules.is_some_and(|rules| !rules.bases.is_empty()),
            cuts,
        };
        if policy == self.netfilter.policy {
            return;
        }
        tell(&self.netfilter.policy, &policy);
        self.netfilter.policy = policy.clone();
        self.order_all(|| Order::Netfilter(Box::new(policy.clone())));
    }

    /// Says what else decides on a process's sockets and not on what it offloads: programs of its cgroup,
    /// and the profile of a security module.
    pub(super) fn tell_of_confinement(&self, pid: u32, program: &str) {
        if let Some(profile) = lsm::profile(pid) {
            tracing::warn!(
                pid,
                program,
                profile,
                "what its profile says of networks does not hold for what it offloads"
            );
        }
        let hooks = cgroups::bypassed_hooks(&self.opener, pid);
        if !hooks.is_empty() {
            let hooks = in_words(&hooks);
            tracing::warn!(
                pid,
                program,
                hooks,
                "what it offloads does not pass the BPF programs of its cgroup (IPAddressDeny= of \
                 systemd, for one): where they decide what it may reach, run it without outboard"
            );
        }
    }

    /// The same for who asks about that process.
    pub(super) fn explain_confinement(&self, pid: u32) -> impl Iterator<Item = Explanation> {
        let hooks = cgroups::bypassed_hooks(&self.opener, pid);
        let cgroup = (!hooks.is_empty()).then(|| {
            let hooks = in_words(&hooks);
            let reason =
                format!("what is offloaded does not pass its cgroup's programs at {hooks}");
            ("cgroup", reason)
        });
        let profile = lsm::profile(pid).map(|profile| {
            let reason =
                format!("what {profile} says of networks does not hold for what is offloaded");
            ("profile", reason)
        });
        cgroup
            .into_iter()
            .chain(profile)
            .map(|(kind, reason)| Explanation {
                fd: Explanation::NO_DESCRIPTOR,
                kind: kind.to_owned(),
                reason,
                detail: String::new(),
            })
    }

    /// The chains of netfilter that have rules for what is offloaded.
    pub(super) fn netfilter_chains(&self) -> &[String] {
        self.netfilter.watch.as_ref().map_or(&[], Watch::known)
    }

    /// Which new connections to a listener are the kernel's, and why, if its rules are the reason.
    pub(super) fn refused_by_netfilter(&self, local: SocketAddr) -> Option<String> {
        let access = self.netfilter.policy.of_listener(canonical(local))?;
        left(access)
            .map(|(over, why)| format!("new connections{over} are left to the kernel: {why}"))
    }

    /// What the rules mean for who asks about a process that has anything offloaded.
    pub(super) fn explain_netfilter(&self) -> Vec<Explanation> {
        let line = |reason: String| Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: "netfilter".to_owned(),
            reason,
            detail: String::new(),
        };
        if !self.netfilter.follows {
            let chains = self.netfilter_chains().iter();
            return chains
                .map(|chain| line(format!("what is offloaded does not pass {chain}")))
                .chain(
                    self.netfilter
                        .only_the_kernels()
                        .map(|why| line(why.to_owned())),
                )
                .collect();
        }
        let mut lines = Vec::new();
        let connections = self.netfilter.policy.connections.as_ref();
        if let Some((over, why)) = connections.and_then(left) {
            lines.push(line(format!(
                "connections that programs open{over} are left to the kernel: {why}"
            )));
        }
        let cuts = self.netfilter.policy.cuts.values();
        let by: BTreeSet<&str> = cuts.map(|cut| &cut.by[..]).collect();
        lines.extend(by.into_iter().map(|by| {
            line(format!(
                "segments of connections with some peers are dropped: {by}"
            ))
        }));
        lines
    }
}

fn in_words(hooks: &[Hook]) -> String {
    let hooks: Vec<String> = hooks.iter().map(Hook::to_string).collect();
    hooks.join(", ")
}

/// What is left to the kernel, and why: all, or what goes over one family.
fn left(access: &Access) -> Option<(String, &str)> {
    match access {
        Err(why) => Some((String::new(), why)),
        Ok(refused) => {
            let (is_v6, why) = refused.left()?;
            Some((format!(" over {}", policy::family(is_v6)), why))
        }
    }
}

/// Says what has changed.
fn tell(before: &Policy, now: &Policy) {
    for (local, access) in &now.listeners {
        let known = before.listeners.get(local);
        let local = SocketAddr::from(*local);
        if known == Some(access) {
            continue;
        }
        if let Some((over, why)) = left(access) {
            tracing::warn!(%local, why, "netfilter: left to the kernel{over}");
            continue;
        }
        match access {
            Err(_) => {}
            Ok(refused) if !refused.is_empty() => {
                tracing::info!(%local, "netfilter: some peers are refused here as there");
            }
            Ok(_) if known.is_some() => tracing::info!(%local, "netfilter: open to all peers"),
            Ok(_) => {}
        }
    }
    for (own, cut) in &now.cuts {
        if before.cuts.get(own) != Some(cut) {
            let (own, by) = (SocketAddr::from(*own), &cut.by);
            tracing::info!(%own, by, "netfilter: connections with some peers stand still");
        }
    }
    for own in before.cuts.keys().filter(|own| !now.cuts.contains_key(own)) {
        let own = SocketAddr::from(*own);
        tracing::info!(%own, "netfilter: no connections stand still any more");
    }
    match (&before.connections, &now.connections) {
        (before, now) if before == now => {}
        (before, Some(now)) => match left(now) {
            Some((over, why)) => tracing::warn!(
                why,
                "netfilter: connections that programs open{over} are left to the kernel"
            ),
            None if before.as_ref().is_some_and(|it| left(it).is_some()) => {
                tracing::info!("netfilter: connections that programs open are the engine's again");
            }
            None => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_of_those_that_listen_no_longer_is_known() {
        let local = |port| (IpAddr::from([10, 0, 0, 1]), port);
        let past = 2 * PAST as u16;
        // Every other one listens.
        let mut asked: Vec<_> = (0..2 * past).map(local).collect();
        let listens = |(_, port): (IpAddr, u16)| port % 2 == 0;
        let forgotten = forget_past(&mut asked, listens);
        assert_eq!(forgotten.len(), PAST);
        assert!(!forgotten.into_iter().any(listens));
        assert_eq!(
            asked.iter().filter(|local| listens(**local)).count(),
            usize::from(past)
        );
        assert_eq!(asked.len(), usize::from(past) + PAST);
        assert!(forget_past(&mut asked, listens).is_empty(), "once");
    }
}
