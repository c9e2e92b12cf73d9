//! Who reads a file that a program names: the engine, into what leaves, or the program, which copies it. A policy
//! decides that by the file's size and the load that there is.
//!
//! A program shows a file anew ten seconds after that was decided, however it was: so nothing changes from one send to
//! the next, and a file that is sent from all the time follows the load, too.

use std::net::SocketAddr;

use rustix::io::Errno;

use super::Desk;
use super::requests::Refusal;

/// How often it was which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Readers {
    /// The engine's, by a policy.
    pub engine: u64,
    /// The program's.
    pub program: u64,
}

impl Desk {
    /// Refuses a file of so many bytes that the policy leaves to its program, which listens there. True: it is the
    /// policy's to decide about, now and again in some seconds.
    pub(super) fn let_read(
        &mut self,
        bytes: u64,
        listens: &[(u32, SocketAddr)],
    ) -> Result<bool, Refusal> {
        // The policy is of servers that are placed by it, and of nobody else.
        if !listens
            .iter()
            .any(|(_, local)| self.placing.governs(*local))
        {
            return Ok(false);
        }
        match self.placing.leaves(bytes) {
            // Without a policy, and while nothing is known, the engine reads what it can.
            None => Ok(true),
            Some((false, _)) => {
                self.readers.engine += 1;
                Ok(true)
            }
            Some((true, load)) => {
                self.readers.program += 1;
                let message = format!(
                    "the policy leaves files of {bytes} bytes to the program while {load:.0} requests a \
                     second come"
                );
                Err((Errno::AGAIN, message))
            }
        }
    }
}
