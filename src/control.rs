//! Asking a running engine over its control socket.

use anyhow::{Result, anyhow, bail};
use queue_pair::control::{Channel, DEFAULT_NAME, Fds, Reply, Request, socket_path};
use std::io::ErrorKind;
use std::time::Duration;

/// How long an engine may take to answer. One that is alive answers at once, unless the machine has
/// something else to do.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Which engine is meant.
#[derive(clap::Args, Clone, Debug)]
pub struct Engine {
    /// The engine's name (its socket is /run/outboard/NAME.sock, or $OUTBOARD_SOCKET)
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME,
          value_parser = crate::advice::engine_name)]
    engine: String,
}

/// A connection to an engine.
pub struct Control {
    channel: Channel,
}

impl Engine {
    /// What it is called, in words.
    pub fn name(&self) -> String {
        format!("engine {}", self.engine)
    }

    /// Connects to it.
    pub fn connect(&self) -> Result<Control> {
        let path = socket_path(&self.engine);
        let place = path.display();
        let channel = Channel::connect(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
                "no engine called {} is running (nobody listens at {place}); \
                 start one with: outboard engine -i IFACE",
                self.engine
            ),
            ErrorKind::PermissionDenied => {
                anyhow!("not allowed to talk to the engine at {place}; use sudo")
            }
            _ => anyhow!("cannot reach the engine at {place}: {error}"),
        })?;
        Ok(Control { channel })
    }
}

impl Control {
    /// The engine's process, as this namespace numbers it; nothing if it is not seen from here.
    pub fn engine_process(&self) -> Option<u32> {
        let engine = netdev::syscalls::peer_credentials(&self.channel).ok()?;
        // 0: it is in another PID namespace.
        Some(engine.pid).filter(|pid| *pid > 0)
    }

    /// Asks, and returns the answer; an error if the engine refuses.
    pub fn ask(&mut self, request: &Request) -> Result<Reply> {
        self.ask_with(request, Fds::new())
    }

    /// Asks, sending descriptors along.
    pub fn ask_with(&mut self, request: &Request, fds: Fds) -> Result<Reply> {
        match self.channel.request(request, fds, PATIENCE)? {
            (Reply::Error { message, .. }, _) => bail!("the engine says: {message}"),
            (reply, _) => Ok(reply),
        }
    }
}

/// What to say of an answer to a question that was not asked.
pub fn out_of_place(_: &Reply) -> anyhow::Error {
    anyhow!("the engine gave an answer to another question; is it of another version?")
}
