//! Steering: which frames of an interface are the engine's.
//!
//! The program in `bpf/steering.bpf.c` runs at the driver's edge and looks every frame up by
//! (VLAN, protocol, local address, local port). What is in the table goes to the AF_XDP socket of
//! its receive queue; everything else goes to the kernel as if the program were not there, and so
//! does what is in the table while no socket takes it.
//!
//! The program hangs on the interface by a BPF link, which is a descriptor of this process: when
//! the process ends, however it ends, the program is gone and the kernel serves everything again.
//! (The older way to attach outlives its owner, and would leave the ports dead.)

mod attach;
mod error;
mod hint;
mod layout;
mod listeners;
mod owner;
mod placement;
mod responders;
mod shared;
mod watch;
mod words;

use std::fmt;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Array, HashMap, MapData, PerCpuArray, XskMap};
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};

pub use error::SteeringError;
pub use layout::{
    Action, Counts, Endpoint, MAX_ENDPOINTS, MAX_FLOWS, MAX_QUEUES, MAX_SLOTS, Reason, SHARE_ALL,
    Share, Verdict,
};
pub use listeners::MAX_SHOWN;
pub use owner::ProgramOwner;
pub use placement::Placement;
pub use shared::{Load, Loads};
pub use watch::{MAX_WORKERS, STALE, Watch};
pub use words::now_ns;

use crate::interface::{Interface, XdpMode};
use crate::programs::{fd_of, load_error, load_program, take_map, test_run};
use hint::Hint;
use layout::{EndpointKey, Treatment};
use listeners::{Left, Shown};

pub(crate) use attach::{Link, attach as attach_program};
pub(crate) use error::chain;
pub(crate) use layout::Context;

/// The compiled program.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steering.bpf.o"));

/// The steering program and its tables.
///
/// Dropping it detaches the program.
pub struct Steering {
    /// Holds the program; its maps were taken out.
    object: Ebpf,
    endpoints: HashMap<MapData, EndpointKey, Treatment>,
    /// What is in `endpoints`, so that a mistake of the caller is told from one of the kernel, and where the program
    /// notes what it leaves to the kernel there.
    present: Left,
    /// The sockets that listeners have.
    shown: Shown,
    epochs: shared::Epochs,
    /// What is counted at shared endpoints, until somebody takes it.
    loads: Option<Loads>,
    sockets: XskMap<MapData>,
    /// Which worker serves a queue.
    workers: Array<MapData, u32>,
    counts: PerCpuArray<MapData, u64>,
    /// What the program remembers of `endpoints`.
    hint: Hint,
    /// Where the responder's program is called from.
    responders: MapData,
    /// Where a program of the user's is called from.
    diverters: MapData,
    /// Whether the engine's first worker comes for what it is given.
    watch: Watch,
    /// The link, and where the program runs.
    attached: Option<(attach::Link, XdpMode)>,
    /// Which of the two programs runs.
    again: bool,
}

impl Steering {
    /// Loads the program without attaching it.
    ///
    /// # Errors
    /// [`SteeringError::NotPermitted`] without CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; [`SteeringError::Load`]
    /// if the kernel does not take the program.
    pub fn load() -> Result<Self, SteeringError> {
        Self::load_remembering(MAX_FLOWS)
    }

