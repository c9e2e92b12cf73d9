//! The room in the tables by which each interface divides its segments: which own addresses are in which.

use std::collections::HashMap;

use netdev::steering::MAX_ENDPOINTS;

use crate::network::NicId;

/// Endpoints that leased ports leave to listeners.
const FOR_LISTENERS: usize = 8_192;

/// How many addresses the fullest table has, of those that are on all links or on one alone. Each interface has a table.
pub(super) fn most_in_a_table(links: impl Iterator<Item = Option<NicId>>) -> usize {
    let mut on_all = 0;
    let mut on_each: HashMap<NicId, usize> = HashMap::new();
    for link in links {
        match link {
            None => on_all += 1,
            Some(nic) => *on_each.entry(nic).or_default() += 1,
        }
    }
    on_all + on_each.into_values().max().unwrap_or(0)
}

/// Whether a table that so many workers share has room for so many leased ports of one of them on so many addresses.
pub(super) const fn has_room_for(ports: usize, addresses: usize, workers: usize) -> bool {
    let room = MAX_ENDPOINTS as usize - FOR_LISTENERS;
    ports.saturating_mul(addresses).saturating_mul(workers) <= room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_takes_room_in_one_table_alone() {
        let [first, second] = [0, 1].map(NicId::at);
        // Of two NICs, of which each has one of IPv4, two of IPv6, and a link-local one.
        let two = [None; 6].into_iter().chain([Some(first), Some(second)]);
        assert_eq!(most_in_a_table(two), 7);
        assert_eq!(most_in_a_table(std::iter::empty()), 0);
        let one = [Some(second), None, Some(second)];
        assert_eq!(most_in_a_table(one.into_iter()), 3);
        // What limits.leased_ports is by default.
        assert!(has_room_for(8_192, 7, 1) && !has_room_for(8_192, 8, 1));
    }

    #[test]
    fn each_worker_has_its_share_of_the_room() {
        // Which are as many ports together.
        assert!(has_room_for(2_048, 7, 4) && !has_room_for(2_048, 8, 4));
    }
}
