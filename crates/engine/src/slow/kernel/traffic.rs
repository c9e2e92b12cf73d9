//! Traffic control (tc): filters and queues by which the kernel drops, marks, redirects or shapes what passes an
//! interface. What is offloaded passes none of them; nobody follows them here, and whoever made them is told.

use super::netlink::{Netlink, ROUTE, RequestMessage, u32_at};

const NEWQDISC: u16 = 36;
const GETQDISC: u16 = 38;
const NEWTFILTER: u16 = 44;
const GETTFILTER: u16 = 46;
const TCA_KIND: u16 = 1;
/// Length of `struct tcmsg`: family, interface, handle, parent, and something.
const TCMSG_LEN: usize = 20;
const INTERFACE: usize = 4;
/// `TC_H_CLSACT`, with `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS`.
const FILTERS: [(u32, &str); 2] = [(0xffff_fff2, "ingress"), (0xffff_fff3, "egress")];
/// Queues that only wait for the device, as an interface has them by itself, or that keep flows apart.
const ORDINARY: [&str; 11] = [
    "noqueue",
    "mq",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "fq_codel",
    "fq",
    "sfq",
    "clsact",
    "ingress",
];

/// What of traffic control the interface with this index has, in words: each once.
///
/// # Errors
/// What netlink said.
pub fn on_interface(index: u32) -> rustix::io::Result<Vec<String>> {
    let mut netlink = Netlink::open(ROUTE)?;
    let mut found = Vec::new();
    let queues = kinds(&mut netlink, (GETQDISC, NEWQDISC), index, 0)?;
    let queues = queues.into_iter();
    let queues = queues.filter(|kind| !ORDINARY.contains(&&kind[..]));
    found.extend(queues.map(|kind| format!("the queueing discipline {kind}")));
    for (parent, hook) in FILTERS {
        // Without clsact there is nothing to ask, and not every kernel says so without an error.
        let filters = kinds(&mut netlink, (GETTFILTER, NEWTFILTER), index, parent);
        let filters = filters.unwrap_or_default();
        if !filters.is_empty() {
            found.push(format!("filters at {hook} ({})", filters.join(", ")));
        }
    }
    Ok(found)
}

/// The kinds of what an interface has, each once.
fn kinds(
    netlink: &mut Netlink,
    (ask, told): (u16, u16),
    index: u32,
    parent: u32,
) -> rustix::io::Result<Vec<String>> {
    let mut header = [0; TCMSG_LEN];
    header[INTERFACE..INTERFACE + 4].copy_from_slice(&index.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    let mut kinds = Vec::new();
    netlink.dump(&mut RequestMessage::new(ask, &header), |message| {
        if message.kind != told {
            return;
        }
        let Some((header, attributes)) = message.split::<TCMSG_LEN>() else {
            return;
        };
        // All interfaces' queues are told of.
        if u32_at(header, INTERFACE) != Some(index) {
            return;
        }
        let kind = attributes.find(TCA_KIND).unwrap_or_default();
        let kind = kind.split(|byte| *byte == 0).next().unwrap_or_default();
        let kind = String::from_utf8_lossy(kind).into_owned();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    })?;
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_none() {
        assert_eq!(on_interface(1).expect("netlink answers"), [""; 0]);
    }
}
