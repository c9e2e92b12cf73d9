//! A witness of the SYNs that arrive for the stateless responder: so that both ends can be compared,
//! and what the path rewrote be told.
//!
//! The program in `bpf/witness.bpf.c` stands between the steering program and the
//! [responder's](super::program): it keeps the first bytes of the last SYNs and hands every frame
//! on.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, MapData, ProgramArray};
use aya::{Ebpf, include_bytes_aligned};
use netdev::programs::{fd_of, load_error, load_program, take_map};
use netdev::steering::SteeringError;

use super::program::Program;

/// The compiled program.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/witness.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "witness";

/// So many SYNs are kept.
pub const SAMPLES: u32 = 64;

/// So many bytes of each: more than Ethernet with a VLAN tag, IPv6 and the longest TCP header take.
pub const SAMPLE_SIZE: usize = 128;

const WORD: usize = size_of::<u64>();

/// `struct sample`: its number, how many bytes there are, and they.
type Sample = [u8; 2 * WORD + SAMPLE_SIZE];

/// A SYN that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number, from 1: so many SYNs had come.
    pub number: u64,
    /// The first bytes of its frame, as it arrived.
    pub frame: Vec<u8>,
}

/// The program and what it keeps.
pub struct Witness {
    object: Ebpf,
    samples: Array<MapData, Sample>,
    /// Where the program goes on; held.
    _responders: ProgramArray<MapData>,
}

impl Witness {
    /// Loads the program, which hands every frame on to `responder`.
    ///
    /// # Errors
    /// As [`Steering::load`](netdev::Steering::load).
    pub fn load(responder: &Program) -> Result<Self, SteeringError> {
        let mut object = Ebpf::load(OBJECT).map_err(|failed| load_error(&failed))?;
        let samples = take_map(&mut object, "samples", Array::try_from)?;
        let mut responders = take_map(&mut object, "responders", ProgramArray::try_from)?;
        load_program(&mut object, PROGRAM)?;
        responders.set(0, responder.program_fd()?, 0)?;
        Ok(Self {
            object,
            samples,
            _responders: responders,
        })
    }

    /// The descriptor of the program, for who calls it.
    ///
    /// # Errors
    /// [`SteeringError::Object`].
    pub fn fd(&self) -> Result<BorrowedFd<'_>, SteeringError> {
        Ok(fd_of(&self.object, PROGRAM)?.as_fd())
    }

    /// The last SYNs that arrived, the first of them first. One that is just being written is left
    /// out.
    ///
    /// # Errors
    /// [`SteeringError::Map`].
    pub fn seen(&self) -> Result<Vec<Seen>, SteeringError> {
        let mut seen = Vec::new();
        for index in 0..SAMPLES {
            let sample = self.samples.get(&index, 0)?;
            if sample == self.samples.get(&index, 0)? {
                seen.extend(seen_in(&sample));
            }
        }
        seen.sort_by_key(|seen| seen.number);
        Ok(seen)
    }
}

/// What is in a sample, if there is one.
fn seen_in(sample: &Sample) -> Option<Seen> {
    let (number, rest) = sample.split_first_chunk::<WORD>()?;
    let (length, bytes) = rest.split_first_chunk::<WORD>()?;
    let length = usize::try_from(u64::from_ne_bytes(*length)).ok()?;
    let frame = bytes.get(..length).filter(|frame| !frame.is_empty())?;
    Some(Seen {
        number: u64::from_ne_bytes(*number),
        frame: frame.to_vec(),
    })
}

impl fmt::Debug for Witness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Witness")
    }
}
