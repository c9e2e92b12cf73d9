//! An engine as the owner of the interface's XDP program: it is asked over its control socket to
//! call the responder's program for the responder's ports.

use crate::control::PATIENCE;
use netdev::Interface;
use netdev::steering::Endpoint;
use queue_pair::control::{Channel, Fds, Reply, Request, socket_path};
use stateless::responder::run::Owner;
use std::os::fd::BorrowedFd;

/// Endpoints in one request, so that it is within the longest message.
const ENDPOINTS: usize = 500;

/// A connection to an engine. It lives as long as the ports are the responder's: when this end is
/// closed, in whatever way, the engine takes them back.
pub struct Engine {
    channel: Channel,
    interface: Interface,
}

impl Engine {
    /// The engine called `name`, if it answers.
    pub fn find(name: &str, interface: &Interface) -> Option<Box<dyn Owner>> {
        let channel = Channel::connect(&socket_path(name)).ok()?;
        Some(Box::new(Self {
            channel,
            interface: interface.clone(),
        }))
    }
}

impl Owner for Engine {
    fn take(&mut self, program: BorrowedFd<'_>, endpoints: &[Endpoint]) -> Result<(), String> {
        let program = program
            .try_clone_to_owned()
            .map_err(|error| error.to_string())?;
        let mut fds = Fds::new();
        fds.push(program);
        for some in endpoints.chunks(ENDPOINTS) {
            let endpoints = some.iter().map(|e| (e.address, e.port, e.vlan));
            let request = Request::Respond {
                interface: self.interface.index,
                endpoints: endpoints.collect(),
            };
            match self
                .channel
                .request(&request, std::mem::take(&mut fds), PATIENCE)
            {
                Ok((Reply::Done, _)) => {}
                Ok((Reply::Error { message, .. }, _)) => {
                    return Err(format!("the engine says: {message}"));
                }
                Ok((other, _)) => return Err(crate::control::out_of_place(&other).to_string()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}
