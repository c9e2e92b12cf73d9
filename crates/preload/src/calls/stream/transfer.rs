//! Reading and writing.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use host::{Handed, PendingError, Readiness, RegisteredFile};
use libc::off_t;
use rustix::io::Errno;

use super::StreamRef;
use crate::calls::connect;
use crate::engine::{forks, session, wait};
use crate::kernel::buffers::{MOST, Parts, PartsMut};
use crate::kernel::deadline::{Deadline, Patience};
use crate::kernel::raw::{result, sys};
use crate::thread::signals;

/// How often a peek that waits for many bytes looks how many there are: what is peeked at stays, so
/// readiness does not tell of more.
const PEEK_LOOK: Duration = Duration::from_millis(1);

impl StreamRef {
    /// recv into one buffer.
    ///
    /// # Safety
    /// `length` bytes at `buffer` are writable, or `buffer` is null.
    pub unsafe fn receive_into(
        &self,
        buffer: *mut c_void,
        length: usize,
        flags: c_int,
    ) -> Result<usize, Errno> {
        if is_thrown_away(flags) {
            // The buffer may be anything.
            return self.throw_away(length, flags, Earlier::Nothing);
        }
        if buffer.is_null() && length != 0 {
            return Err(Errno::FAULT);
        }
        // SAFETY: as the caller promises.
        self.receive(&mut unsafe { PartsMut::one(buffer, length) }, flags)
    }

    /// send from one buffer.
    ///
    /// # Safety
    /// `length` bytes at `buffer` are readable, or `buffer` is null.
    pub unsafe fn send_from(
        &self,
        buffer: *const c_void,
        length: usize,
        flags: c_int,
    ) -> Result<usize, Errno> {
        if buffer.is_null() && length != 0 {
            return Err(Errno::FAULT);
        }
        // SAFETY: as the caller promises.
        self.send(&unsafe { Parts::one(buffer, length) }, flags)
    }

    /// recv in all its forms.
    pub fn receive(&self, parts: &mut PartsMut<'_>, flags: c_int) -> Result<usize, Errno> {
        self.receive_after(parts, flags, Earlier::Nothing)
    }

    /// As [`receive`](Self::receive), for a call that does so repeatedly.
    pub fn receive_after(
        &self,
        parts: &mut PartsMut<'_>,
        flags: c_int,
        earlier: Earlier,
    ) -> Result<usize, Errno> {
        let total = parts.total();
        if is_thrown_away(flags) {
            return self.throw_away(total, flags, earlier);
        }
        let mut slices = parts.slices();
        let mut taken = 0;
        let peek = flags & libc::MSG_PEEK != 0;
        self.receive_with(flags, total, earlier, |read, pending| {
            if total == 0 {
                return self.take_nothing(pending);
            }
            if peek {
                return self.socket.peekv(slices, pending);
            }
            IoSliceMut::advance_slices(&mut slices, read - taken);
            taken = read;
            self.socket.recvv(slices, pending)
        })
    }

    /// As [`receive_after`](Self::receive_after), by way of `memory`, what `take` takes: see
    /// [`recv_through`](host::Socket::recv_through).
    pub(super) fn receive_through(
        &self,
        memory: &mut [u8],
        flags: c_int,
        earlier: Earlier,
        mut take: impl FnMut(&[u8], Handed) -> Option<usize>,
    ) -> Result<usize, Errno> {
        let total = memory.len();
        self.receive_with(flags, total, earlier, |_, pending| {
            self.socket.recv_through(memory, pending, &mut take)
        })
    }

    /// recv of what nobody wants to see.
    fn throw_away(&self, total: usize, flags: c_int, earlier: Earlier) -> Result<usize, Errno> {
        self.receive_with(flags, total, earlier, |thrown, pending| {
            match total - thrown {
                0 => self.take_nothing(pending),
                left => self.socket.discard(left, pending),
            }
        })
    }

    /// What waits for data is satisfied by its presence, and takes none of it.
    fn take_nothing(&self, pending: PendingError) -> Result<usize, Errno> {
        let mut byte = [0];
        let present = self
            .socket
            .peekv(&mut [IoSliceMut::new(&mut byte)], pending);
        present.map(|_| 0)
    }

