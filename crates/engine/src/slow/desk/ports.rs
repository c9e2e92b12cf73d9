//! Ports that wait to be looked at, in the order in which they came.

use std::collections::{BTreeSet, VecDeque};

/// Each of them once.
#[derive(Debug, Default)]
pub(super) struct Ports {
    order: VecDeque<u16>,
    all: BTreeSet<u16>,
}

impl Ports {
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Puts a port behind all others, unless it waits already.
    pub fn push(&mut self, port: u16) {
        if self.all.insert(port) {
            self.order.push_back(port);
        }
    }

    /// The first that came.
    pub fn pop(&mut self) -> Option<u16> {
        let port = self.order.pop_front()?;
        self.all.remove(&port);
        Some(port)
    }

    /// The last that came.
    pub fn last(&self) -> Option<u16> {
        self.order.back().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_keeps_its_place() {
        let mut ports = Ports::default();
        for port in [443, 80, 443, 22] {
            ports.push(port);
        }
        assert_eq!(ports.last(), Some(22));
        assert_eq!(ports.pop(), Some(443));
        ports.push(443);
        let rest: Vec<u16> = std::iter::from_fn(|| ports.pop()).collect();
        assert_eq!(rest, [80, 22, 443]);
        assert!(ports.is_empty());
    }
}
