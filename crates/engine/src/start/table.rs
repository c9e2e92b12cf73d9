//! The steering program's table, as the network uses it.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use netdev::steering::{Endpoint, Share, Steering};

use crate::network::{Shared, Steer, Steered};

/// The steering program's table, as the network uses it.
pub(super) struct SteeringTable {
    steering: Steering,
    /// The endpoints in it that are a responder's.
    responders: Vec<Endpoint>,
}

impl SteeringTable {
    pub(super) fn of(steering: Steering) -> Self {
        Self {
            steering,
            responders: Vec::new(),
        }
    }
}

impl Steer for SteeringTable {
    fn steer(&mut self, address: IpAddr, port: u16, how: Steered) -> io::Result<()> {
        let share = match how {
            Steered::Engine => Share::All,
            Steered::Mixed => Share::Mixed,
            Steered::Shared(Shared { share, slot }) => Share::Shared { share, slot },
            Steered::Closing => Share::Closing,
        };
        let endpoint = Endpoint::new(address, port);
        if self.responders.contains(&endpoint) {
            let message = format!("a stateless responder has {endpoint}");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        let added = self.steering.add_port(endpoint, share);
        added.map_err(io::Error::other)
    }

    fn unsteer(&mut self, address: IpAddr, port: u16) -> io::Result<()> {
        let endpoint = Endpoint::new(address, port);
        if self.responders.contains(&endpoint) {
            return Ok(());
        }
        let removed = self.steering.remove_port(endpoint);
        removed.map_err(io::Error::other)
    }

    fn respond(
        &mut self,
        program: Option<BorrowedFd<'_>>,
        endpoints: &[Endpoint],
    ) -> io::Result<()> {
        if let Some(program) = program {
            let called = self.steering.call_responder(program);
            called.map_err(io::Error::other)?;
        }
        for endpoint in endpoints {
            let added = self.steering.add_responder_port(*endpoint);
            added.map_err(io::Error::other)?;
            self.responders.push(*endpoint);
        }
        Ok(())
    }

    fn end_responding(&mut self) {
        for endpoint in self.responders.drain(..) {
            if let Err(error) = self.steering.remove_port(endpoint) {
                tracing::warn!(%error, "an endpoint of the responder stays");
            }
        }
        if let Err(error) = self.steering.leave_responder() {
            tracing::warn!(%error, "the responder's program stays");
        }
    }

    fn divert(&mut self, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.steering.divert(program).map_err(io::Error::other)
    }

    fn renew_steering(&mut self) -> io::Result<()> {
        self.steering.renew().map_err(io::Error::other)
    }

    fn connect_queue(&mut self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let connected = self.steering.connect_queue(queue, socket);
        connected.map_err(io::Error::other)
    }

    fn waiting(&self) -> std::time::Duration {
        self.steering.waiting()
    }

    fn beat(&mut self) {
        self.steering.beat();
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        match self.steering.counts() {
            Ok(counts) => counts.iter().map(|(r, count)| (r.name(), count)).collect(),
            Err(error) => {
                tracing::warn!(%error, "the steering's counts cannot be read");
                Vec::new()
            }
        }
    }
}