    /// The waiting around `step`, which is told how much was read before it, and what it is to do with an
    /// error: a call that returns bytes leaves it to the next.
    fn receive_with(
        &self,
        flags: c_int,
        total: usize,
        earlier: Earlier,
        mut step: impl FnMut(usize, PendingError) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        if flags & libc::MSG_OOB != 0 {
            // Urgent data is received as ordinary data: there is never any apart.
            self.unsupported("receiving urgent data");
            return Err(Errno::INVAL);
        }
        if flags & libc::MSG_ERRQUEUE != 0 {
            return self.drop_notice();
        }
        let at_once = self.returns_at_once(flags);
        let wait_for_all = flags & libc::MSG_WAITALL != 0 && !at_once;
        let peek = flags & libc::MSG_PEEK != 0;
        let mut deadline = Lazy::new(&self.receive_timeout);
        let low = self.socket.readable_from();
        if peek && wait_for_all {
            self.wait_for_bytes(total as u64, deadline.get())?;
        } else if low > 1 && !at_once {
            self.wait_for_bytes(low.min(total as u64), deadline.get())?;
        }
        let mut read = 0;
        loop {
            match step(read, earlier.pending_error(read)) {
                Ok(0) => return Ok(read),
                Ok(more) => {
                    read += more;
                    if !wait_for_all || peek || read >= total {
                        return Ok(read);
                    }
                }
                // Another process may have changed it, which was heard just now.
                Err(Errno::AGAIN) if !self.returns_at_once(flags) => {
                    if let Err(error) = self.wait_for_more(deadline.get()) {
                        return partial(read, error);
                    }
                }
                Err(error) => return partial(read, error),
            }
        }
    }

    /// Waits until anything waits to be read, or nothing will come.
    fn wait_for_more(&self, deadline: Deadline) -> Result<(), Errno> {
        let wanted = Readiness::IN | Readiness::RDHUP;
        if self.socket.readable_from() <= 1 {
            return self.wait(wanted, deadline);
        }
        // Readiness tells only of more than was asked for here.
        let over = wanted | Readiness::HUP | Readiness::ERR;
        while self.socket.available() == 0 && !self.socket.readiness().intersects(over) {
            if deadline.passed() {
                return Err(Errno::AGAIN);
            }
            wait::pause(PEEK_LOOK)?;
            session::pump();
        }
        Ok(())
    }

    /// Waits until so many bytes wait to be read, or no more will come.
    fn wait_for_bytes(&self, count: u64, deadline: Deadline) -> Result<(), Errno> {
        let over = Readiness::RDHUP | Readiness::HUP | Readiness::ERR;
        while self.socket.available() < count && !self.socket.readiness().intersects(over) {
            let waited = match self.socket.available() {
                0 => self.wait_for_more(deadline),
                _ if deadline.passed() => return Ok(()),
                _ => wait::pause(PEEK_LOOK),
            };
            match waited {
                Err(error) if self.socket.available() == 0 => return Err(error),
                Err(_) => return Ok(()),
                Ok(()) => session::pump(),
            }
        }
        Ok(())
    }

    /// send in all its forms.
    pub fn send(&self, parts: &Parts<'_>, flags: c_int) -> Result<usize, Errno> {
        if flags & libc::MSG_OOB != 0 {
            self.unsupported("urgent data");
            return Err(Errno::OPNOTSUPP);
        }
        let more = flags & libc::MSG_MORE != 0;
        let total = parts.total();
        // Almost always everything goes at once, and no list of what is left is needed.
        let mut rest: Option<Vec<IoSlice<'_>>> = None;
        let sent = self.write_out(total, flags, |sent| {
            if sent == 0 {
                return Ok(Step {
                    moved: self
                        .socket
                        .sendv(parts.slices(), more, PendingError::Take)?,
                    ended: false,
                });
            }
            let rest = rest.get_or_insert_with(|| parts.slices().to_vec());
            let mut slices = rest.as_mut_slice();
            let left: usize = slices.iter().map(|part| part.len()).sum();
            IoSlice::advance_slices(&mut slices, left - (total - sent));
            Ok(Step {
                moved: self.socket.sendv(slices, more, PendingError::Keep)?,
                ended: false,
            })
        });
        if flags & libc::MSG_ZEROCOPY != 0 && sent.is_ok_and(|sent| sent > 0) {
            self.zerocopy_sent();
        }
        signal_broken_pipe(sent, flags)
    }

