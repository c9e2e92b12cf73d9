//! The responder's program in the driver, which the [steering](netdev::steering) program calls for the ports that
//! are its own.
//!
//! It answers as [`Responder`](super::Responder) does; here it is loaded with the same settings and texts, asked
//! what it counted, and run over single frames.

mod layout;

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::maps::{Array, HashMap, MapData, PerCpuArray, XskMap};
use aya::programs::ProgramFd;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use netdev::programs::{Run, fd_of, load_error, load_program, take_map, test_run};
use netdev::steering::{MAX_QUEUES, SteeringError};

use super::counters::{COUNTERS, Counts};
use super::objects::{MAX_OBJECTS, MAX_PATH};
use super::settings::{MAX_RANGES, Settings};
use super::tables::Tables;
use layout::{
    BODY_SIZE, BodyValue, COUNTER_SLOTS, CountsValue, FIELDS_SIZE, LINE_SIZE, LineValue,
    MAX_BODIES, MAX_STATUS, ObjectValue, PathKey,
};

/// The compiled program.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/responder.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "respond";

/// The loaded program and its tables. It answers nothing before a steering program calls it.
pub struct Program {
    object: Ebpf,
    counts: PerCpuArray<MapData, CountsValue>,
    detours: XskMap<MapData>,
}

// Its counters have the numbers of `Counter`.
const _: () = assert!(COUNTERS <= COUNTER_SLOTS);

/// Bytes of an answer that a test run takes.
const ANSWER_ROOM: usize = 4096;

/// Why the program cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Settings or texts are more than it has room for.
    #[error("the responder's program has no room for so many {0}")]
    NoRoom(&'static str),
    /// The kernel.
    #[error(transparent)]
    Steering(#[from] SteeringError),
}

impl Program {
    /// Loads the program and fills its tables.
    ///
    /// # Errors
    /// [`SteeringError::NotPermitted`] without CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; [`SteeringError::Load`]
    /// if the kernel does not take the program; [`ProgramError::NoRoom`] if a text or table is
    /// longer than the program's.
    pub fn load(settings: &Settings, tables: &Tables) -> Result<Self, ProgramError> {
        check(settings, tables)?;
        Ok(Self::load_fitting(settings, tables)?)
    }

    fn load_fitting(settings: &Settings, tables: &Tables) -> Result<Self, SteeringError> {
        let config = layout::config(settings);
        let mut object = EbpfLoader::new()
            .override_global("settings", &config, true)
            .load(OBJECT)
            .map_err(|failed| load_error(&failed))?;
        let mut lines: Array<_, LineValue> = take_map(&mut object, "lines", Array::try_from)?;
        for status in 0..MAX_STATUS {
            lines.set(status, layout::line(tables.line(status)), 0)?;
        }
        let mut bodies: Array<_, BodyValue> = take_map(&mut object, "bodies", Array::try_from)?;
        for (number, body) in (0..).zip(tables.bodies()) {
            bodies.set(number, layout::body(body), 0)?;
        }
        let mut objects: Array<_, ObjectValue> = take_map(&mut object, "objects", Array::try_from)?;
        let mut paths: HashMap<_, PathKey, u32> =
            take_map(&mut object, "paths", HashMap::try_from)?;
        for (number, fixed) in (0..).zip(tables.objects()) {
            objects.set(number, layout::object(fixed), 0)?;
            paths.insert(layout::path(&fixed.path), number, 0)?;
        }
        let counts = take_map(&mut object, "counts_map", PerCpuArray::try_from)?;
        let detours = take_map(&mut object, "detours", XskMap::try_from)?;
        load_program(&mut object, PROGRAM)?;
        Ok(Self {
            object,
            counts,
            detours,
        })
    }

    /// Sends frames of a receive queue whose answers have no room to the AF_XDP socket bound to it.
    ///
    /// # Errors
    /// [`SteeringError::NoSuchQueue`] from [`MAX_QUEUES`] on; [`SteeringError::Map`].
    pub fn connect_queue(&mut self, queue: u32, socket: impl AsFd) -> Result<(), SteeringError> {
        if queue >= MAX_QUEUES {
            return Err(SteeringError::NoSuchQueue(queue));
        }
        Ok(self.detours.set(queue, socket.as_fd().as_raw_fd(), 0)?)
    }

    /// What was counted since it was loaded.
    ///
    /// # Errors
    /// [`SteeringError::Map`].
    pub fn counts(&self) -> Result<Counts, SteeringError> {
        let mut sums = Counts::default();
        for counts in self.counts.get(&0, 0)?.iter() {
            for (sum, count) in sums.0.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        Ok(sums)
    }

    /// The descriptor of the program, for who calls it.
    ///
    /// # Errors
    /// [`SteeringError::Object`].
    pub fn fd(&self) -> Result<BorrowedFd<'_>, SteeringError> {
        Ok(self.program_fd()?.as_fd())
    }

    /// The same, for an array of programs.
    pub(super) fn program_fd(&self) -> Result<&ProgramFd, SteeringError> {
        fd_of(&self.object, PROGRAM)
    }

    /// Runs the program `times` times over copies of one frame, as if each had arrived on queue 0
    /// of the interface with this index. The frames go nowhere, but they are counted.
    ///
    /// # Errors
    /// [`SteeringError::TestRun`]: the kernel refuses frames shorter than an Ethernet header.
    pub fn test_run(&self, frame: &[u8], interface: u32, times: u32) -> Result<Run, SteeringError> {
        let at = (interface, 0);
        test_run(&self.object, PROGRAM, frame, at, times, ANSWER_ROOM)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays secret.
        formatter.write_str("responder::Program")
    }
}

/// The program cuts what is too long, and would send something else than it promised.
fn check(settings: &Settings, tables: &Tables) -> Result<(), ProgramError> {
    let objects = tables.objects();
    let fits = [
        ("ranges of ports", settings.ports.len() <= MAX_RANGES),
        ("bodies", tables.bodies().len() <= MAX_BODIES),
        ("objects", objects.len() <= MAX_OBJECTS),
        (
            "bytes of a status line",
            (0..MAX_STATUS).all(|status| tables.line(status).len() <= LINE_SIZE),
        ),
        (
            "bytes of an object's path",
            objects.iter().all(|object| object.path.len() <= MAX_PATH),
        ),
        (
            "bytes of an object's header fields",
            objects
                .iter()
                .all(|object| object.fields.len() <= FIELDS_SIZE),
        ),
        (
            "bytes of an object's body",
            objects
                .iter()
                .all(|object| tables.body(object.body).len() <= BODY_SIZE),
        ),
    ];
    match fits.iter().find(|(_, fits)| !fits) {
        Some((what, _)) => Err(ProgramError::NoRoom(what)),
        None => Ok(()),
    }
}
