//! What an attachment tells a socket, as it asks it of a connection in its tables. Who is called stands where it
//! belongs by what it does.

use std::net::SocketAddr;
use std::sync::Arc;

use queue_pair::control::Carried;
use queue_pair::{ConnRef, Violation};
use rustix::io::Errno;

use super::{Attachment, SocketCore};
use crate::attachment::Connection;
use crate::nudge::Nudges;

impl Connection<Attachment> for SocketCore {
    #[inline]
    fn accepted(
        nudges: &Arc<Nudges>,
        attachment: &Arc<Attachment>,
        offer: (ConnRef, u16),
        ends: [SocketAddr; 2],
    ) -> Arc<Self> {
        Self::accepted(nudges, attachment, offer, ends)
    }

    #[inline]
    fn claimed(
        nudges: &Arc<Nudges>,
        attachment: &Arc<Attachment>,
        conn: ConnRef,
        ends: [SocketAddr; 2],
        carried: &Carried,
    ) -> Arc<Self> {
        Self::claimed(nudges, attachment, conn, ends, carried)
    }

    #[inline]
    fn share_handle(&self) -> bool {
        Self::share_handle(self)
    }

    #[inline]
    fn updated(
        self: &Arc<Self>,
        attachment: &Attachment,
        data: (u64, u32),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation> {
        Self::updated(self, attachment, data, acked, peer_closed)
    }

    #[inline]
    fn placed(
        self: &Arc<Self>,
        attachment: &Attachment,
        data: (u64, u32),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation> {
        Self::placed(self, attachment, data, acked, peer_closed)
    }

    #[inline]
    fn ended(&self, attachment: &Attachment, errno: Option<Errno>) {
        Self::ended(self, attachment, errno);
    }

    #[inline]
    fn released(&self, attachment: &Attachment) -> bool {
        Self::released(self, attachment)
    }

    #[inline]
    fn granted(
        &self,
        attachment: &Attachment,
        grant: u16,
        consumed: u64,
        alone_since: Option<u32>,
    ) {
        Self::granted(self, attachment, grant, consumed, alone_since);
    }

    #[inline]
    fn not_granted(&self, errno: Errno) {
        Self::not_granted(self, errno);
    }

    #[inline]
    fn read_elsewhere(
        &self,
        attachment: &Attachment,
        data: (u64, u64),
        acked: u64,
        peer_closed: bool,
    ) -> Result<(), Violation> {
        Self::read_elsewhere(self, attachment, data, acked, peer_closed)
    }

    #[inline]
    fn shut_elsewhere(&self) {
        Self::shut_elsewhere(self);
    }

    #[inline]
    fn read_shut_elsewhere(&self) {
        Self::read_shut_elsewhere(self);
    }

    #[inline]
    fn set_nonblocking(&self, on: bool) {
        self.mode.say(on);
    }

    #[inline]
    fn error_taken(&self, yours: bool) {
        Self::error_taken(self, yours);
    }

    #[inline]
    fn advised(&self, bytes: u32) {
        Self::advised(self, bytes);
    }

    #[inline]
    fn departed(&self, total: u64) -> Result<(), Violation> {
        Self::departed(self, total)
    }

    #[inline]
    fn is_opening(&self) -> bool {
        Self::is_opening(self)
    }

    #[inline]
    fn opens_from(&self, local: SocketAddr) {
        Self::opens_from(self, local);
    }

    #[inline]
    fn opened(
        &self,
        attachment: &Arc<Attachment>,
        conn: ConnRef,
        grant: Option<u16>,
        local: SocketAddr,
    ) {
        Self::opened(self, attachment, conn, grant, local);
    }

    #[inline]
    fn syn_leaves(&self) {
        Self::syn_leaves(self);
    }

    #[inline]
    fn syn_waits(&self, attachment: &Arc<Attachment>, conn: ConnRef, room: u16) {
        Self::syn_waits(self, attachment, conn, room);
    }

    #[inline]
    fn inherit(&self, attachment: &Arc<Attachment>, conn: Option<ConnRef>) -> bool {
        Self::inherit(self, attachment, conn)
    }

    #[inline]
    fn disinherited(&self) {
        Self::disinherited(self);
    }

    #[inline]
    fn announce_consumption(&self) {
        Self::announce_consumption(self);
    }

    #[inline]
    fn fed(&self) {
        Self::fed(self);
    }

    #[inline]
    fn may_ask_again(&self) {
        Self::may_ask_again(self);
    }
}
