//! Where an attachment is in its life.

/// The attachment works.
pub(super) const LIVE: u8 = 0;
/// The engine broke the protocol or is gone; the next pump ends the attachment.
pub(super) const CONDEMNED: u8 = 1;
/// It is over.
pub(super) const ENDED: u8 = 2;
/// This process is a fork's child, and the attachment its parent's: the region is not mapped here.
pub(super) const PARENTS: u8 = 3;
