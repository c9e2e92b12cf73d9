//! The way by AF_XDP: frames come to this process, and a response may be several of them.

use std::time::{Duration, Instant};

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
        self.device.receive(BATCH, |frame| {
            responder.respond(frame, |answer| {
                bytes.extend_from_slice(answer);
                ends.push(bytes.len());
            });
        });
        self.flush();
    }

    /// Sends again what is due at this time.
    pub fn tick(&mut self, responder: &mut Responder, now_ns: u64) {
        let (bytes, ends) = (&mut self.bytes, &mut self.ends);
        responder.tick(now_ns, |answer| {
            bytes.extend_from_slice(answer);
            ends.push(bytes.len());
        });
        self.flush();
    }

    /// Sends the answers.
    fn flush(&mut self) {
        let mut start = 0;
        for end in &self.ends {
            let answer = &self.bytes[start..*end];
            start = *end;
            // Without a frame it is lost, and the device counts that; the client asks again, or a
            // segment of several is sent again.
            if let Some(frame) = self.device.frame()
                && let Some(room) = frame.get_mut(..answer.len())
            {
                room.copy_from_slice(answer);
                self.device.submit(answer.len(), None);
            }
        }
        self.bytes.clear();
        self.ends.clear();
        self.device.flush();
    }
}

pub(super) struct Bursts {
    /// Before the sockets, so that nothing is redirected to one that is gone.
    steering: Steering,
    sockets: Vec<Socket>,
    responder: Responder,
    began: Instant,
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
            began: Instant::now(),
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
        let now_ns = self.now_ns();
        // Which queue an answer leaves by is the same to who gets it.
        if let Some(socket) = self.sockets.first_mut() {
            socket.tick(&mut self.responder, now_ns);
        }
        for socket in &mut self.sockets {
            socket.turn(&mut self.responder);
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long until something has to be sent again, if anything has.
    pub fn patience(&self) -> Option<Duration> {
        let next = self.responder.next_tick_ns()?;
        Some(Duration::from_nanos(next.saturating_sub(self.now_ns())))
    }

    pub const fn counts(&self) -> Counts {
        *self.responder.counts()
    }
}
