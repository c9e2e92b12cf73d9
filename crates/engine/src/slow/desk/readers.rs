//! Who reads a file that a program names: the engine, into what leaves, or the program, which copies it. A policy
//! decides that by the file's size and the load that there is.
//!
//! A program shows a file anew ten seconds after that was decided, however it was: so nothing changes from one send to
//! the next, and a file that is sent from all the time follows the load, too.

use super::Desk;
use crate::slow::control::Governed;

/// How often it was which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Readers {
    /// The engine's, by a policy.
    pub engine: u64,
    /// The program's.
    pub program: u64,
}

/// Who reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The engine, if it can.
    Engine(Governed),
    /// The program reads this one, and all others of these sizes, the first and the last.
    Program { first: u64, last: u64 },
}

impl Desk {
    /// Who reads a file of so many bytes of a program about which a policy decides, or does not: it is of servers that
    /// are placed by it, and of nobody else.
    pub(super) fn let_read(&mut self, bytes: u64, is_governed: bool) -> Reader {
        if !is_governed {
            return Reader::Engine(Governed::No);
        }
        match self.placing.leaves(bytes) {
            // While nothing is known the engine reads what it can.
            None => Reader::Engine(Governed::NotYet),
            Some((None, _)) => Reader::Engine(Governed::Yes),
            Some((Some((first, last)), load)) => {
                self.readers.program += 1;
                tracing::debug!(bytes, load, "a policy leaves a file to its program");
                Reader::Program { first, last }
            }
        }
    }

    /// The engine has a file of which that was decided.
    pub(super) fn is_read_by_engine(&mut self, governed: Governed) {
        if governed == Governed::Yes {
            self.readers.engine += 1;
        }
    }
}
