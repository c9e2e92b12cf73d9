//! Programs that the steering calls: the responder's, for its endpoints, and one of the user's for what is nobody's.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Map, MapData, MapError};

use super::layout::{Action, Endpoint, Share, Treatment};
use super::{Steering, SteeringError, attach};

/// The array of programs, which is only ever reached by its descriptor: what is put into it can
/// come from another process.
pub(super) fn of_map(map: Map) -> Result<MapData, MapError> {
    match map {
        Map::ProgramArray(data) => Ok(data),
        _ => Err(MapError::InvalidMapType { map_type: 0 }),
    }
}

impl Steering {
    /// Calls a program (by its descriptor) for the responder's endpoints, instead of the one that
    /// was called before. The program lives as long as it can be called.
    ///
    /// # Errors
    /// [`SteeringError::Call`]: it is no program, or of another kind.
    pub fn call_responder(&mut self, program: BorrowedFd<'_>) -> Result<(), SteeringError> {
        attach::set_program(self.responders.fd().as_fd(), Some(program))
            .map_err(SteeringError::Call)
    }

    /// Calls no program any more. What arrives at the responder's endpoints is the kernel's.
    ///
    /// # Errors
    /// [`SteeringError::Call`].
    pub fn leave_responder(&mut self) -> Result<(), SteeringError> {
        attach::set_program(self.responders.fd().as_fd(), None).map_err(SteeringError::Call)
    }

    /// Gives an endpoint to the responder. It is taken back by
    /// [`remove_port`](Self::remove_port).
    ///
    /// # Errors
    /// [`SteeringError::Steered`] if it is the engine's, or the responder's already;
    /// [`SteeringError::Full`] at [`MAX_ENDPOINTS`](super::MAX_ENDPOINTS); [`SteeringError::Map`].
    pub fn add_responder_port(&mut self, endpoint: Endpoint) -> Result<(), SteeringError> {
        if self.present.contains(endpoint) {
            return Err(SteeringError::Steered(endpoint));
        }
        let number = self.present.number(endpoint).ok_or(SteeringError::Full)?;
        let treatment = Treatment::new(Action::Responder, Share::All, 0).noted_at(number);
        self.endpoints.insert(endpoint.key(), treatment, 0)?;
        self.present.insert(endpoint, number);
        Ok(())
    }

    /// Calls a program of the user's (by its descriptor) for frames that neither engine nor responder has to do
    /// with, instead of the one that was called before, or none any more. It lives as long as it can be called.
    ///
    /// # Errors
    /// [`SteeringError::Call`]: it is no XDP program for frames in several buffers.
    pub fn divert(&mut self, program: Option<BorrowedFd<'_>>) -> Result<(), SteeringError> {
        attach::set_program(self.diverters.fd().as_fd(), program).map_err(SteeringError::Call)
    }
}
