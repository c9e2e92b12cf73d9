//! What ends the engine when one of its threads panics.

/// To be held by a thread without which the others keep what they have from the kernel for nothing.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
