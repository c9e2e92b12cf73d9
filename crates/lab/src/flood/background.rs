//! A sender in a thread of this process, until it is stopped or dropped.

use super::Report;
use anyhow::{Context, Result, anyhow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The thread.
#[derive(Debug)]
pub(super) struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Report>>>,
}

impl Background {
    /// Begins to `send` until what it is given becomes true, or it has sent all.
    ///
    /// # Errors
    /// There are no more threads.
    pub fn start(
        name: &str,
        send: impl FnOnce(&AtomicBool) -> Result<Report> + Send + 'static,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn({
            let stop = Arc::clone(&stop);
            move || send(&stop)
        })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it, and says what it came to.
    ///
    /// # Errors
    /// It had failed.
    pub fn stop(&mut self) -> Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits until it has sent all, and says what it came to.
    ///
    /// # Errors
    /// It has failed.
    pub fn join(&mut self) -> Result<Report> {
        let thread = self.thread.take().context("stopped before")?;
        thread.join().map_err(|_| anyhow!("the flood panicked"))?
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Nobody asks for its report.
            let _ = self.stop();
        }
    }
}
