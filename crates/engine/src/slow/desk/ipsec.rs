//! Policies of IPsec, which only the kernel applies: while there are any, all that is new is left to it.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Result;

use crate::slow::kernel::netlink::{A_WHILE, Netlink, Notified};
use crate::slow::kernel::opener::Opener;

/// Why all that is new is the kernel's.
const APPLIES: &str =
    "IPsec has policies here (ip xfrm policy), which what is offloaded would not pass";
/// The same, where it is not known.
const SILENT: &str = "the kernel does not say whether IPsec has policies here";

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Ipsec {
    /// Tells when they change; none where there can be none.
    watch: Option<Watch>,
    /// Why all that is new is the kernel's, if it is.
    why: Option<&'static str>,
}

impl Ipsec {
    /// Those of this network namespace.
    pub fn watched(opener: Opener) -> Self {
        let mut ipsec = Self::default();
        match Watch::open(opener) {
            Ok(watch) => ipsec.watch = watch,
            Err(error) => {
                tracing::warn!(%error, "{SILENT}: nobody looks");
                return ipsec;
            }
        }
        ipsec
    }

    /// Readable when they have changed.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Hears of changes; what follows is left to the kernel, if the engine `follows` such rules.
    pub fn update(&mut self, follows: bool) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let why = match watch.update() {
            Ok(any) => any.then_some(APPLIES),
            Err(_) => Some(SILENT),
        };
        if core::mem::replace(&mut self.why, why) == why {
            return;
        }
        match why {
            Some(why) if follows => tracing::warn!(
                why,
                "all that is new is the kernel's; connections that are there stay as they are"
            ),
            Some(why) => tracing::warn!(why, "it is offloaded all the same: ignore_netfilter"),
            None => tracing::info!("IPsec has no policies any more"),
        }
    }

    /// They could not be asked for.
    pub fn is_silent(&self) -> bool {
        self.why == Some(SILENT)
    }

    /// Why all that is new is the kernel's, if it is.
    pub fn why(&self) -> Option<&'static str> {
        self.why
    }
}

/// Says whether there are policies, as they come and go.
#[derive(Debug)]
struct Watch {
    notifications: Netlink,
    opener: Opener,
    /// What was known last; `None` if it has to be asked.
    known: Option<bool>,
}

impl Watch {
    /// Of this network namespace; none in a kernel without IPsec.
    ///
    /// # Errors
    /// The kernel does not tell of them.
    fn open(opener: Opener) -> Result<Option<Self>> {
        let notifications = opener.policy_changes()?;
        Ok(notifications.map(|notifications| Self {
            notifications,
            opener,
            known: None,
        }))
    }

    /// Hears what the kernel has announced, and asks if that was anything: whether there are policies.
    ///
    /// # Errors
    /// The kernel does not answer; it is asked again the next time.
    fn update(&mut self) -> Result<bool> {
        let known = &mut self.known;
        let heard = self.notifications.notifications(A_WHILE, |_| *known = None);
        if heard != Ok(Notified::Read) {
            *known = None;
        }
        if let Some(known) = *known {
            return Ok(known);
        }
        let any = self.opener.has_policies()?;
        self.known = Some(any);
        Ok(any)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }
}