    /// As [`load`](Self::load), with room for so many connections to [shared](Share::Shared) endpoints.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_remembering(flows: u32) -> Result<Self, SteeringError> {
        let why = match Btf::from_sys_fs() {
            Ok(btf) => match Self::load_by(flows, Some(&btf)) {
                // Who may not load this may not load the other.
                loaded @ (Ok(_) | Err(SteeringError::NotPermitted)) => return loaded,
                Err(error) => format!("the program that does so is not taken: {error}"),
            },
            Err(error) => format!(
                "it says nothing of its types, CONFIG_DEBUG_INFO_BTF: {}",
                error::chain(&error)
            ),
        };
        tracing::warn!(
            why,
            "the kernel does not tell one listening socket from another: until the engine has heard that a program \
             listens no longer, its new clients are the engine's, whoever listens there"
        );
        Self::load_by(flows, None)
    }

    /// With what the kernel says of its types sockets are told apart.
    fn load_by(flows: u32, types: Option<&Btf>) -> Result<Self, SteeringError> {
        let secret = shared::secret();
        let compares = u8::from(types.is_some());
        let mut object = EbpfLoader::new()
            .btf(types)
            .override_global(shared::SECRET, &secret, true)
            .override_global(listeners::COMPARES, &compares, true)
            .map_max_entries(shared::FLOWS, flows)
            .load(OBJECT)
            .map_err(|error| load_error(&error))?;
        let endpoints = take_map(&mut object, "endpoints", HashMap::try_from)?;
        let sockets = take_map(&mut object, "sockets", XskMap::try_from)?;
        let workers = take_map(&mut object, "workers", Array::try_from)?;
        let counts = take_map(&mut object, "counts", PerCpuArray::try_from)?;
        let loads = take_map(&mut object, shared::LOADS, PerCpuArray::try_from)?;
        let loads = Loads::of(loads);
        let hint = Hint::new(take_map(&mut object, "hints", Array::try_from)?)?;
        let responders = take_map(&mut object, "responders", responders::of_map)?;
        let diverters = take_map(&mut object, "diverters", responders::of_map)?;
        let watch = Watch::new(take_map(&mut object, "waits", words::of_map)?)?;
        let present = Left::new(take_map(&mut object, "left", words::of_map)?)?;
        let shown = take_map(&mut object, "shown", HashMap::try_from)?;
        let shown = Shown::new(shown, types.is_some());
        for name in [layout::PROGRAM, layout::PROGRAM_AGAIN] {
            load_program(&mut object, name)?;
        }
        Ok(Self {
            object,
            endpoints,
            present,
            shown,
            epochs: shared::Epochs::default(),
            loads: Some(loads),
            sockets,
            workers,
            counts,
            hint,
            responders,
            diverters,
            watch,
            attached: None,
            again: false,
        })
    }

    /// Whether an interface has no XDP program yet, as far as the kernel says. Nothing is done to it.
    ///
    /// # Errors
    /// [`SteeringError::Occupied`] if it has one.
    pub fn check_free(interface: &Interface) -> Result<(), SteeringError> {
        match interface.attached_program() {
            // What runs on the NIC itself may leave room for another.
            Ok(Some(program)) if program.mode.is_some() => {
                Err(attach::occupied(interface, Some(program)))
            }
            _ => Ok(()),
        }
    }

    /// Loads the program and attaches it to an interface.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`SteeringError::Occupied`] if the interface has an XDP program;
    /// [`SteeringError::Attach`] with what the driver said.
    pub fn attach(interface: &Interface, placement: Placement) -> Result<Self, SteeringError> {
        let mut steering = Self::load()?;
        let fd = fd_of(&steering.object, layout::PROGRAM)?;
        steering.attached = Some(attach::attach(fd.as_fd(), interface, placement)?);
        Ok(steering)
    }

    /// Has the driver take the program once more, for all the queues that the interface has by now:
    /// to those that were added `veth` does not give it by itself. No frame escapes meanwhile.
    ///
    /// # Errors
    /// [`SteeringError::Load`] with what the kernel said.
    pub fn renew(&mut self) -> Result<(), SteeringError> {
        let Some((link, _)) = &self.attached else {
            return Ok(());
        };
        // The kernel would not disturb the driver for the program that is there.
        let name = match self.again {
            false => layout::PROGRAM_AGAIN,
            true => layout::PROGRAM,
        };
        let fd = fd_of(&self.object, name)?;
        link.replace(fd.as_fd())
            .map_err(|error| SteeringError::Load(error.to_string()))?;
        self.again = !self.again;
        Ok(())
    }

    /// Where the program runs; `None` if it is not attached.
    pub fn mode(&self) -> Option<XdpMode> {
        self.attached.as_ref().map(|(_, mode)| *mode)
    }

    /// For how long a frame has waited that was redirected since the last [`beat`](Self::beat). From
    /// [`STALE`] on new connections have been the kernel's, on endpoints that have become
    /// [mixed](Share::Mixed) thereby.
    #[inline]
    pub fn waiting(&self) -> std::time::Duration {
        self.watch.waiting()
    }

    /// Says that everything that was redirected is about to be taken. Whoever says so once must go
    /// on: until then nobody is waited for.
    #[inline]
    pub fn beat(&mut self) {
        self.watch.beat();
    }

    /// What is seen of the first worker; [`Watch::of`] makes that of another of it.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Sends what is steered and arrives on a receive queue to the AF_XDP socket bound to it.
    ///
    /// The kernel forgets the socket by itself when it is closed.
    ///
    /// # Errors
    /// [`SteeringError::NoSuchQueue`] from [`MAX_QUEUES`] on; [`SteeringError::Map`].
    pub fn connect_queue(&mut self, queue: u32, socket: impl AsFd) -> Result<(), SteeringError> {
        self.connect_queue_to(queue, socket, 0)
    }

    /// The same for a queue of the worker with this number, below [`MAX_WORKERS`].
    ///
    /// # Errors
    /// As [`connect_queue`](Self::connect_queue).
    pub fn connect_queue_to(
        &mut self,
        queue: u32,
        socket: impl AsFd,
        worker: u32,
    ) -> Result<(), SteeringError> {
        if queue >= MAX_QUEUES {
            return Err(SteeringError::NoSuchQueue(queue));
        }
        self.workers.set(queue, worker, 0)?;
        let socket = socket.as_fd().as_raw_fd();
        Ok(self.sockets.set(queue, socket, 0)?)
    }

    /// Leaves what arrives on a receive queue to the kernel again.
    ///
    /// # Errors
    /// [`SteeringError::Map`].
    pub fn disconnect_queue(&mut self, queue: u32) -> Result<(), SteeringError> {
        Ok(self.sockets.unset(queue)?)
    }

    /// Steers TCP to an endpoint; replaces what was said of it before.
    ///
    /// # Errors
    /// [`SteeringError::Full`] at [`MAX_ENDPOINTS`]; [`SteeringError::Map`].
    pub fn add_port(&mut self, endpoint: Endpoint, share: Share) -> Result<(), SteeringError> {
        let number = self.present.number(endpoint).ok_or(SteeringError::Full)?;
        let epoch = self.epochs.of(endpoint, share);
        let treatment = Treatment::new(Action::Engine, share, epoch).noted_at(number);
        self.endpoints.insert(endpoint.key(), treatment, 0)?;
        self.present.insert(endpoint, number);
        self.hint.forget()
    }

    /// Changes how much of a steered endpoint is the engine's.
    ///
    /// # Errors
    /// [`SteeringError::NotSteered`]; [`SteeringError::Map`].
    pub fn set_share(&mut self, endpoint: Endpoint, share: Share) -> Result<(), SteeringError> {
        if !self.present.contains(endpoint) {
            return Err(SteeringError::NotSteered(endpoint));
        }
        self.add_port(endpoint, share)
    }

    /// Leaves an endpoint to the kernel again.
    ///
    /// # Errors
    /// [`SteeringError::NotSteered`]; [`SteeringError::Map`].
    pub fn remove_port(&mut self, endpoint: Endpoint) -> Result<(), SteeringError> {
        if !self.present.contains(endpoint) {
            return Err(SteeringError::NotSteered(endpoint));
        }
        // First: what the kernel was left there stays its own until then.
        self.endpoints.remove(&endpoint.key())?;
        self.present.remove(endpoint);
        self.epochs.end(endpoint);
        self.hint.forget()
    }

    /// The endpoints that are steered, in no order.
    pub fn ports(&self) -> impl ExactSizeIterator<Item = Endpoint> {
        self.present.iter()
    }

    /// How many frames went where, and why, since the program was loaded.
    ///
    /// # Errors
    /// [`SteeringError::Map`].
    pub fn counts(&self) -> Result<Counts, SteeringError> {
        let mut counts = Counts::default();
        for reason in Reason::ALL {
            let per_cpu = self.counts.get(&reason.index(), 0)?;
            counts.set(*reason, per_cpu.iter().sum());
        }
        Ok(counts)
    }

    /// What is counted at shared endpoints, for whoever is to read it: the first who asks.
    pub fn take_loads(&mut self) -> Option<Loads> {
        self.loads.take()
    }

    /// Runs the program over one frame, as if it had arrived on `queue` of an interface of the
    /// caller's namespace, and returns what it decided. The frame goes nowhere, but it is counted.
    ///
    /// # Errors
    /// [`SteeringError::TestRun`]: the kernel refuses frames shorter than an Ethernet header, and
    /// queues that the interface does not have.
    pub fn test_run(
        &self,
        frame: &[u8],
        interface: u32,
        queue: u32,
    ) -> Result<Verdict, SteeringError> {
        let name = layout::PROGRAM;
        let run = test_run(&self.object, name, frame, (interface, queue), 1, 0)?;
        Ok(run.verdict)
    }
}

impl fmt::Debug for Steering {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Steering")
            .field("present", &self.present.iter().collect::<Vec<_>>())
            .field("attached", &self.attached)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_loads_where_the_kernel_says_nothing_of_its_types() {
        if lab::skip_without_root("it_loads_where_the_kernel_says_nothing_of_its_types") {
            return;
        }
        let steering = Steering::load_by(1024, None).expect("the program loads");
        assert!(!steering.tells_sockets_apart());
    }
}
