//! The addresses of a connection: getsockname and getpeername.

use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use super::StreamRef;
use crate::calls::connect::ANSWER_WITHIN;
use crate::engine::session;
use crate::kernel::address::write_address;

impl StreamRef {
    /// getsockname. While it is being opened the engine is asked, which answers as soon as it runs.
    ///
    /// # Safety
    /// `address` and `length` are the program's buffer and its length.
    pub unsafe fn local_name(
        &self,
        address: *mut sockaddr,
        length: *mut socklen_t,
    ) -> Result<(), Errno> {
        let local = self.socket.await_local(ANSWER_WITHIN);
        // SAFETY: as the caller promises.
        unsafe { write_address(local, self.family(), address, length) }
    }

    /// getpeername.
    ///
    /// # Safety
    /// `address` and `length` are the program's buffer and its length.
    pub unsafe fn peer_name(
        &self,
        address: *mut sockaddr,
        length: *mut socklen_t,
    ) -> Result<(), Errno> {
        // The engine may have said that the connection is over. For its name alone the child of a fork does
        // not attach.
        if session::current().is_some_and(|session| !session.is_heir()) {
            session::pump();
        }
        if !self.socket.is_connected() {
            return Err(Errno::NOTCONN);
        }
        // SAFETY: as the caller promises.
        unsafe { write_address(self.socket.peer(), self.family(), address, length) }
    }
}
