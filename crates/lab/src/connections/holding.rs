//! Connections that are opened and then only there, by `outboard load`, which has no sessions: to hold a million costs
//! it nothing, and it disturbs no kernel's table of the client's side.

use crate::process::{Process, Program};
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result, bail};
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

/// The addresses that they come from, which nobody here has: a million, so that hardly two connections have the same.
const ADDRESSES: &str = "10.96.0.0/12";
/// How long it may take to end them.
const ENDING: Duration = Duration::from_secs(300);

/// Connections that are there until they are ended, or this is dropped.
pub struct Holding(Process);

impl Holding {
    /// Makes the client's side the way to where they come from.
    ///
    /// # Errors
    /// ip(8) does not do it.
    pub fn route(world: &World) -> Result<()> {
        let (server, client) = (world.name(Side::Server), Side::Client.ipv4());
        tool::run(&format!(
            "ip -n {server} route add {ADDRESSES} via {client}"
        ))
        .map(drop)
    }

    /// Begins to open `count` connections to `server`, so many a second, from the client's side and this core. There
    /// is one of these in a world at a time.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        binary: &Path,
        world: &World,
        server: SocketAddrV4,
        (count, rate): (u64, u64),
        core: usize,
    ) -> Result<Self> {
        let process = Self::program(binary, world, server, (count, rate))
            .on_core(core)
            .log(world.scratch().join("holding.log"))
            .start()?;
        Ok(Self(process))
    }

    fn program(
        binary: &Path,
        world: &World,
        server: SocketAddrV4,
        (count, rate): (u64, u64),
    ) -> Program {
        world
            .program(Side::Client, binary)
            .args(["load", &format!("http://{server}/"), "-S", ADDRESSES])
            .args(["-k", "0", "-c", &count.to_string()])
            .args(["--conn-rate", &rate.to_string()])
            // For longer than anybody measures; and who ends a million takes its time.
            .args(["-d", "100h", "--quiet"])
            .args(["--grace", &format!("{}s", ENDING.as_secs())])
    }

    /// # Errors
    /// It has ended by itself, with what it said.
    pub fn check(&mut self) -> Result<()> {
        match self.0.ended()? {
            None => Ok(()),
            Some(status) => bail!(
                "the client that holds connections has ended ({status}): {}",
                self.0.printed().trim()
            ),
        }
    }

    /// Ends them, each by a reset.
    ///
    /// # Errors
    /// It takes too long.
    pub fn end(self) -> Result<()> {
        // Whether it calls that a success is not asked.
        let ended = self.0.stop(ENDING);
        ended.context("the client that holds connections").map(drop)
    }
}
