//! A witness of the SYNs that arrive for the stateless responder: so that both ends can be compared,
//! and what the path rewrote be told.
//!
//! The program in `bpf/witness.bpf.c` stands between the steering program and the
//! [responder's](crate::responder): it keeps the first bytes of the last SYNs and hands every frame
//! on.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, MapData};
use aya::{Ebpf, include_bytes_aligned};

use crate::programs::{fd_of, load_error, load_program, take_map};
use crate::steering::{SteeringError, map_of_programs, set_program};

/// The compiled program.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/witness.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "witness";

/// So many SYNs are kept.
pub const SAMPLES: u32 = 64;

/// So many bytes of each: more than Ethernet with a VLAN tag, IPv6 and the longest TCP header take.
pub const SAMPLE_SIZE: usize = 128;

/// `struct sample`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    number: u64,
    length: u64,
    bytes: [u8; SAMPLE_SIZE],
}

// SAFETY: integers only, without padding.
unsafe impl aya::Pod for Sample {}

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
    _responders: MapData,
}

impl Witness {
    /// Loads the program, which hands every frame on to `responder`.
    ///
    /// # Errors
    /// As [`responder::Program::load`](crate::responder::Program::load).
    pub fn load(responder: BorrowedFd<'_>) -> Result<Self, SteeringError> {
        let mut object = Ebpf::load(OBJECT).map_err(|failed| load_error(&failed))?;
        let samples = take_map(&mut object, "samples", Array::try_from)?;
        let responders = take_map(&mut object, "responders", map_of_programs)?;
        load_program(&mut object, PROGRAM)?;
        set_program(responders.fd().as_fd(), Some(responder)).map_err(SteeringError::Call)?;
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
            let length = usize::try_from(sample.length).unwrap_or(usize::MAX);
            if length == 0 || sample != self.samples.get(&index, 0)? {
                continue;
            }
            if let Some(bytes) = sample.bytes.get(..length) {
                seen.push(Seen {
                    number: sample.number,
                    frame: bytes.to_vec(),
                });
            }
        }
        seen.sort_by_key(|seen| seen.number);
        Ok(seen)
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Witness")
    }
}
