//! A server of a script, on an engine in a private network.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Process, Side, World};

/// A server that runs, with the engine and the network.
pub struct Scene {
    pub world: World,
    pub outboard: Outboard,
    /// Killed by few.
    pub _engine: Process,
    pub server: Process,
    limit: Duration,
}

impl Scene {
    /// Starts `script`, a file below `tests`, and waits until it has so many listeners. Nothing may take longer
    /// than `limit`.
    pub fn start(script: &str, listeners: usize, limit: Duration) -> Self {
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let engine = outboard
            .start_engine(&world, None)
            .expect("the engine starts");
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let mut server = outboard
            .on_engine(&world, "python3")
            .arg(tests.join(script))
            .env("SCRATCH", world.scratch())
            // What it imports leaves nothing beside it.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .log(world.scratch().join("server.log"))
            .start()
            .expect("python starts");
        // Until the engine has it: a connection to the kernel's socket shows nothing.
        server
            .wait_until(limit, || {
                let rows = outboard.sockets().unwrap_or_default();
                rows.iter().filter(|row| row["state"] == "LISTEN").count() >= listeners
            })
            .expect("the server listens");
        Self {
            world,
            outboard,
            _engine: engine,
            server,
            limit,
        }
    }

    /// A connection of a client's.
    pub fn connect(&self, port: u16) -> TcpStream {
        let address: SocketAddr = (Side::Server.ipv4(), port).into();
        self.world
            .on(Side::Client, || {
                let stream = TcpStream::connect_timeout(&address, self.limit)?;
                stream.set_read_timeout(Some(self.limit))?;
                stream.set_write_timeout(Some(self.limit))?;
                Ok(stream)
            })
            .expect("connects")
    }
}
