//! Connecting to where a socket cannot go.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Stage, agents_listener, connecting};
use crate::calls;

/// An address of the family that `ip` is not of.
fn other(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
    }
}

/// It is connected, at last.
fn works(stage: &mut Stage<'_>, fd: c_int, there: SocketAddr) {
    connecting::connect(stage.transcript, fd, there);
    stage.agent.tell("accept");
    stage.agent.tell("unlisten");
    stage.transcript.send(fd, "works", 0);
    let got = stage.agent.tell("receive 5");
    stage.transcript.note(got);
    stage.transcript.close(fd);
}

pub fn other_family(stage: &mut Stage<'_>) {
    // Where somebody listens, so that it would come to be.
    let there = agents_listener(stage.agent);
    let fd = calls::socket(other(there.ip()), 0);
    connecting::connect(stage.transcript, fd, there);
    stage.transcript.poll(fd, libc::POLLOUT, 0);
    stage.transcript.close(fd);
    // It may try again with one that it can have.
    let fd = calls::socket(there.ip(), 0);
    let wrong = SocketAddr::new(other(there.ip()), there.port());
    connecting::connect(stage.transcript, fd, wrong);
    works(stage, fd, there);
}

pub fn many(stage: &mut Stage<'_>) {
    let broadcast = match stage.here {
        IpAddr::V4(here) => Ipv4Addr::from(u32::from(here) | 0xff).into(),
        IpAddr::V6(_) => Ipv4Addr::BROADCAST.to_ipv6_mapped().into(),
    };
    let group = match stage.here {
        IpAddr::V4(_) => "224.0.0.1",
        IpAddr::V6(_) => "ff02::1",
    };
    for to in [broadcast, group.parse().expect("an address")] {
        for flags in [0, libc::SOCK_NONBLOCK] {
            let fd = calls::socket(to, flags);
            connecting::connect(stage.transcript, fd, (to, 9).into());
            stage.transcript.poll(fd, libc::POLLOUT, 0);
            stage.transcript.close(fd);
        }
    }
}

pub fn mapped(stage: &mut Stage<'_>) {
    let there = agents_listener(stage.agent);
    let IpAddr::V4(ip) = there.ip() else { return };
    let mapped = SocketAddr::new(ip.to_ipv6_mapped().into(), there.port());
    let fd = calls::socket(mapped.ip(), 0);
    let only = (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
    stage.transcript.set_integer(fd, only.0, only.1, 1);
    connecting::connect(stage.transcript, fd, mapped);
    stage.transcript.poll(fd, libc::POLLOUT, 0);
    stage.transcript.set_integer(fd, only.0, only.1, 0);
    works(stage, fd, mapped);
}
