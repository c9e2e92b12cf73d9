//! VLANs on the interface while the engine runs. Where a device takes their tags off, a frame of a VLAN looks like one
//! of none, and the steering would give the engine what is meant for somebody else. An engine has the device leave the
//! tags on then, until it ends, and does not start where that cannot be. Here is the same for the first VLAN device that
//! comes later; where it cannot be then, the engine says so.
//!
//! The kernel tells of a device where that is: of one that was made straight in another network namespace
//! (`ip link add link IF ... netns OTHER`) nobody hears in this one. Who makes such has to have the tags left on himself;
//! `docs/engine.toml` says so.

use std::io;
use std::os::fd::AsFd;

use netdev::Interface;
use queue_pair::control::Explanation;

use super::Desk;
use crate::poller::Source;
use crate::slow::kernel::nature::{VlanWatch, vlans_on};
use crate::slow::kernel::opener::Opener;

/// What an interface does with the tags of VLANs.
trait Tags {
    /// The VLAN devices on it.
    fn vlans(&self) -> Vec<String>;
    /// It takes their tags off.
    fn strips(&self) -> bool;
    /// It is to take them off, or to leave them on.
    fn strip(&self, on: bool) -> io::Result<()>;
}

/// An interface, whose device is switched by who may.
struct Device<'a> {
    interface: &'a Interface,
    opener: &'a Opener,
}

impl Tags for Device<'_> {
    fn vlans(&self) -> Vec<String> {
        // Who cannot be asked now is asked when the next change comes.
        vlans_on(self.interface.index).unwrap_or_default()
    }

    fn strips(&self) -> bool {
        self.interface.strips_vlan_tags()
    }

    fn strip(&self, on: bool) -> io::Result<()> {
        Ok(self.opener.strip_vlan_tags(self.interface.index, on)?)
    }
}

/// Whether frames of VLANs look like those of none.
#[derive(Debug, Default)]
pub(super) struct Vlans {
    /// Of each interface; without a watch where nobody tells of changes.
    watched: Vec<(Option<VlanWatch>, Interface, State)>,
}

#[derive(Debug, Default)]
struct State {
    /// VLAN devices whose frames cannot be told from those of none.
    hidden: Vec<String>,
    /// The device took tags off before this engine.
    to_give_back: bool,
}

impl State {
    /// Looks what there is now, and has the tags stay on if that matters.
    fn look(&mut self, interface: &str, tags: &impl Tags) {
        let vlans = if tags.strips() {
            tags.vlans()
        } else {
            Vec::new()
        };
        if vlans == self.hidden {
            return;
        }
        if vlans.is_empty() {
            tracing::info!(interface, "frames of VLANs are told from those of none");
            self.hidden = vlans;
            return;
        }
        let names = vlans.join(", ");
        // Whoever turns it on again while the engine runs is told, and not fought with.
        let left_on = match self.to_give_back {
            false => tags.strip(false),
            true => Err(io::Error::other("it was turned on again")),
        };
        self.hidden = match left_on {
            Ok(()) if !tags.strips() => {
                self.to_give_back = true;
                tracing::warn!(
                    interface,
                    names,
                    "has VLAN devices on it now: the device leaves the tags of VLANs on (rxvlan off) until the \
                     engine ends"
                );
                Vec::new()
            }
            done => {
                let why = done
                    .err()
                    .map_or_else(String::new, |error| error.to_string());
                tracing::warn!(
                    interface,
                    names,
                    why,
                    "has VLAN devices on it now, and takes the tags of VLANs off: what comes by those to an address \
                     and port of the engine's is taken for its own. Have it leave the tags on (ethtool -K IF rxvlan \
                     off; of a veth, txvlan off at its other end), or start the engine on a VLAN device"
                );
                vlans
            }
        };
    }

    fn give_back(&mut self, interface: &str, tags: &impl Tags) {
        if core::mem::take(&mut self.to_give_back)
            && let Err(error) = tags.strip(true)
        {
            tracing::warn!(interface, %error, "the device goes on leaving the tags of VLANs on");
        }
    }
}

impl Vlans {
    /// The engine ends.
    pub(super) fn give_back(&mut self, opener: &Opener) {
        for (_, interface, state) in &mut self.watched {
            state.give_back(&interface.name, &Device { interface, opener });
        }
    }

    /// What it means for who asks about a process that has anything offloaded.
    pub(super) fn explain(&self) -> Option<Explanation> {
        let hidden = self.watched.iter().flat_map(|(.., state)| &state.hidden);
        let names: Vec<&str> = hidden.map(String::as_str).collect();
        let names = names.join(", ");
        (!names.is_empty()).then(|| Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: "vlan".to_owned(),
            reason: format!("what comes by {names} is taken for the interface's own: rxvlan is on"),
            detail: String::new(),
        })
    }
}

