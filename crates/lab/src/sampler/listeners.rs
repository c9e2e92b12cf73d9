//! What listeners had no room for: as the kernel counts it, for each network namespace, and the engine.

use crate::outboard::Counter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

/// Segments that would have brought a connection and did not. A client that tries again counts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// SYNs and last ACKs of a handshake that came while an accept queue was full (`ListenOverflows`; of an engine
    /// `accept_queue_full`).
    pub overflowed: u64,
    /// Those, and all that a listener dropped for another want of room (`ListenDrops`; of an engine also
    /// `half_open_full`, `cookie_withheld` and `connections_full`).
    pub dropped: u64,
}

/// What an engine calls the first, and the others.
const FULL: &str = "accept_queue_full";
const OTHERS: [&str; 3] = ["half_open_full", "cookie_withheld", "connections_full"];

impl Refused {
    /// What the kernel has counted in the network namespaces of these processes, since they were made. Several may be in
    /// one. Of a process that is over it is not known in which it was.
    pub fn around(pids: impl IntoIterator<Item = u32>) -> Self {
        let each = pids.into_iter().filter_map(|pid| {
            let namespace = std::fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
            Some((namespace, pid))
        });
        let namespaces: BTreeMap<u64, u32> = each.collect();
        let texts = namespaces.into_values().filter_map(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/net/netstat"));
            text.ok()
        });
        texts.fold(Self::default(), |sum, text| sum.and(Self::read(&text)))
    }

    /// What a text of `/proc/net/netstat` says: names in a line, and their numbers in the next one.
    fn read(text: &str) -> Self {
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("TcpExt: "));
        let (names, numbers) = (lines.next(), lines.next());
        let both = names.zip(numbers).into_iter().flat_map(|(names, numbers)| {
            let numbers = numbers.split(' ').map(str::parse::<u64>);
            names.split(' ').zip(numbers)
        });
        let known: BTreeMap<&str, u64> = both
            .filter_map(|(name, number)| Some((name, number.ok()?)))
            .collect();
        let of = |name: &str| known.get(name).copied().unwrap_or_default();
        Self {
            overflowed: of("ListenOverflows"),
            dropped: of("ListenDrops"),
        }
    }

    /// What an engine has counted.
    pub fn by_engine(counters: &[Counter]) -> Self {
        let of = |reason: &str| -> u64 {
            let meant = counters.iter().filter(|counter| {
                counter.name == "tcp_dropped" && counter.labels.iter().any(|label| label == reason)
            });
            meant.map(|counter| counter.value as u64).sum()
        };
        let overflowed = of(FULL);
        Self {
            overflowed,
            dropped: overflowed + OTHERS.map(of).iter().sum::<u64>(),
        }
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            overflowed: self.overflowed.saturating_add(other.overflowed),
            dropped: self.dropped.saturating_add(other.dropped),
        }
    }

    /// What came since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            overflowed: self.overflowed.saturating_sub(earlier.overflowed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
        }
    }

    /// Whether nothing was.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, Refused};

    #[test]
    fn what_the_kernel_counts_is_found_by_its_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits\n\
                    TcpExt: 9 12 15 700\n\
                    IpExt: InNoRoutes ListenOverflows\n\
                    IpExt: 1 2\n";
        let found = Refused {
            overflowed: 12,
            dropped: 15,
        };
        assert_eq!(Refused::read(text), found);
        assert!(Refused::read("").is_none());
        assert!(Refused::read("TcpExt: ListenDrops\nTcpExt: x\n").is_none());
        let earlier = Refused {
            overflowed: 10,
            dropped: 10,
        };
        let since = found.since(earlier);
        assert_eq!((since.overflowed, since.dropped), (2, 5));
        // Of a server that has ended since it is not known.
        assert!(Refused::default().since(found).is_none());
    }

    #[test]
    fn what_an_engine_counts_is_found_by_its_reason() {
        let counter = |name: &str, reason: &str, value| Counter {
            name: name.into(),
            labels: vec![reason.into()],
            value,
            spread: None,
        };
        let counters = [
            counter("tcp_dropped", "accept_queue_full", 3.0),
            counter("tcp_dropped", "half_open_full", 2.0),
            counter("tcp_dropped", "paws", 100.0),
            counter("listener_dropped", "accept_queue_full", 3.0),
        ];
        let found = Refused::by_engine(&counters);
        assert_eq!((found.overflowed, found.dropped), (3, 5));
    }
}
