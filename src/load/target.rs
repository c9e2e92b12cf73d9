//! The way to the server, and whether it may be aimed at.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use engine::slow::kernel::neighbours::{Knowledge, NeighbourChanges, Neighbours};
use engine::slow::kernel::routes::{Route, Routes};
use netdev::Interface;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::ethernet::{MacAddr, Vlan};
use wire::segment::Link;

use super::options::Args;
use super::url::Url;

/// How long a neighbour may take to say where it is.
const RESOLVING: Duration = Duration::from_secs(3);

/// Where the server is.
#[derive(Debug)]
pub enum Target {
    /// In a network, by this way.
    Network(Way),
    /// On this machine: sockets reach it, packets of our own do not.
    Local,
}

/// A way to the server.
#[derive(Debug)]
pub struct Way {
    /// The interface that leads there.
    pub interface: Interface,
    /// Frames go from it to this station.
    pub link: Link,
    /// The address that the kernel would come from.
    pub source: IpAddr,
}

/// Finds the way to the server; refuses where it leads out of what is attached directly.
pub fn find(url: &Url, args: &Args) -> Result<Target> {
    let server = url.server.ip();
    let mut routes = Routes::open().context("cannot ask the kernel for routes")?;
    let chosen = args
        .interface
        .as_deref()
        .map(|name| Interface::find(name).with_context(|| format!("no interface {name}")))
        .transpose()?;
    let route = routes
        .to(
            server,
            None,
            chosen.as_ref().map(|interface| interface.index),
        )
        .with_context(|| format!("there is no route to {server}"))?;
    if route.local || server.is_loopback() {
        if args.is_by_sockets() {
            return Ok(Target::Local);
        }
        bail!(
            "{server} is this machine's own address, and packets to it pass no interface: run the \
             client in a network namespace beside the server's (see docs/load.md), or use --sockets"
        );
    }
    allow(server, &route, args.yes_i_own_this_network)?;
    let interface = match chosen {
        Some(interface) => interface,
        None => Interface::find(&name_of(route.interface)?)?,
    };
    if args.is_by_sockets() {
        // The kernel finds the rest by itself.
        let source = route.source.unwrap_or(server);
        let link = Link::default();
        return Ok(Target::Network(Way {
            interface,
            link,
            source,
        }));
    }
    let source = route
        .source
        .with_context(|| format!("{} has no address to come from", interface.name))?;
    let next_hop = resolve(interface.index, route.next_hop)?;
    Ok(Target::Network(Way {
        link: Link {
            src: MacAddr(interface.mac),
            dst: next_hop,
            vlan: Vlan::None,
        },
        interface,
        source,
    }))
}

/// A load is an attack to whoever did not ask for it, so what is behind a router is refused: it
/// may be anybody's.
fn allow(server: IpAddr, route: &Route, owned: bool) -> Result<()> {
    if owned || route.next_hop == server {
        return Ok(());
    }
    bail!(
        "{server} is not in a network that is attached to this machine, but behind the router {}: \
         a load is an attack to whoever did not ask for it, and may take down what is on the way. \
         If all of it is yours, say --yes-i-own-this-network",
        route.next_hop
    )
}

fn name_of(interface: u32) -> Result<String> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    rustix::net::netdevice::index_to_name(&socket, interface)
        .with_context(|| format!("the interface {interface} is gone"))
}

/// Asks the kernel for the station of a neighbour, and waits until it knows.
fn resolve(interface: u32, neighbour: IpAddr) -> Result<MacAddr> {
    let mut changes = NeighbourChanges::on_interface(interface)?;
    let mut neighbours = Neighbours::on_interface(interface)?;
    let deadline = Instant::now() + RESOLVING;
    let mut knowledge = neighbours.ask(neighbour)?;
    if !matches!(knowledge, Knowledge::Resolved { .. }) {
        neighbours.probe(neighbour)?;
        knowledge = neighbours.ask(neighbour)?;
    }
    loop {
        if let Knowledge::Resolved { mac, .. } = knowledge {
            return Ok(mac);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("nobody answers for {neighbour}: is it up, and on this link?");
        }
        let mut fds = [PollFd::from_borrowed_fd(changes.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::try_from(left)?))?;
        changes.update(|_| ())?;
        knowledge = neighbours.ask(neighbour)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(next_hop: &str) -> Route {
        Route {
            next_hop: next_hop.parse().unwrap(),
            interface: 1,
            source: None,
            mtu: None,
            local: false,
        }
    }

    #[test]
    fn what_is_behind_a_router_is_refused() {
        let server = "10.0.0.1".parse().unwrap();
        assert!(allow(server, &route("10.0.0.1"), false).is_ok());
        let refused = allow(server, &route("10.9.9.9"), false)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("--yes-i-own-this-network"), "{refused}");
        assert!(allow(server, &route("10.9.9.9"), true).is_ok());
    }
}
