//! What a send is made of: bytes of the program's own, or such as others may write meanwhile.

use std::io::IoSlice;
use std::sync::atomic::AtomicU8;

/// Some bytes.
pub(super) trait AsBytes {
    fn count(&self) -> usize;

    /// Copies them to the end of `to`.
    fn copy_to(&self, to: &mut Vec<u8>);
}

impl AsBytes for IoSlice<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn copy_to(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }
}

impl AsBytes for &[AtomicU8] {
    fn count(&self) -> usize {
        self.len()
    }

    fn copy_to(&self, to: &mut Vec<u8>) {
        let from = to.len();
        to.resize(from + self.len(), 0);
        queue_pair::copy_out(self, &mut to[from..]);
    }
}
