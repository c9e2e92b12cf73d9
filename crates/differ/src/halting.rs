//! An engine that stands still.
//!
//! Before each step that follows it is stopped. If the step comes to the same as on the kernel all the same, it stays so;
//! otherwise it runs, and is to come to the same then.

use crate::program::{Engine, Step};
use anyhow::Result;
use lab::Process;
use rustix::process::Signal;

/// See the [module](self).
pub struct Halting<'a> {
    engine: Option<&'a Process>,
    /// It is to stand still.
    is_wanted: bool,
    stands: bool,
}

impl<'a> Halting<'a> {
    /// Of an engine that runs, if there is one.
    pub fn of(engine: Option<&'a Process>) -> Self {
        Self {
            engine,
            is_wanted: false,
            stands: false,
        }
    }

    /// A step is about to begin; none: the program is over.
    pub fn begin(&mut self, step: Option<&Step>) -> Result<()> {
        match step {
            Some(Step::Engine(engine)) => self.is_wanted = *engine == Engine::Stop,
            Some(Step::Do(..) | Step::Peer(_) | Step::Signal(..)) if self.is_wanted => {
                return self.signal(true);
            }
            _ => {}
        }
        self.signal(false)
    }

    /// It stands still no longer, `if_so`. Whether it did.
    pub fn ends(&mut self, if_so: bool) -> Result<bool> {
        let stands = self.stands;
        if if_so {
            self.signal(false)?;
        }
        Ok(stands && if_so)
    }

    fn signal(&mut self, stands: bool) -> Result<()> {
        if let Some(engine) = self.engine
            && self.stands != stands
        {
            engine.signal(if stands { Signal::STOP } else { Signal::CONT })?;
            self.stands = stands;
        }
        Ok(())
    }
}

impl Drop for Halting<'_> {
    fn drop(&mut self) {
        // If it has ended, that is said by others.
        let _ = self.signal(false);
    }
}
