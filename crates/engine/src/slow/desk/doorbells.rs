//! The engine's ends of doorbells. From Linux 6.16 on nobody can send descriptors to them; before, what was sent is
//! left to who has time to close it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use netdev::syscalls::refuse_rights;
use queue_pair::doorbell::{self, Bell, Ringer};
use rustix::io::Errno;

use crate::fast::session::Session;

/// A doorbell that the engine hears, and the end that its host rings.
pub(super) fn heard() -> io::Result<(Ringer, Bell)> {
    let (ringer, mut bell) = doorbell::pair()?;
    if refuses_rights(&bell)? {
        bell.expect_no_rights();
    }
    Ok((ringer, bell))
}

/// A doorbell that the engine rings, and the end that its host hears.
pub(super) fn rung() -> io::Result<(Ringer, Bell)> {
    let (ringer, bell) = doorbell::pair()?;
    refuses_rights(&ringer)?;
    Ok((ringer, bell))
}

/// Has the kernel refuse descriptors to whoever sends them there; whether it can, which it can for all or none.
fn refuses_rights(end: impl AsFd) -> io::Result<bool> {
    match refuse_rights(end) {
        Ok(()) => Ok(true),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOPROTOOPT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Of a session that is over, the ends on which its program can have sent what nobody has read.
pub(super) fn unread_of(session: Session) -> Vec<OwnedFd> {
    let Session { bell, wakers, .. } = session;
    if bell.refuses_rights() {
        return Vec::new();
    }
    let wakers = wakers.into_iter().map(OwnedFd::from);
    std::iter::once(bell.into()).chain(wakers).collect()
}
