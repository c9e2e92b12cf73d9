//! What the program remembers of the endpoints: the one of the responder's that it found last.

use aya::maps::{Array, MapData};

use super::SteeringError;

/// `struct hint`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    generation: u64,
    found: u64,
}

// SAFETY: integers only, without padding.
unsafe impl aya::Pod for Value {}

/// The program's memory of one endpoint.
pub(super) struct Hint {
    map: Array<MapData, Value>,
    generation: u64,
}

impl Hint {
    pub fn new(map: Array<MapData, Value>) -> Result<Self, SteeringError> {
        let mut hint = Self { map, generation: 0 };
        hint.forget()?;
        Ok(hint)
    }

    /// Has the program look again, after the endpoints were changed. What it is about to remember
    /// from before is of another generation, and counts for nothing.
    pub fn forget(&mut self) -> Result<(), SteeringError> {
        self.generation += 1;
        let value = Value {
            generation: self.generation,
            found: 0,
        };
        Ok(self.map.set(0, value, 0)?)
    }
}
