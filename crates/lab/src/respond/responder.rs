//! The responder that is measured.

use crate::process::{Process, Program};
use crate::world::{Side, World};
use anyhow::Result;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How to run it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary that answers.
    pub binary: PathBuf,
    /// Rounds; each measures both servers, with keep-alive and with close.
    pub rounds: usize,
    /// Length of each measurement.
    pub window: Duration,
    /// Connections that wrk keeps open at once, with two threads.
    pub connections: usize,
}

/// The responder's port.
pub(super) const PORT: u16 = 8000;
/// How long it may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// Where it listens.
pub(super) fn target() -> SocketAddr {
    (Side::Server.ipv4(), PORT).into()
}

pub(super) fn start_with(binary: &Path, world: &World, arguments: &[&str]) -> Result<Process> {
    let peer = format!("{}/{}", world.name(Side::Client), Side::Client.interface());
    let program: Program = world
        .program(Side::Server, binary)
        .args(["respond", "-i", Side::Server.interface()])
        .args(["-L", &format!(":{PORT}"), "--peer", &peer])
        .args(arguments)
        .log(world.scratch().join("respond.log"));
    let mut responder = program.start()?;
    responder.wait_until(Duration::from_secs(20), || world.is_reached(target()))?;
    Ok(responder)
}

/// Ends a responder.
pub(crate) fn end(responder: Process) -> Result<()> {
    responder.stop(ENDING).map(drop)
}
