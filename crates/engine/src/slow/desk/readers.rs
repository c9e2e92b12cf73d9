//! Who reads a file that a program names: the engine, into what leaves, or the program, which copies it. A policy
//! decides that by the file's size and the load that there is.
//!
//! What the engine has taken it reads until the program lets go of it, some seconds after it was last sent from; a
//! program that was told to read a file itself asks again after ten. So nothing changes from one send to the next, and
//! nothing at all for a file that is sent from all the time.

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
    /// Refuses a file of so many bytes that the policy leaves to its program, which listens there.
    pub(super) fn let_read(
        &mut self,
        bytes: u64,
        listens: &[(u32, SocketAddr)],
    ) -> Result<(), Refusal> {
        // The policy is of servers that are placed by it, and of nobody else.
        if !listens
            .iter()
            .any(|(_, local)| self.placing.governs(*local))
        {
            return Ok(());
        }
        match self.placing.leaves(bytes) {
            // Without a policy, and while nothing is known, the engine reads what it can.
            None => Ok(()),
            Some((false, _)) => {
                self.readers.engine += 1;
                Ok(())
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
