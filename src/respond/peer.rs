//! The other end of a veth. It takes frames that a program sends back only while it polls, which
//! it does while it has an XDP program itself: so it gets one that passes everything.

use anyhow::{Context, Result};
use netdev::Interface;
use netdev::steering::{Placement, Steering};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// Makes `[NETNS/]IFACE` poll as long as what is returned lives.
pub fn wake(peer: &str) -> Result<Steering> {
    let (namespace, interface) = match peer.rsplit_once('/') {
        // An absolute path would lead out of where namespaces are.
        Some((namespace, _)) if namespace.is_empty() || namespace.contains('/') => {
            anyhow::bail!("--peer {peer}: write IFACE or NETNS/IFACE, such as client/eth1")
        }
        Some((namespace, interface)) => (Some(namespace.to_owned()), interface.to_owned()),
        None => (None, peer.to_owned()),
    };
    // A thread of its own: there is no way back out of a namespace.
    let attached = std::thread::spawn(move || {
        if let Some(namespace) = namespace {
            let path = Path::new("/run/netns").join(&namespace);
            let file = File::open(&path).with_context(|| {
                format!(
                    "there is no network namespace {namespace} in /run/netns (`ip netns list` shows \
                     those that are)"
                )
            })?;
            rustix::thread::move_into_link_name_space(
                file.as_fd(),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )
            .with_context(|| format!("cannot enter {}", path.display()))?;
        }
        let interface = Interface::find(&interface).with_context(|| interface.clone())?;
        anyhow::Ok(Steering::attach(&interface, Placement::Native)?)
    });
    attached
        .join()
        .map_err(|_| anyhow::anyhow!("the thread that enters the namespace panicked"))?
        .with_context(|| format!("--peer {peer}"))
}
