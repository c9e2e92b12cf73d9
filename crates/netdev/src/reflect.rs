//! A mirror at an interface: what the platform can do at best, to hold measurements against.

use std::fmt;
use std::os::fd::AsFd;

use aya::{Ebpf, include_bytes_aligned};

use crate::interface::Interface;
use crate::programs::{fd_of, load_error, load_program};
use crate::steering::{Link, Placement, SteeringError, attach_program};

/// The compiled program.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/reflect.bpf.o"));

/// The name of the program in its object.
const PROGRAM: &str = "reflect";

/// Sends every TCP segment over IPv4 back to where it came from, in the driver. Dropping it ends
/// that.
pub struct Reflector {
    /// Holds the program.
    _object: Ebpf,
    _link: Link,
}

impl Reflector {
    /// Loads the program and attaches it to the interface.
    ///
    /// # Errors
    /// As [`Steering::attach`](crate::Steering::attach).
    pub fn attach(interface: &Interface) -> Result<Self, SteeringError> {
        let mut object = Ebpf::load(OBJECT).map_err(|error| load_error(&error))?;
        load_program(&mut object, PROGRAM)?;
        let fd = fd_of(&object, PROGRAM)?;
        let (link, _) = attach_program(fd.as_fd(), interface, Placement::Native)?;
        Ok(Self {
            _object: object,
            _link: link,
        })
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reflector")
    }
}