    /// sendfile with a connection of ours as its target: the engine reads the file where that is worth it,
    /// otherwise its bytes are read straight into the send area. One that the program can write to is read
    /// now: programs send from files that they fill again as soon as the call is back.
    pub fn send_file(
        &self,
        file: c_int,
        offset: Option<&mut off_t>,
        count: usize,
    ) -> Result<usize, Errno> {
        // SAFETY: asks for the flags.
        let mode = result(unsafe { sys!(libc::SYS_fcntl, file, libc::F_GETFL) })? as c_int;
        if mode & libc::O_ACCMODE == libc::O_WRONLY {
            return Err(Errno::BADF);
        }
        let start = match &offset {
            Some(offset) => **offset,
            // SAFETY: asks for the position.
            None => result(unsafe { sys!(libc::SYS_lseek, file, 0usize, libc::SEEK_CUR) })
                .map_err(no_file)? as off_t,
        };
        if start < 0 {
            return Err(Errno::INVAL);
        }
        // The kernel looks for something to send before it looks whether it may: an error goes on waiting.
        if self.socket.refuses_writes() && has_nothing_at(file, start) {
            return Ok(0);
        }
        let total = count.min(MOST);
        let shown = match mode & libc::O_ACCMODE {
            libc::O_RDONLY => self.worth_showing(file, total),
            _ => None,
        };
        // An error after a part is taken, and nobody is told: the kernel sends a file by one send after the
        // other, of which the last takes it. So it is where a pipe is spliced.
        let mut outcome = self.write_out(total, 0, |sent| {
            let mut position = start + sent as off_t;
            let mut ended = false;
            if let Some((shown, size)) = &shown {
                let left = size.saturating_sub(position as u64);
                let left = (total - sent).min(usize::try_from(left).unwrap_or(usize::MAX));
                if left == 0 {
                    return Ok(Step {
                        moved: 0,
                        ended: true,
                    });
                }
                let moved = self
                    .socket
                    .send_registered_file(shown, position as u64, left, false);
                // Of another engine by now, or not open yet: it is read here.
                if !matches!(moved, Err(Errno::STALE | Errno::OPNOTSUPP)) {
                    let moved = moved?;
                    let ended = position as u64 + moved as u64 >= *size;
                    return Ok(Step { moved, ended });
                }
            }
            let moved = self
                .socket
                .send_with(total - sent, false, |room: &[AtomicU8]| {
                    // SAFETY: the kernel writes within the room, which may be written to through a
                    // shared reference because it is made of atomics.
                    let read = result(unsafe {
                        sys!(libc::SYS_pread64, file, room.as_ptr(), room.len(), position)
                    })
                    .map_err(no_file)?;
                    ended |= read < room.len();
                    position += read as off_t;
                    Ok(read)
                })?;
            Ok(Step { moved, ended })
        });
        // The same where it has changed meanwhile.
        if outcome.is_err() && has_nothing_at(file, start) {
            outcome = Ok(0);
        }
        if let Ok(sent) = outcome {
            // Only what was really sent moves the position.
            let end = start + sent as off_t;
            if let Some(offset) = offset {
                *offset = end;
            } else {
                // SAFETY: sets the position that was read before.
                let set = unsafe { sys!(libc::SYS_lseek, file, end, libc::SEEK_SET) };
                outcome = result(set).map(|_| sent);
            }
        }
        signal_broken_pipe(outcome, 0)
    }

    /// A file of the program's, and its size, if the engine is to read `len` bytes of it.
    fn worth_showing(&self, file: c_int, len: usize) -> Option<(RegisteredFile, u64)> {
        // SAFETY: the program has just named it, and it was found open; whoever closes it meanwhile gets
        // another file sent, as from the kernel.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        self.socket.file_worth_showing(file, len)
    }

