//! What the kernel goes on handling on the interface that the engine works on.

use super::stage::Stage;
use ::lab::Side;
use anyhow::{Context, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, sockopt};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A port that nobody offloads.
const PORT: u16 = 2222;
/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(5);
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
    let local_client = world
        .program(Side::Server, "curl")
        .args(["--silent", "--fail", "--max-time", "5"])
        .arg(format!("http://{offloaded}/"))
        .output()
        .is_ok();
    Ok(Bystanders {
        ping: ping(stage).unwrap_or(false),
        other_port: greet(stage).unwrap_or(false),
        local_client,
        kernel_segments: kernel_segments(stage)?,
    })
}

/// Sends an echo request to the server's side; whether the reply came.
fn ping(stage: &Stage) -> Result<bool> {
    // Who may use echo sockets is a setting, and by default nobody.
    let world = stage.world();
    world.sysctl(Side::Client, "net.ipv4.ping_group_range", "0 0")?;
    world.on(Side::Client, || {
        let protocol = Some(rustix::net::ipproto::ICMP);
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, protocol)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        let to = SocketAddr::from((Side::Server.ipv4(), 0));
        // Type 8, code 0; the kernel fills in checksum and identifier.
        let request = [8, 0, 0, 0, 0, 0, 0, 1, b'p', b'i', b'n', b'g'];
        rustix::net::sendto(&socket, &request, SendFlags::empty(), &to)?;
        let mut reply = [0; 64];
        let (length, _) = rustix::net::recv(&socket, &mut reply[..], RecvFlags::empty())?;
        Ok(length == request.len() && reply[0] == 0 && reply[8..12] == request[8..])
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
        stage.world().on(Side::Client, || {
            let to = (Side::Server.ipv4(), PORT).into();
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
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
