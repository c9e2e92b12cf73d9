//! The program of the stateless responder, which the [steering](crate::steering) program calls for
//! the ports that are its own.
//!
//! What it answers is decided elsewhere (the crate `stateless` has the same function, and the
//! texts); here it is loaded, told, asked what it counted, and run over single frames.

mod layout;

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::maps::{Array, HashMap, MapData, PerCpuArray, XskMap};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

pub use layout::{
    BODY_SIZE, COUNTER_SLOTS, FIELDS_SIZE, FixedObject, LINE_SIZE, MAX_BODIES, MAX_BROADCASTS,
    MAX_OBJECTS, MAX_RANGES, PATH_SIZE, Setup,
};

use crate::programs::{Run, fd_of, load_error, load_program, take_map, test_run};
use crate::steering::{MAX_QUEUES, SteeringError};
use layout::{Body, Config, Counts, Line, Object, Path};

/// The compiled program.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/responder.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "respond";

/// The loaded program and its tables. It answers nothing before a steering program calls it.
pub struct Program {
    object: Ebpf,
    counts: PerCpuArray<MapData, Counts>,
    detours: XskMap<MapData>,
}

/// Bytes of an answer that a test run takes.
const ANSWER_ROOM: usize = 4096;

impl Program {
    /// Loads the program and fills its tables.
    ///
    /// # Errors
    /// [`SteeringError::NotPermitted`] without CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; [`SteeringError::Load`]
    /// if the kernel does not take the program; [`SteeringError::Setup`] if a text or table is
    /// longer than the program's.
    pub fn load(setup: &Setup) -> Result<Self, SteeringError> {
        check(setup)?;
        let config = Config::new(setup);
        let mut object = EbpfLoader::new()
            .override_global("settings", &config, true)
            .load(OBJECT)
            .map_err(|failed| load_error(&failed))?;
        let mut lines: Array<_, Line> = take_map(&mut object, "lines", Array::try_from)?;
        for (status, line) in (0..).zip(&setup.lines) {
            lines.set(status, Line::new(line.as_bytes()), 0)?;
        }
        let mut bodies: Array<_, Body> = take_map(&mut object, "bodies", Array::try_from)?;
        for (number, body) in (0..).zip(&setup.bodies) {
            bodies.set(number, Body::new(&body[..body.len().min(BODY_SIZE)]), 0)?;
        }
        let mut objects: Array<_, Object> = take_map(&mut object, "objects", Array::try_from)?;
        let mut paths: HashMap<_, Path, u32> = take_map(&mut object, "paths", HashMap::try_from)?;
        for (number, fixed) in (0..).zip(&setup.objects) {
            objects.set(number, Object::new(fixed), 0)?;
            paths.insert(Path::new(&fixed.path), number, 0)?;
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

    /// What was counted since it was loaded, by the numbers of its counters.
    ///
    /// # Errors
    /// [`SteeringError::Map`].
    pub fn counts(&self) -> Result<[u64; COUNTER_SLOTS], SteeringError> {
        let mut sums = [0; COUNTER_SLOTS];
        for counts in self.counts.get(&0, 0)?.iter() {
            for (sum, count) in sums.iter_mut().zip(counts.0) {
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
        Ok(fd_of(&self.object, PROGRAM)?.as_fd())
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
fn check(setup: &Setup) -> Result<(), SteeringError> {
    let objects = &setup.objects;
    let fits = [
        ("ranges of ports", setup.ports.len() <= MAX_RANGES),
        ("bodies", setup.bodies.len() <= MAX_BODIES),
        ("objects", objects.len() <= MAX_OBJECTS),
        ("status lines", setup.lines.len() <= 600),
        (
            "bytes of a status line",
            setup.lines.iter().all(|line| line.len() <= LINE_SIZE),
        ),
        (
            "bytes of an object's path",
            objects.iter().all(|object| object.path.len() <= PATH_SIZE),
        ),
        (
            "bytes of an object's header fields",
            objects
                .iter()
                .all(|object| object.fields.len() <= FIELDS_SIZE),
        ),
        (
            "bytes of an object's body",
            objects.iter().all(|object| {
                let body = setup.bodies.get(object.body as usize);
                body.is_some_and(|body| body.len() <= BODY_SIZE)
            }),
        ),
    ];
    match fits.iter().find(|(_, fits)| !fits) {
        Some((what, _)) => Err(SteeringError::Setup(what)),
        None => Ok(()),
    }
}
