//! Accepting, and who is admitted.

use std::time::Instant;

use host::{Accepted, AdmissionPolicy, ConnectOptions, Errno};

use crate::admission::Admitted;
use crate::connection::{Connection, Life, Ticket};
use crate::context::Mode;
use crate::event::Handle;
use crate::kernel;
use crate::options::Setting;
use crate::queue::Queue;
use crate::stream::Stream;
use crate::view::View;

impl Queue {
    /// The next connection of a listener, with `cookie` for its events.
    ///
    /// # Errors
    /// `EBADF`: there is no such listener. `EAGAIN`: there is no connection. Otherwise the kernel's
    /// for accept.
    pub fn accept(&mut self, listener: Handle, cookie: u64) -> Result<Handle, Errno> {
        self.accept_with(listener, &[], cookie)
    }

    /// As [`accept`](Self::accept), with the connection's own `settings`, which come on top of what the
    /// listener has: set-up with accept.
    ///
    /// # Errors
    /// As for `accept`; `EINVAL`: a setting cannot be, and nothing was accepted.
    pub fn accept_with(
        &mut self,
        listener: Handle,
        settings: &[Setting],
        cookie: u64,
    ) -> Result<Handle, Errno> {
        // A connection that was taken out of the queue cannot be put back.
        let mut checked = ConnectOptions::default();
        for setting in settings {
            setting.on_engine(&mut checked)?;
        }
        let (stream, admitted) = self.next_admitted(listener)?;
        let mut connection = Connection::new(stream, Life::Open, cookie);
        connection.unit = self.listener(listener)?.unit;
        connection.admitted = admitted.map(Box::new);
        let handle = self.add(connection)?;
        for setting in settings {
            if let Err(errno) = self.set(handle, *setting) {
                let _ = self.close(handle);
                return Err(errno);
            }
        }
        Ok(handle)
    }

    /// As [`accept_with`](Self::accept_with), with a view of the first data, if that is here already.
    ///
    /// # Errors
    /// As for `accept_with`.
    pub fn accept_with_data(
        &mut self,
        listener: Handle,
        settings: &[Setting],
        limit: usize,
        cookie: u64,
    ) -> Result<(Handle, Option<View>), Errno> {
        let handle = self.accept_with(listener, settings, cookie)?;
        // Its end, or an error, is told where the program receives.
        let first = self.view(handle, limit.max(1)).ok().flatten();
        Ok((handle, first))
    }

    /// From now on `listener` admits whom `policy` says. The engine keeps to it before there is a
    /// connection: it refuses the SYN. What the kernel accepts, and everything while the engine speaks an
    /// earlier version, the library keeps to: it resets what is too much when the program accepts. What was
    /// accepted here of the engine's counts for that, too; the engine knows nothing of what the kernel accepts,
    /// so that of both together there can be more, by as many as are the kernel's. All
    /// processes that accept there share the engine's; the last word counts. What is connected already
    /// does not count. A policy without limits is none.
    ///
    /// # Errors
    /// `EBADF`: there is no such listener. Otherwise the engine's.
    pub fn set_admission(
        &mut self,
        listener: Handle,
        policy: AdmissionPolicy,
    ) -> Result<(), Errno> {
        let listening = self.listener(listener)?;
        listening.listener.set_admission(policy)?;
        listening.gate.set(policy);
        Ok(())
    }

    /// Who was admitted and refused. It may ask the engine, which takes some microseconds.
    ///
    /// # Errors
    /// `EBADF`: there is no such listener. `ETIMEDOUT`: the engine has not answered for half a second.
    pub fn admitted(&mut self, listener: Handle) -> Result<Admitted, Errno> {
        let listening = self.listener(listener)?;
        let mut admitted = listening.gate.counts;
        let by_engine = listening.listener.admission_counts()?;
        admitted.by_engine = listening.listener.keeps_admission();
        if let Some(counts) = by_engine {
            admitted.accepts += counts.accepts;
            admitted.in_flight += counts.in_flight;
            admitted.refused_by_rate += counts.refused_by_rate;
            admitted.refused_by_count += counts.refused_by_count;
            admitted.refused_by_prefix += counts.refused_by_prefix;
        }
        Ok(admitted)
    }

    /// The next connection that is admitted; those that are not are reset, and so is what the kernel accepted
    /// for a program that wants the engine alone.
    fn next_admitted(&mut self, handle: Handle) -> Result<(Stream, Option<Ticket>), Errno> {
        let (context, listening) = self.listener_in_context(handle)?;
        loop {
            let mut stream = match listening.listener.accept()? {
                Accepted::Offloaded(socket) => Stream::Engine(socket),
                Accepted::Kernel(fd) => {
                    let mut stream = kernel::Stream::new(fd);
                    let why_not = context.why_not_listening(&listening.listener);
                    stream.is_left = why_not.is_none();
                    stream.why_not = why_not;
                    Stream::Kernel(Box::new(stream))
                }
            };
            let of_kernel = matches!(stream, Stream::Kernel(_));
            let is_refused = of_kernel && context.mode == Mode::Engine;
            let counted = !of_kernel && listening.listener.counts_admission();
            if counted && listening.gate.is_open() {
                return Ok((stream, None));
            }
            let Ok(peer) = stream.peer() else {
                // It is over already.
                continue;
            };
            let from = peer.ip();
            let by_engine = counted && listening.listener.keeps_admission();
            let is_admitted = match by_engine {
                // What comes by the kernel as well counts beside it.
                true => {
                    listening.gate.begins(Instant::now(), from);
                    true
                }
                false => !is_refused && listening.gate.admits(Instant::now(), from),
            };
            if is_admitted {
                let ticket = Ticket {
                    listener: handle,
                    number: listening.gate.number,
                    from,
                    by_engine,
                };
                return Ok((stream, Some(ticket).filter(|_| !listening.gate.is_open())));
            }
            // It ends at once, with nothing left behind.
            let _ = stream.set(Setting::ResetOnClose(true));
        }
    }
}
