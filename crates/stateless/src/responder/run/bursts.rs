//! The way by AF_XDP: frames come to this process, and a response may be several of them.

use netdev::interface::XdpMode;
use netdev::steering::{Share, Steering};
use netdev::xdp::{self, XdpDevice};
use netdev::{Device, Interface};
use rustix::event::PollFd;

use super::{Options, StartError, endpoints};
use crate::responder::Responder;
use crate::responder::counters::Counts;
use crate::responder::settings::Settings;
use crate::responder::tables::Tables;

/// Frames taken in one go. With the longest bursts there are this many times 45 answers.
const BATCH: usize = 64;

/// One receive queue, and the answers that wait to leave.
pub(super) struct Socket {
    device: XdpDevice,
    /// Answers of one batch, one after the other.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Socket {
    pub fn open(interface: &Interface, queue: u32) -> Result<Self, xdp::OpenError> {
        let config = xdp::Config {
            queue,
            transmit_frames: 4096,
            ..xdp::Config::default()
        };
        Ok(Self {
            device: XdpDevice::open(interface, config)?,
            bytes: Vec::new(),
            ends: Vec::new(),
        })
    }

    pub const fn device(&self) -> &XdpDevice {
        &self.device
    }

    pub fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        self.device.poll_fds(set);
    }

    /// Answers what has arrived, a batch at most.
    pub fn turn(&mut self, responder: &mut Responder) {
        let (bytes, ends) = (&mut self.bytes, &mut self.ends);
        bytes.clear();
        ends.clear();
        self.device.receive(BATCH, |frame| {
            responder.respond(frame, |answer| {
                bytes.extend_from_slice(answer);
                ends.push(bytes.len());
            });
        });
        let mut start = 0;
        for end in &self.ends {
            let answer = &self.bytes[start..*end];
            start = *end;
            // Without a frame it is lost, and the device counts that; the client asks again.
            if let Some(frame) = self.device.frame()
                && let Some(room) = frame.get_mut(..answer.len())
            {
                room.copy_from_slice(answer);
                self.device.submit(answer.len(), None);
            }
        }
        self.device.flush();
    }
}

pub(super) struct Bursts {
    /// Before the sockets, so that nothing is redirected to one that is gone.
    steering: Steering,
    sockets: Vec<Socket>,
    responder: Responder,
}

impl Bursts {
    pub fn start(
        options: &Options,
        settings: Settings,
        tables: Tables,
    ) -> Result<Self, StartError> {
        let endpoints = endpoints::all(options)?;
        let mut steering = Steering::attach(&options.interface, options.placement)?;
        let mut sockets = Vec::new();
        for queue in 0..options.interface.receive_queues {
            let socket = Socket::open(&options.interface, queue)?;
            steering.connect_queue(queue, socket.device())?;
            sockets.push(socket);
        }
        for endpoint in endpoints {
            steering.add_port(endpoint, Share::All)?;
        }
        Ok(Self {
            steering,
            sockets,
            responder: Responder::new(settings, tables),
        })
    }

    pub fn placed(&self) -> Option<XdpMode> {
        self.steering.mode()
    }

    pub fn poll_fds<'a>(&'a self, set: &mut Vec<PollFd<'a>>) {
        for socket in &self.sockets {
            socket.poll_fds(set);
        }
    }

    pub fn turn(&mut self) {
        for socket in &mut self.sockets {
            socket.turn(&mut self.responder);
        }
    }

    pub const fn counts(&self) -> Counts {
        *self.responder.counts()
    }
}