impl Desk {
    /// Looks after the tags of VLANs on the engine's interfaces. The devices of those with these indices took them
    /// off until it started.
    #[must_use]
    pub fn watching_vlans(mut self, interfaces: Vec<Interface>, left_on: &[u32]) -> Self {
        for interface in interfaces {
            let watched = VlanWatch::of_interface(interface.index).and_then(|watch| {
                let poller = &self.control.poller;
                poller.add(watch.as_fd(), Source::Interfaces)?;
                Ok(watch)
            });
            let watch = watched
                .inspect_err(|error| {
                    tracing::warn!(%error, "the kernel does not tell of VLAN devices");
                })
                .ok();
            let mut state = State {
                to_give_back: left_on.contains(&interface.index),
                ..State::default()
            };
            // One may have come since the start looked.
            let device = Device {
                interface: &interface,
                opener: &self.opener,
            };
            state.look(&interface.name, &device);
            self.vlans.watched.push((watch, interface, state));
        }
        self
    }

    /// The kernel has announced something of interfaces.
    pub(super) fn interfaces_changed(&mut self) {
        let opener = &self.opener;
        for (watch, interface, state) in &mut self.vlans.watched {
            let Some(watch) = watch else {
                continue;
            };
            if watch.update().unwrap_or(true) {
                state.look(&interface.name, &Device { interface, opener });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[derive(Default)]
    struct Fake {
        vlans: RefCell<Vec<String>>,
        strips: Cell<bool>,
        /// It cannot leave tags on, and says so, or says nothing.
        fixed: Cell<bool>,
        silent: bool,
        asked: Cell<usize>,
    }

    impl Tags for Fake {
        fn vlans(&self) -> Vec<String> {
            self.vlans.borrow().clone()
        }

        fn strips(&self) -> bool {
            self.strips.get()
        }

        fn strip(&self, on: bool) -> io::Result<()> {
            self.asked.set(self.asked.get() + 1);
            if self.fixed.get() {
                return if self.silent {
                    Ok(())
                } else {
                    Err(io::ErrorKind::InvalidInput.into())
                };
            }
            self.strips.set(on);
            Ok(())
        }
    }

    fn device(strips: bool) -> Fake {
        let device = Fake::default();
        device.strips.set(strips);
        device
    }

    fn come(device: &Fake, state: &mut State, vlans: &[&str]) {
        *device.vlans.borrow_mut() = vlans.iter().map(|name| (*name).to_owned()).collect();
        state.look("near", device);
    }

    #[test]
    fn nothing_is_switched_without_need() {
        let mut state = State::default();
        let stripping = device(true);
        come(&stripping, &mut state, &[]);
        assert!(stripping.strips.get(), "there are no VLANs");
        let seeing = device(false);
        come(&seeing, &mut state, &["near7"]);
        state.give_back("near", &seeing);
        assert_eq!((stripping.asked.get(), seeing.asked.get()), (0, 0));
        assert!(state.hidden.is_empty());
    }

    #[test]
    fn tags_stay_on_from_the_first_vlan_until_the_engine_ends() {
        let (mut state, device) = (State::default(), device(true));
        come(&device, &mut state, &["near7"]);
        assert!(!device.strips.get() && state.hidden.is_empty());
        come(&device, &mut state, &["near7", "near8"]);
        come(&device, &mut state, &[]);
        assert!(!device.strips.get());
        state.give_back("near", &device);
        assert!(device.strips.get(), "as it was");
        state.give_back("near", &device);
        assert_eq!(device.asked.get(), 2, "once each");
    }

    #[test]
    fn who_turns_it_on_again_is_told_and_not_fought_with() {
        let (mut state, device) = (State::default(), device(true));
        come(&device, &mut state, &["near7"]);
        device.strips.set(true);
        come(&device, &mut state, &["near7"]);
        assert!(device.strips.get());
        assert_eq!(state.hidden, ["near7"]);
        device.strips.set(false);
        come(&device, &mut state, &["near7"]);
        assert!(state.hidden.is_empty());
    }

    #[test]
    fn a_device_that_cannot_is_told_of_until_the_vlans_are_gone() {
        for silent in [false, true] {
            let device = Fake {
                silent,
                ..device(true)
            };
            device.fixed.set(true);
            let mut state = State::default();
            come(&device, &mut state, &["near7"]);
            come(&device, &mut state, &["near7"]);
            assert_eq!(device.asked.get(), 1, "asked once");
            assert_eq!(state.hidden, ["near7"]);
            come(&device, &mut state, &[]);
            assert!(state.hidden.is_empty());
            state.give_back("near", &device);
            assert_eq!(device.asked.get(), 1, "nothing to give back");
        }
    }
}
