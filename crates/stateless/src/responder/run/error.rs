//! Why a responder did not start.

use std::io;
use std::net::IpAddr;

use netdev::steering::SteeringError;

use crate::responder::program::ProgramError;

/// Why a responder did not start, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody has the port.
    #[error("port {port} is taken: {owner} listens on {address}; stop it, or use another port")]
    Taken {
        /// The port.
        port: u16,
        /// Where it listens.
        address: std::net::SocketAddr,
        /// Who it is.
        owner: String,
    },
    /// No address.
    #[error("{0} has no IP address to serve: ip addr add …, or name one: -L ADDR:PORT")]
    NoAddress(String),
    /// An address that is not the interface's.
    #[error(
        "{address} is no address of {interface}, which has {has}; add it: ip addr add {address}/PREFIX dev {interface}"
    )]
    NotThere {
        /// What was to be listened on.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// Its addresses.
        has: String,
    },
    /// Too many.
    #[error("{0} endpoints (addresses by ports by VLANs): at most {1} can be served")]
    TooMany(usize, usize),
    /// The steering program and its tables.
    #[error(transparent)]
    Steering(#[from] SteeringError),
    /// The responder's program and its tables.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// AF_XDP.
    #[error(transparent)]
    Device(#[from] netdev::xdp::OpenError),
    /// The rule for the queue is not there.
    #[error(
        "no rule sends packets to queue {queue}. Add one, and remove it (-D) when you are done:\n  \
         {rule}"
    )]
    NoRule {
        /// The queue.
        queue: u16,
        /// The command that adds what is missing.
        rule: String,
    },
    /// It cannot be found out whether the rule is there.
    #[error(
        "cannot look for the rule that sends packets to queue {queue}: {said}; run as root, with \
         iptables-legacy (apt-get install iptables)"
    )]
    NoRules {
        /// The queue.
        queue: u16,
        /// What the tools said.
        said: String,
    },
    /// Something else.
    #[error("cannot {doing}: {error}")]
    Step {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

pub(super) fn step<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> StartError {
    move |error| StartError::Step {
        doing,
        error: error.into(),
    }
}
