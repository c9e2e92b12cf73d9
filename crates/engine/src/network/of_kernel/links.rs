//! Link-local addresses, each of which is on one link, and those that have moved to another.

use std::net::IpAddr;

use crate::network::{NicId, is_link_local};

/// The interface of each link-local one, of the addresses that each interface has: where it was before, as long as that
/// has it, or the first that does.
pub(super) fn links<'a>(
    interfaces: impl Iterator<Item = &'a [IpAddr]>,
    before: &[(IpAddr, NicId)],
) -> Vec<(IpAddr, NicId)> {
    let mut links: Vec<(IpAddr, NicId)> = Vec::new();
    for (place, addresses) in interfaces.enumerate() {
        let nic = NicId::at(place);
        for &address in addresses.iter().filter(|address| is_link_local(**address)) {
            match links.iter_mut().find(|(known, _)| *known == address) {
                Some((_, on)) if before.contains(&(address, nic)) => *on = nic,
                Some(_) => {}
                None => links.push((address, nic)),
            }
        }
    }
    links
}

/// Those that have another link than before.
pub(super) fn moved(before: &[(IpAddr, NicId)], now: &[(IpAddr, NicId)]) -> Vec<IpAddr> {
    let has_moved = |(address, nic): &&(IpAddr, NicId)| {
        let mut known = before.iter();
        known.any(|(known, on)| known == address && on != nic)
    };
    let moved = now.iter().filter(has_moved);
    moved.map(|(address, _)| *address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_moved_is_on_another_link_than_before() {
        let [one, other, third] =
            ["fe80::1", "fe80::2", "fe80::3"].map(|it| it.parse::<IpAddr>().unwrap());
        let [first, second] = [0, 1].map(NicId::at);
        let before = [(one, first), (other, second)];
        // That another one has it as well changes nothing.
        let both: [&[IpAddr]; 2] = [&[one, other], &[one, other]];
        let now = links(both.into_iter(), &before);
        assert_eq!(now, before);
        assert_eq!(links(both.into_iter(), &[]), [(one, first), (other, first)]);
        assert!(moved(&before, &now).is_empty());
        let now = [(one, second), (third, first)];
        assert_eq!(moved(&before, &now), [one]);
    }
}
