//! What the kernel goes on handling on the interface that the engine works on.

use super::stage::Stage;
use ::lab::Side;
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A port that nobody offloads.
const PORT: u16 = 2222;
const GREETING: &str = "SSH-2.0-not-really\r\n";

/// What was found.
pub struct Bystanders {
    /// The answer to a ping came.
    pub ping: bool,
    /// A service on a port that is not offloaded, on the same address, answered.
    pub other_port: bool,
    /// A client on the server's own machine got the page.
    pub local_client: bool,
    /// Segments that the kernel's TCP received in the server's namespace.
    pub kernel_segments: u64,
}

/// Tries what is not the engine's business, while a server is at `offloaded`.
pub fn look(stage: &Stage, offloaded: SocketAddr) -> Result<Bystanders> {
    let world = stage.world();
    let address = Side::Server.ipv4().to_string();
    let ping = world
        .program(Side::Client, "ping")
        .args(["-c1", "-W2", &address])
        .output()
        .is_ok();
    let local_client = world
        .program(Side::Server, "curl")
        .args(["--silent", "--fail", "--max-time", "5"])
        .arg(format!("http://{offloaded}/"))
        .output()
        .is_ok();
    Ok(Bystanders {
        ping,
        other_port: greet(stage).unwrap_or(false),
        local_client,
        kernel_segments: kernel_segments(stage)?,
    })
}

/// A plain service on the server's side, and a client on the other.
fn greet(stage: &Stage) -> Result<bool> {
    let (listening, up) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || -> Result<()> {
            stage.world().enter(Side::Server)?;
            let listener = TcpListener::bind((Side::Server.ipv4(), PORT))?;
            listening.send(())?;
            listener.accept()?.0.write_all(GREETING.as_bytes())?;
            Ok(())
        });
        up.recv()?;
        stage.on_client(|| {
            let to = (Side::Server.ipv4(), PORT).into();
            let limit = Duration::from_secs(5);
            let mut stream = TcpStream::connect_timeout(&to, limit)?;
            stream.set_read_timeout(Some(limit))?;
            let mut heard = String::new();
            stream.read_to_string(&mut heard)?;
            Ok(heard == GREETING)
        })
    })
}

/// `InSegs` of the kernel's TCP on the server's side.
fn kernel_segments(stage: &Stage) -> Result<u64> {
    let snmp = stage
        .world()
        .program(Side::Server, "cat")
        .arg("/proc/net/snmp")
        .output()?;
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = lines.next().zip(lines.next()).context("no TCP in snmp")?;
    names
        .split_whitespace()
        .zip(values.split_whitespace())
        .find(|(name, _)| *name == "InSegs")
        .and_then(|(_, value)| value.parse().ok())
        .context("no InSegs in snmp")
}
