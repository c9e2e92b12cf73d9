//! What is done at the end of a scope, also of one that a failed assertion leaves.

/// Calls it when it is dropped.
pub struct OnDrop<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
