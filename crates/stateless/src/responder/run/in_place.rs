//! The way in place: the program in the driver answers, and this process only watches; but for
//! frames whose answers have no room in their buffers, which come here by AF_XDP.

use std::io;
use std::os::fd::BorrowedFd;

use netdev::Interface;
use netdev::interface::XdpMode;
use netdev::steering::{Endpoint, Steering, SteeringError};
use rustix::event::PollFd;

use super::bursts::Socket;
use super::{Options, StartError, endpoints};
use crate::responder::Responder;
use crate::responder::counters::{Counter, Counts};
use crate::responder::program::Program;
use crate::responder::settings::Settings;
use crate::responder::tables::Tables;
use crate::responder::witness::{Seen, Witness};

/// Who attaches the program that leads to the responder's.
///
/// One program can be attached to an interface. If an engine's is there, the engine is the owner.
pub trait Owner: Send {
    /// Makes the root program call `program` for these endpoints. It stops when this is dropped.
    ///
    /// # Errors
    /// A message for people.
    fn take(&mut self, program: BorrowedFd<'_>, endpoints: &[Endpoint]) -> Result<(), String>;
}

pub(super) struct InPlace {
    root: Root,
    program: Program,
    witness: Option<Witness>,
    detours: Vec<Socket>,
    responder: Responder,
    interface: Interface,
    /// Of the driver, when it started.
    lost_before: u64,
    warnings: Vec<String>,
}

/// The program that is attached.
enum Root {
    /// Ours.
    Own(Box<Steering>),
    /// An engine's.
    Engines(#[allow(dead_code, reason = "held")] Box<dyn Owner>),
}

impl InPlace {
    pub fn start(
        options: &Options,
        settings: Settings,
        tables: Tables,
        engine: impl FnOnce() -> Option<Box<dyn Owner>>,
    ) -> Result<Self, StartError> {
        let endpoints = endpoints::all(options)?;
        let mut program = Program::load(&settings, &tables)?;
        let witness = match options.witness {
            true => Some(Witness::load(&program)?),
            false => None,
        };
        let called = match &witness {
            Some(witness) => witness.fd()?,
            None => program.fd()?,
        };
        let root = match Steering::attach(&options.interface, options.placement) {
            Ok(steering) => own(steering, called, &endpoints)?,
            Err(occupied @ SteeringError::Occupied { .. }) => {
                let mut owner = engine().ok_or(occupied)?;
                owner.take(called, &endpoints).map_err(|said| {
                    super::step("use the engine's program")(io::Error::other(said))
                })?;
                Root::Engines(owner)
            }
            Err(error) => return Err(error.into()),
        };
        let mut warnings = Vec::new();
        let mut detours = Vec::new();
        // What AF_XDP sends on the loopback is taken for a stranger's that claims to be from here.
        let queues = if options.interface.is_loopback() {
            let limit =
                "answers that have no room in place (bodies from some 100 bytes on) are dropped";
            warnings.push(format!("on the loopback, {limit}"));
            0
        } else {
            options.interface.receive_queues
        };
        for queue in 0..queues {
            match Socket::open(&options.interface, queue) {
                Ok(socket) => {
                    program.connect_queue(queue, socket.device())?;
                    detours.push(socket);
                }
                Err(error) => {
                    warnings.push(format!(
                        "answers that have no room in place are dropped: {error}"
                    ));
                    break;
                }
            }
        }
        Ok(Self {
            root,
            program,
            witness,
            detours,
            responder: Responder::new(settings, tables),
            lost_before: lost(&options.interface),
            interface: options.interface.clone(),
            warnings,
        })
    }

    pub fn placed(&self) -> Option<XdpMode> {
        match &self.root {
            Root::Own(steering) => steering.mode(),
            Root::Engines(_) => None,
        }
    }

    pub fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        for socket in &self.detours {
            socket.poll_fds(set);
        }
    }

    pub fn turn(&mut self) {
        for socket in &mut self.detours {
            socket.turn(&mut self.responder);
        }
    }

    pub fn counts(&self) -> Result<Counts, SteeringError> {
        Ok(self.program.counts()?.plus(self.responder.counts()))
    }

    pub fn seen(&self) -> Result<Vec<Seen>, SteeringError> {
        self.witness.as_ref().map_or(Ok(Vec::new()), Witness::seen)
    }

    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        let lost = lost(&self.interface).saturating_sub(self.lost_before);
        if self.interface.driver == "veth" && lost > 0 {
            warnings.push(format!(
                "{lost} answers were lost: the other end of this veth does not poll. Name it with \
                 --peer [NETNS/]IFACE, attach any XDP program there, or use --mode afxdp"
            ));
        }
        if let Ok(counts) = self.counts()
            && nobody_goes_on(&counts)
        {
            let syns = counts.get(Counter::Syns);
            let veth = if self.interface.driver == "veth" {
                ", or the other end of this veth does not take them: name it with --peer \
                 [NETNS/]IFACE, or use --mode afxdp"
            } else {
                ""
            };
            warnings.push(format!(
                "{syns} SYNs were answered, and nobody went on: it is a flood, or the answers were \
                 lost on their way back{veth}"
            ));
        }
        warnings
    }
}

/// SYNs after which it is strange that nothing else has come.
const STRANGE: u64 = 3;

/// Whether clients open connections, and none says anything more.
fn nobody_goes_on(counts: &Counts) -> bool {
    let more = [
        Counter::Requests,
        Counter::Acks,
        Counter::Fins,
        Counter::ResetsReceived,
        Counter::Incomplete,
        Counter::Misplaced,
    ];
    counts.get(Counter::Syns) >= STRANGE && more.iter().all(|counter| counts.get(*counter) == 0)
}

/// Frames that were sent back, and that nobody took.
fn lost(interface: &Interface) -> u64 {
    interface.driver_counter("xdp_tx_errors").unwrap_or(0)
}

fn own(
    mut steering: Steering,
    program: BorrowedFd<'_>,
    endpoints: &[Endpoint],
) -> Result<Root, SteeringError> {
    steering.call_responder(program)?;
    for endpoint in endpoints {
        steering.add_responder_port(*endpoint)?;
    }
    Ok(Root::Own(Box::new(steering)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_alone_are_strange_and_anything_more_is_not() {
        let mut counts = Counts::default();
        assert!(!nobody_goes_on(&counts));
        counts.add(Counter::Syns, STRANGE - 1);
        assert!(!nobody_goes_on(&counts));
        counts.add(Counter::Syns, 1);
        assert!(nobody_goes_on(&counts));
        counts.add(Counter::ResetsReceived, 1);
        assert!(!nobody_goes_on(&counts));
    }
}
