//! Traffic control, which what is offloaded does not pass: what there was of it at the start.

use netdev::Interface;
use queue_pair::control::Explanation;

use super::Desk;
use crate::slow::kernel::traffic;

/// What there is, by the names of the interfaces.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    bypassed: Vec<(String, Vec<String>)>,
}

impl Traffic {
    /// What it means for who asks about a process that has anything offloaded.
    pub(super) fn explain(&self) -> impl Iterator<Item = Explanation> {
        self.bypassed.iter().map(|(interface, what)| Explanation {
            fd: Explanation::NO_DESCRIPTOR,
            kind: "tc".to_owned(),
            reason: format!(
                "what is offloaded does not pass what tc has on {interface}: {}",
                what.join(", ")
            ),
            detail: String::new(),
        })
    }
}

impl Desk {
    /// Says what of traffic control there is on these interfaces.
    #[must_use]
    pub fn telling_of_traffic_control(mut self, interfaces: &[Interface]) -> Self {
        for interface in interfaces {
            let (name, bypassed) = (&interface.name, traffic::on_interface(interface.index));
            let bypassed = bypassed.unwrap_or_default();
            if bypassed.is_empty() {
                continue;
            }
            tracing::warn!(
                interface = name,
                bypassed = bypassed.join(", "),
                "what is offloaded passes no traffic control (tc): where that decides or shapes, leave the program to \
                 the kernel"
            );
            self.traffic.bypassed.push((name.clone(), bypassed));
        }
        self
    }
}