    /// Repeats `step`, which is told how much went before, until `total` bytes are written or it
    /// says that there are no more; a call that may not wait does it once.
    fn write_out(
        &self,
        total: usize,
        flags: c_int,
        mut step: impl FnMut(usize) -> Result<Step, Errno>,
    ) -> Result<usize, Errno> {
        if forks::happened() {
            // If another process has used the connection since, it is taken back first.
            session::pump();
        }
        let mut deadline = Lazy::new(&self.send_timeout);
        let mut sent = 0;
        let mut has_looked = false;
        let holds_syn = self.holds_syn();
        loop {
            match step(sent) {
                Ok(Step { moved, ended }) => {
                    sent += moved;
                    // The first write of one whose SYN waits for it lasts until the handshake is complete.
                    if holds_syn && self.opens_by(moved, total) {
                        match self.wait_for_handshake(flags) {
                            Err(Errno::INPROGRESS) => return partial(sent, Errno::INPROGRESS),
                            opened => opened?,
                        };
                    }
                    if ended || sent >= total {
                        return Ok(sent);
                    }
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return partial(sent, error),
            }
            if self.returns_at_once(flags) {
                if has_looked {
                    return partial(sent, Errno::AGAIN);
                }
                // Acknowledgements may have come that nobody has looked at, if the program tries again
                // and again without waiting.
                has_looked = true;
                session::pump();
                continue;
            }
            if let Err(error) = self.wait(Readiness::OUT, deadline.get()) {
                return partial(sent, error);
            }
        }
    }

    /// Whether the SYN waits for a write.
    fn holds_syn(&self) -> bool {
        if !self.fast_open.load(Ordering::Relaxed) {
            return false;
        }
        let holds = self.socket.holds_syn();
        if !holds {
            self.fast_open.store(false, Ordering::Relaxed);
        }
        holds
    }

    /// Whether a SYN that has waited leaves by this write, and no other has let it go: one of nothing sends
    /// it without data. A file that was at its end is no write.
    #[cold]
    fn opens_by(&self, moved: usize, total: usize) -> bool {
        let leaves = moved > 0 || (total == 0 && self.socket.let_syn_go());
        leaves && self.fast_open.swap(false, Ordering::Relaxed)
    }

    /// The SYN has left: as connect.
    #[cold]
    fn wait_for_handshake(&self, flags: c_int) -> Result<usize, Errno> {
        if self.returns_at_once(flags) {
            return Err(Errno::INPROGRESS);
        }
        connect::wait_until_open(self.held(), self)
    }
}

/// Whether what is received goes nowhere: a peek leaves it where it is.
fn is_thrown_away(flags: c_int) -> bool {
    flags & libc::MSG_TRUNC != 0 && flags & libc::MSG_PEEK == 0
}

/// Whether a call of the program has received anything before this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    Nothing,
    Something,
}

impl Earlier {
    /// What one that has received `read` since does with an error.
    fn pending_error(self, read: usize) -> PendingError {
        match self {
            Self::Nothing if read == 0 => PendingError::Take,
            Self::Nothing | Self::Something => PendingError::Keep,
        }
    }
}

/// What one attempt to write has done.
struct Step {
    moved: usize,
    /// There is no more to write.
    ended: bool,
}

/// A deadline whose clock is read only if the call really waits.
pub(super) struct Lazy<'a> {
    timeout: &'a AtomicU64,
    begun: Option<Deadline>,
}

impl<'a> Lazy<'a> {
    pub(super) fn new(timeout: &'a AtomicU64) -> Self {
        Self {
            timeout,
            begun: None,
        }
    }

    pub(super) fn get(&mut self) -> Deadline {
        *self.begun.get_or_insert_with(|| {
            Patience::socket_timeout(self.timeout.load(Ordering::Relaxed)).begin()
        })
    }
}

/// What was done before an error counts.
pub(super) fn partial(done: usize, error: Errno) -> Result<usize, Errno> {
    if done > 0 { Ok(done) } else { Err(error) }
}

/// Whether a file ends at that position or before it. Where the size tells, nothing is read: a read that
/// finds nothing in memory waits for the disk, and has the kernel read ahead.
fn has_nothing_at(file: c_int, position: off_t) -> bool {
    // SAFETY: the program has just named it; whoever closes it meanwhile is told of another file.
    let facts = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(file) });
    let is_within = |facts: rustix::fs::Stat| {
        rustix::fs::FileType::from_raw_mode(facts.st_mode).is_file() && position < facts.st_size
    };
    if facts.is_ok_and(is_within) {
        return false;
    }
    // It ends before that, or is one whose size says nothing, as those of /proc.
    let mut byte = 0u8;
    // SAFETY: reads one byte into a variable.
    let read = unsafe { sys!(libc::SYS_pread64, file, &raw mut byte, 1usize, position) };
    result(read) == Ok(0)
}

/// What cannot be read at a position is nothing to send from.
fn no_file(error: Errno) -> Errno {
    if error == Errno::SPIPE {
        Errno::INVAL
    } else {
        error
    }
}

/// Writing where nobody reads raises SIGPIPE, unless the program would rather not.
pub(super) fn signal_broken_pipe(sent: Result<usize, Errno>, flags: c_int) -> Result<usize, Errno> {
    if sent == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        signals::raise_broken_pipe();
    }
    sent
}
