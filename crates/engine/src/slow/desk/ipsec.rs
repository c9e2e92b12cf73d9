//! Policies of IPsec, which only the kernel applies: while there are any, all that is new is left to it.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{Errno, Result};

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
    heard: Heard,
    /// Why all that is new is the kernel's, if it is.
    why: Option<&'static str>,
}

/// Who tells when they change.
#[derive(Debug, Default)]
enum Heard {
    /// Nobody: there can be none.
    #[default]
    Nobody,
    By(Watch),
    /// Nobody yet. This one is asked for who does.
    NotYet(Opener),
}

impl Ipsec {
    /// Those of this network namespace, of which nothing is known yet.
    pub fn of(opener: Opener) -> Self {
        Self {
            heard: Heard::NotYet(opener),
            why: None,
        }
    }

    /// Hears of changes, and asks what there is now unless who is asked `rests`: what follows is left to the kernel,
    /// if the engine `follows` such rules. So it is as long as nothing is known. `add` has this called when there are
    /// changes to hear.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn update(
        &mut self,
        follows: bool,
        rests: bool,
        add: impl FnOnce(BorrowedFd<'_>) -> Result<()>,
    ) -> Result<()> {
        let any = self.any(rests, add);
        let why = match any {
            Ok(any) => any.then_some(APPLIES),
            Err(_) => Some(SILENT),
        };
        if core::mem::replace(&mut self.why, why) != why {
            if let Err(error) = any {
                tracing::warn!(%error, "{SILENT}");
            }
            match why {
                Some(why) if follows => tracing::warn!(
                    why,
                    "all that is new is the kernel's; connections that are there stay as they are"
                ),
                Some(why) => {
                    tracing::warn!(why, "it is offloaded all the same: ignore_netfilter");
                }
                None => tracing::info!("IPsec has no policies any more"),
            }
        }
        any.map(|_| ())
    }

    /// Whether there are policies.
    fn any(&mut self, rests: bool, add: impl FnOnce(BorrowedFd<'_>) -> Result<()>) -> Result<bool> {
        if let Heard::NotYet(opener) = &self.heard
            && !rests
        {
            self.heard = match Watch::open(opener.clone())? {
                Some(watch) => {
                    add(watch.as_fd())?;
                    Heard::By(watch)
                }
                None => Heard::Nobody,
            };
        }
        match &mut self.heard {
            Heard::Nobody => Ok(false),
            Heard::By(watch) => watch.update(rests),
            Heard::NotYet(_) => Err(Errno::TIMEDOUT),
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

    /// Hears what the kernel has announced, and asks if that was anything, unless who is asked `rests`: whether there are
    /// policies.
    ///
    /// # Errors
    /// The kernel does not answer; it is asked again the next time.
    fn update(&mut self, rests: bool) -> Result<bool> {
        let known = &mut self.known;
        let heard = self.notifications.notifications(A_WHILE, |_| *known = None);
        if heard != Ok(Notified::Read) {
            *known = None;
        }
        if let Some(known) = *known {
            return Ok(known);
        }
        if rests {
            return Err(Errno::TIMEDOUT);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Else it would leave in plain text what is to be encrypted.
    #[test]
    fn all_is_the_kernels_until_somebody_tells_of_policies() {
        let mut ipsec = Ipsec::of(Opener::default());
        ipsec
            .update(true, true, |_| Ok(()))
            .expect_err("it is not asked");
        assert!(ipsec.is_silent());
        if !rustix::process::geteuid().is_root() {
            ipsec
                .update(true, false, |_| Ok(()))
                .expect_err("nobody else may hear");
            assert_eq!(ipsec.why(), Some(SILENT));
            return;
        }
        // A kernel without IPsec has none to hear of.
        let mut unheard = ipsec.update(true, false, |_| Err(Errno::NOSPC));
        if unheard.is_err() {
            assert_eq!(unheard, Err(Errno::NOSPC));
            assert_eq!(ipsec.why(), Some(SILENT));
            unheard = ipsec.update(true, false, |_| Ok(()));
        }
        assert_eq!(unheard, Ok(()), "it is tried again");
        assert!(!ipsec.is_silent());
        // What is known holds while nothing changes.
        assert_eq!(ipsec.update(true, true, |_| Ok(())), Ok(()));
    }
}
