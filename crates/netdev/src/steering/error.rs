//! What can go wrong with steering, and what to do about it.

use std::error::Error;
use std::io;

use aya::maps::MapError;

use super::layout::{Endpoint, MAX_ENDPOINTS, MAX_QUEUES};
use super::owner::ProgramOwner;
use crate::interface::{AttachedProgram, XdpMode};

/// Why steering failed.
#[derive(Debug, thiserror::Error)]
pub enum SteeringError {
    /// Not allowed.
    #[error(
        "not permitted to load BPF programs: run as root, or grant CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NotPermitted,
    /// The kernel does not take the program.
    #[error("cannot load a BPF program (it needs Linux 6.1 or later with CONFIG_XDP_SOCKETS): {0}")]
    Load(String),
    /// The object lacks a program or a map of this name: it is not the one this was built with.
    #[error("the steering program has no {0}: build it again")]
    Object(&'static str),
    /// The interface has a program.
    #[error(
        "{interface} already has an XDP program ({}), and there can be one only: {}",
        describe(.program, .owner), remedy(.interface, .program, .owner)
    )]
    Occupied {
        /// The interface.
        interface: String,
        /// What is known of the program there.
        program: Option<AttachedProgram>,
        /// Who holds it, if that can be found out.
        owner: Option<ProgramOwner>,
    },
    /// The driver refuses.
    #[error("cannot attach the steering program to {interface} ({mode}): {error}{hint}")]
    Attach {
        /// The interface.
        interface: String,
        /// Where it was to run.
        mode: &'static str,
        /// What the kernel said.
        error: io::Error,
        /// What may help; empty, or a clause that begins with "; ".
        hint: &'static str,
    },
    /// A queue number that no interface has.
    #[error("receive queue {0}: only {MAX_QUEUES} queues, numbered from 0, can be steered")]
    NoSuchQueue(u32),
    /// The table is full.
    #[error("{MAX_ENDPOINTS} endpoints are steered already, and there is no room for more")]
    Full,
    /// Nobody asked for it before.
    #[error("{0} is not steered")]
    NotSteered(Endpoint),
    /// Somebody asked for it before.
    #[error("{0} is taken already on this interface")]
    Steered(Endpoint),
    /// The kernel refuses to put a program where another calls it.
    #[error("cannot make the steering program call another: {0}")]
    Call(std::io::Error),
    /// The kernel refuses to change or read a table.
    #[error("cannot access a table of the steering program: {}", chain(.0))]
    Map(#[from] MapError),
    /// The word by which the engine is watched is not to be had.
    #[error("cannot map a table of the steering program: {0}")]
    Watch(std::io::Error),
    /// A test run failed.
    #[error("cannot run the steering program over a frame: {0}")]
    TestRun(String),
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        let message = current.to_string();
        if !text.contains(&message) {
            text += ": ";
            text += &message;
        }
        cause = current.source();
    }
    text
}

fn describe(program: &Option<AttachedProgram>, owner: &Option<ProgramOwner>) -> String {
    match (program, owner) {
        (Some(AttachedProgram { id, .. }), Some(owner)) => format!("id {id}, of {owner}"),
        (Some(AttachedProgram { id, .. }), None) if *id != 0 => {
            format!("id {id}, see: bpftool prog show id {id}")
        }
        _ => "see: bpftool net".to_owned(),
    }
}

/// A process holds its program by a link, mostly, which only it can let go of.
fn remedy(
    interface: &str,
    program: &Option<AttachedProgram>,
    owner: &Option<ProgramOwner>,
) -> String {
    match owner {
        Some(owner) => format!("stop process {}", owner.process),
        None => format!(
            "detach it: ip link set dev {interface} {} off",
            switch(program)
        ),
    }
}

fn switch(program: &Option<AttachedProgram>) -> &'static str {
    match program.and_then(|program| program.mode) {
        Some(XdpMode::Generic) => "xdpgeneric",
        _ => "xdp",
    }
}
