//! Programs of the user's for the steering's slot ([`Steering::divert`](crate::Steering::divert)): they pass, drop
//! or answer in place what is neither the engine's nor the responder's. docs/divert.md says how to write one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use aya::maps::{Map, MapData, PerCpuArray};
use aya::programs::{Program, loaded_programs};
use aya::{Ebpf, EbpfError};

use crate::programs::load_error;
use crate::steering::SteeringError;

/// The map in which a program counts what it decided.
const VERDICTS: &str = "verdicts";

/// A program that the kernel has taken.
#[derive(Debug)]
pub struct Diverter {
    /// Its name.
    pub name: String,
    /// Its number in the kernel.
    pub id: u32,
    /// It lives as long as somebody has this, or can call it.
    pub program: OwnedFd,
}

/// What a program decided so far, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// To nobody: by a mistake of the program's.
    pub aborted: u64,
    /// To nobody.
    pub dropped: u64,
    /// To the kernel.
    pub passed: u64,
    /// Answered in place.
    pub answered: u64,
    /// Elsewhere.
    pub redirected: u64,
}

/// Why a program cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiverterError {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    File(io::Error),
    /// It is no object.
    #[error("it is no object of clang's (clang -O2 -g --target=bpf -c FILE.c): {0}")]
    NoObject(String),
    /// The kernel does not take it.
    #[error("the kernel does not take it: {0}")]
    Refused(String),
    /// Not allowed.
    #[error(transparent)]
    NotPermitted(SteeringError),
    /// There is none, or no such, or there are several.
    #[error("it has {0}; name one program of section \"xdp.frags\" by --program")]
    Which(String),
}

impl Diverter {
    /// Loads the program called `name` of an object that clang made, or the only one in it.
    ///
    /// # Errors
    /// [`DiverterError`].
    pub fn load(path: &Path, name: Option<&str>) -> Result<Self, DiverterError> {
        let bytes = std::fs::read(path).map_err(DiverterError::File)?;
        let mut object = Ebpf::load(&bytes).map_err(|error| match error {
            EbpfError::ParseError(_) => DiverterError::NoObject(crate::steering::chain(&error)),
            error => refused(&error),
        })?;
        let programs = object.programs();
        let xdp = programs.filter(|(_, program)| matches!(program, Program::Xdp(_)));
        let names: Vec<String> = xdp.map(|(name, _)| name.to_owned()).collect();
        let wanted = match (name, names.as_slice()) {
            (Some(name), names) => names.iter().find(|known| *known == name),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some(wanted) = wanted else {
            let said = match names.as_slice() {
                [] => "no XDP program".to_owned(),
                names => format!("the XDP programs {}", names.join(", ")),
            };
            return Err(DiverterError::Which(said));
        };
        let Some(Program::Xdp(program)) = object.program_mut(wanted) else {
            return Err(DiverterError::Which("no XDP program".to_owned()));
        };
        program.load().map_err(|error| refused(&error))?;
        let info = program.info().map_err(|error| refused(&error))?;
        let fd = program.fd().map_err(|error| refused(&error))?;
        let program = fd.as_fd().try_clone_to_owned();
        Ok(Self {
            name: wanted.clone(),
            id: info.id(),
            program: program.map_err(|error| DiverterError::Refused(error.to_string()))?,
        })
    }
}

fn refused(error: &(dyn std::error::Error + 'static)) -> DiverterError {
    match load_error(error) {
        SteeringError::NotPermitted => DiverterError::NotPermitted(SteeringError::NotPermitted),
        _ => DiverterError::Refused(crate::steering::chain(error)),
    }
}

/// What the program of this number has counted in its map `verdicts`, if it is there and has one.
pub fn verdicts(id: u32) -> Option<Verdicts> {
    let program = loaded_programs().flatten().find(|info| info.id() == id)?;
    let maps = program.map_ids().ok()??;
    let data = maps.into_iter().filter_map(|id| MapData::from_id(id).ok());
    let named = |data: &MapData| {
        let info = data.info();
        info.is_ok_and(|info| info.name_as_str() == Some(VERDICTS))
    };
    let map = Map::from_map_data(data.into_iter().find(named)?).ok()?;
    let counts = PerCpuArray::<MapData, u64>::try_from(map).ok()?;
    let of = |action: u32| counts.get(&action, 0).map_or(0, |each| each.iter().sum());
    Some(Verdicts {
        aborted: of(0),
        dropped: of(1),
        passed: of(2),
        answered: of(3),
        redirected: of(4),
    })
}
