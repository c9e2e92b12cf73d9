//! What is done alike with every BPF program of ours, also by crates that have programs of their own: it is
//! found in its object and loaded, its tables are taken out, and it is run over a frame.

use std::error::Error;
use std::io;

use aya::Ebpf;
use aya::maps::{Map, MapError};
use aya::programs::{ProgramFd, TestRun, TestRunOptions, Xdp};

use crate::steering::{Context, SteeringError, Verdict, chain};

/// What a run over one frame came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// What becomes of the frame.
    pub verdict: Verdict,
    /// The frame as the program left it, as far as there was room for it.
    pub frame: Vec<u8>,
    /// Nanoseconds of one run, when it was repeated.
    pub nanoseconds: u64,
}

/// Has the kernel take the XDP program of this name.
///
/// # Errors
/// [`SteeringError::Object`] if there is none; [`SteeringError::NotPermitted`] without CAP_BPF, CAP_PERFMON and
/// CAP_NET_ADMIN; [`SteeringError::Load`] if the kernel does not take it.
pub fn load_program(object: &mut Ebpf, name: &'static str) -> Result<(), SteeringError> {
    let program: &mut Xdp = object
        .program_mut(name)
        .ok_or(SteeringError::Object(name))?
        .try_into()
        .map_err(|error| load_error(&error))?;
    program.load().map_err(|error| load_error(&error))
}

/// The descriptor of the XDP program of this name, for who attaches or calls it.
///
/// # Errors
/// [`SteeringError::Object`] if there is none; [`SteeringError::Load`] if it was not
/// [loaded](load_program).
pub fn fd_of<'a>(object: &'a Ebpf, name: &'static str) -> Result<&'a ProgramFd, SteeringError> {
    let program = xdp_of(object, name)?;
    program.fd().map_err(|error| load_error(&error))
}

/// Takes a map out of an object.
///
/// # Errors
/// [`SteeringError::Object`] if there is none of this name; [`SteeringError::Map`] if it is of another kind.
pub fn take_map<T>(
    object: &mut Ebpf,
    name: &'static str,
    convert: impl FnOnce(Map) -> Result<T, MapError>,
) -> Result<T, SteeringError> {
    let map = object.take_map(name).ok_or(SteeringError::Object(name))?;
    Ok(convert(map)?)
}

/// Runs the XDP program of this name `times` times over copies of one frame, as if each had arrived on `queue` of
/// the interface with this index, of the caller's namespace. The frames go nowhere; one comes back, if `room`,
/// in bytes, is not zero.
///
/// # Errors
/// [`SteeringError::TestRun`]: the kernel refuses frames shorter than an Ethernet header, queues that the
/// interface does not have, and too little room.
pub fn test_run(
    object: &Ebpf,
    name: &'static str,
    frame: &[u8],
    (interface, queue): (u32, u32),
    times: u32,
    room: usize,
) -> Result<Run, SteeringError> {
    let context = Context::new(frame.len(), interface, queue);
    let mut out = vec![0; room];
    let result = xdp_of(object, name)?
        .test_run(TestRunOptions {
            data_in: Some(frame),
            data_out: (room > 0).then_some(&mut out),
            ctx_in: Some(context.as_bytes()),
            repeat: times,
            ..TestRunOptions::default()
        })
        .map_err(|error| SteeringError::TestRun(chain(&error)))?;
    out.truncate(result.data_size_out as usize);
    let verdict = Verdict::from_action(result.return_value)
        .ok_or_else(|| SteeringError::TestRun(format!("verdict {}", result.return_value)))?;
    Ok(Run {
        verdict,
        frame: out,
        nanoseconds: result.duration.as_nanos() as u64,
    })
}

/// From an error of the loader, which hides the interesting part at the end of a chain.
pub fn load_error(error: &(dyn Error + 'static)) -> SteeringError {
    let mut cause = Some(error);
    while let Some(current) = cause {
        let errno = current
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        if errno == Some(libc::EPERM) || errno == Some(libc::EACCES) && !is_root() {
            return SteeringError::NotPermitted;
        }
        cause = current.source();
    }
    SteeringError::Load(chain(error))
}

/// EACCES is also what the verifier says.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn xdp_of<'a>(object: &'a Ebpf, name: &'static str) -> Result<&'a Xdp, SteeringError> {
    object
        .program(name)
        .ok_or(SteeringError::Object(name))?
        .try_into()
        .map_err(|error| load_error(&error))
}
