//! A responder on an interface: how frames get to it and back, by one of three ways.

mod bursts;
mod endpoints;
mod error;
mod in_place;
mod options;
mod owners;
mod queue;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use netdev::Interface;
use netdev::interface::XdpMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::counters::Counts;
use super::repair::MOST;
use super::settings::{MAX_BURST_BODY, Settings};
use super::tables::Tables;
use super::witness::Seen;
use error::step;

pub use error::StartError;
pub use in_place::Owner;
pub use options::{Listen, Mode, Options, ports};
pub use owners::refuse_taken;

/// A running responder.
pub struct Server {
    way: Way,
    interface: Interface,
    /// What it has no answers for, for people.
    limits: String,
}

enum Way {
    InPlace(Box<in_place::InPlace>),
    Bursts(Box<bursts::Bursts>),
    Queue(queue::Queue),
}

impl Server {
    /// Starts one.
    ///
    /// `engine` is asked if the interface has a program already.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        options: &Options,
        mut settings: Settings,
        tables: Tables,
        engine: impl FnOnce() -> Option<Box<dyn Owner>>,
    ) -> Result<Self, StartError> {
        let interface = options.interface.clone();
        refuse_taken(&options.listen)?;
        settings.partial_checksums =
            interface.delivers_partial_checksums() || interface.is_loopback();
        settings.mtu = u16::try_from(interface.mtu).unwrap_or(u16::MAX);
        settings.bursts = options.mode != Mode::Xdp;
        settings.loopback = interface.is_loopback();
        settings.broadcasts = interface
            .broadcasts()
            .map_err(step("list the addresses of the interface"))?;
        let tables = tables.with_limits(&settings);
        let limits = limits(&settings);
        let way = match options.mode {
            Mode::Xdp => {
                let started = in_place::InPlace::start(options, settings, tables, engine)?;
                Way::InPlace(Box::new(started))
            }
            Mode::AfXdp => Way::Bursts(Box::new(bursts::Bursts::start(options, settings, tables)?)),
            Mode::NfQueue => Way::Queue(queue::Queue::start(options, settings, tables)?),
        };
        Ok(Self {
            way,
            interface,
            limits,
        })
    }

    /// How it runs, and what it cannot do, for people.
    pub fn describe(&self) -> String {
        let placed = |mode: Option<XdpMode>| match mode {
            Some(XdpMode::Native) => "native",
            Some(XdpMode::Generic) => "generic",
            None => "of the engine",
        };
        let way = match &self.way {
            Way::InPlace(way) => format!("in place (XDP, {})", placed(way.placed())),
            Way::Bursts(way) => format!("by AF_XDP (XDP, {})", placed(way.placed())),
            Way::Queue(_) => "by a netfilter queue".into(),
        };
        format!("{way}; {}", self.limits)
    }

    /// What is wrong with how it runs, if something is.
    pub fn warnings(&self) -> Vec<String> {
        match &self.way {
            Way::InPlace(way) => way.warnings(),
            _ => Vec::new(),
        }
    }

    /// Serves until `until`, or until `stop` is readable, which is what it returns.
    ///
    /// # Errors
    /// What the system calls said.
    pub fn serve(&mut self, until: Instant, stop: BorrowedFd<'_>) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let mut left = left.min(Duration::from_secs(3600));
            let mut set = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
            match &self.way {
                Way::InPlace(way) => way.poll_fds(&mut set),
                Way::Bursts(way) => {
                    way.poll_fds(&mut set);
                    left = way.patience().map_or(left, |patience| left.min(patience));
                }
                Way::Queue(_) => {}
            }
            let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            match poll(&mut set, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !set[0].revents().is_empty() {
                return Ok(true);
            }
            drop(set);
            match &mut self.way {
                Way::InPlace(way) => way.turn(),
                Way::Bursts(way) => way.turn(),
                Way::Queue(queue) => queue.check()?,
            }
        }
    }

    /// What was counted.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&self) -> io::Result<Counts> {
        match &self.way {
            Way::InPlace(way) => way.counts().map_err(io::Error::other),
            Way::Bursts(way) => Ok(way.counts()),
            Way::Queue(queue) => Ok(queue.counts()),
        }
    }

    /// The last SYNs as they arrived, if [`Options::witness`] says so.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn seen(&self) -> io::Result<Vec<Seen>> {
        match &self.way {
            Way::InPlace(way) => way.seen().map_err(io::Error::other),
            _ => Ok(Vec::new()),
        }
    }

    /// The interface.
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }
}

/// How large bodies can be, and what becomes of losses.
fn limits(settings: &Settings) -> String {
    let most = settings.max_body();
    if settings.bursts {
        format!(
            "bodies of at most {most} bytes, of which lost segments are sent again for the last \
             {MOST} responses"
        )
    } else {
        format!("bodies of at most {most} bytes (--mode afxdp takes {MAX_BURST_BODY})")
    }
}
