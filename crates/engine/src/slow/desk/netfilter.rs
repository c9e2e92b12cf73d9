//! Rules of netfilter that are made while the engine runs, programs of cgroups, profiles of security
//! modules: what is offloaded does not pass them, and whoever made them has to be told.

use std::os::fd::AsFd;

use queue_pair::control::Explanation;

use super::Desk;
use crate::poller::Source;
use crate::slow::kernel::netfilter::Watch;
use crate::slow::kernel::{cgroups, lsm};

impl Desk {
    /// Follows the rules of this network namespace.
    #[must_use]
    pub fn watching_netfilter(mut self) -> Self {
        let watched = Watch::open().and_then(|watch| {
            self.control.poller.add(watch.as_fd(), Source::Netfilter)?;
            Ok(watch)
        });
        match watched {
            Ok(watch) => self.netfilter = Some(watch),
            Err(error) => {
                tracing::info!(%error, "the kernel does not tell of rules that come later");
            }
        }
        self.netfilter_changed();
        self
    }

    /// Says which rules are new that offloaded packets do not pass.
    pub(super) fn netfilter_changed(&mut self) {
        let Some(watch) = &mut self.netfilter else {
            return;
        };
        match watch.update() {
            Ok((_, 0)) => {}
            Ok((chains, new)) => {
                let chains = chains[..new].join("; ");
                tracing::warn!(
                    chains,
                    "what is offloaded does not pass these rules: say the same in the engine's \
                     access lists, or leave the program to the kernel"
                );
            }
            Err(error) => tracing::warn!(%error, "the kernel does not say which rules there are"),
        }
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
        let hooks = cgroups::bypassed_hooks(pid);
        if !hooks.is_empty() {
            let hooks = hooks.join(" ");
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
        let hooks = cgroups::bypassed_hooks(pid);
        let cgroup = (!hooks.is_empty()).then(|| {
            let hooks = hooks.join(", ");
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

    /// The chains that offloaded packets do not pass.
    pub(super) fn bypassed_chains(&self) -> &[String] {
        self.netfilter.as_ref().map_or(&[], Watch::known)
    }

    /// The same for who asks about a process that has anything offloaded.
    pub(super) fn explain_netfilter(&self) -> impl Iterator<Item = Explanation> {
        self.bypassed_chains().iter().map(|chain| Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: "netfilter".to_owned(),
            reason: format!("what is offloaded does not pass {chain}"),
            detail: String::new(),
        })
    }
}
