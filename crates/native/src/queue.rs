//! A queue: what a program has, and what has happened to it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use host::{ConnectError, ConnectOptions, Errno, Listener, Poller, Readiness, Shutdown};
use host::{Event as Ready, Source};
use rustix::event::EventfdFlags;
use rustix::fd::{BorrowedFd, OwnedFd};
use slotmap::{Key, KeyData, SlotMap};

use crate::admission::Gate;
use crate::awaiting::Awaiting;
use crate::connection::{Connection, Life};
use crate::context::{CHOSEN, Context, Mode};
use crate::event::{Event, Handle, Kind};
use crate::kernel;
use crate::memory::Wanted;
use crate::options::Setting;
use crate::sends::Back;
use crate::stream::{Facts, Stream};
use crate::together::Together;

/// What a connection's interest is: every change of anything.
const EVERYTHING: Readiness =
    Readiness(Readiness::IN.0 | Readiness::OUT.0 | Readiness::RDHUP.0 | Readiness::EDGE.0);

/// Bits of the kernel's that a program may wait for on a descriptor of its own.
const DESCRIPTORS: u32 =
    Readiness::IN.0 | Readiness::OUT.0 | Readiness::RDHUP.0 | 0x002 | Readiness::EDGE.0;

/// The next queue's number.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Connections, listeners and descriptors, and what has happened to them. Dropping it closes all of them; for
/// what was [committed](Self::commit) and the kernel has not taken it waits up to a second, and resets those
/// connections whose peers have not made room by then.
pub struct Queue {
    // Before the objects that it watches.
    poller: Poller,
    pub(crate) objects: SlotMap<Handle, Object>,
    /// Which made it.
    pub(crate) process: rustix::process::Pid,
    /// No other queue of this process has it: handles are numbers that others have, too.
    pub(crate) number: u64,
    context: Context,
    /// What has happened and was not taken yet.
    pub(crate) happened: VecDeque<Event>,
    /// What is ready, between two waits.
    ready: Vec<Ready>,
    wake: Arc<OwnedFd>,
    /// Connections with asynchronous sends under way of which nobody may tell when they come back.
    awaiting: Awaiting,
    /// Registered memory that is to be told of when it is free.
    pub(crate) wanted: Awaiting<Wanted>,
    pub(crate) together: Together,
}

pub(crate) enum Object {
    Connection(Box<Connection>),
    Listener(Box<Listening>),
    /// A duplicate of a descriptor of the program's.
    Descriptor {
        fd: OwnedFd,
        cookie: u64,
    },
    /// The queue's own [`Waker`].
    Waker,
}

/// A listener.
pub(crate) struct Listening {
    pub(crate) listener: Listener,
    cookie: u64,
    /// What posted buffers of its connections are told by, as [`Connection::unit`].
    pub(crate) unit: u32,
    /// Who may connect, where no engine sees to it.
    pub(crate) gate: Gate,
}

/// Ends a queue's wait, from any thread.
#[derive(Clone)]
pub struct Waker {
    wake: Arc<OwnedFd>,
}

impl Waker {
    /// The wait that goes on, or the next one, ends with [`Kind::Wake`].
    pub fn wake(&self) {
        // It fails when it is rung already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Context {
    /// A queue without anything in it.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: there are no more descriptors. With [`KernelSockets::IoUring`](crate::KernelSockets) also
    /// as for [`Context::with_kernel_sockets`].
    pub fn queue(&self) -> Result<Queue, Errno> {
        Queue::new(self)
    }
}

impl Queue {
    pub(crate) fn new(context: &Context) -> Result<Self, Errno> {
        let mut poller = Poller::new(&context.session)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags)?;
        let mut objects = SlotMap::with_key();
        let handle = objects.insert(Object::Waker);
        poller.add(Source::Kernel(wake.as_fd()), key(handle), Readiness::IN)?;
        Ok(Self {
            poller,
            objects,
            process: rustix::process::getpid(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            context: context.clone(),
            happened: VecDeque::new(),
            ready: Vec::new(),
            wake: Arc::new(wake),
            awaiting: Awaiting::new(Instant::now()),
            wanted: Awaiting::new(Instant::now()),
            together: Together::new(context.by)?,
        })
    }

    /// What ends a wait of this queue.
    pub fn waker(&self) -> Waker {
        Waker {
            wake: Arc::clone(&self.wake),
        }
    }

    /// Listens on `addr` with room for `backlog` connections that were not accepted. SO_REUSEADDR is
    /// set, as servers do. `cookie` comes with its events.
    ///
    /// # Errors
    /// The kernel's for bind and listen. The engine's, if the program wants the engine; otherwise the kernel alone
    /// serves what the engine refuses.
    pub fn listen(&mut self, addr: SocketAddr, backlog: u32, cookie: u64) -> Result<Handle, Errno> {
        let session = &self.context.session;
        let listener = match self.context.mode {
            Mode::Engine => session.listen_pinned(addr, backlog),
            Mode::Any | Mode::Kernel => session.listen_in_any_case(addr, backlog),
        }?;
        let listening = Box::new(Listening {
            listener,
            cookie,
            unit: 0,
            gate: Gate::default(),
        });
        let handle = self.objects.insert(Object::Listener(listening));
        let Some(Object::Listener(listening)) = self.objects.get(handle) else {
            return Err(Errno::BADF);
        };
        let wanted = Readiness(Readiness::IN.0 | Readiness::EDGE.0);
        let source = Source::Listener(&listening.listener);
        let added = self.poller.add(source, key(handle), wanted);
        self.or_forget(handle, added)
    }

    /// Begins to open a connection to `remote` with `settings`; [`Kind::Open`] tells how it went.
    ///
    /// # Errors
    /// It is known now that it cannot be opened. `EOPNOTSUPP`: it is the kernel's to open, and the
    /// program wants the engine.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        settings: &[Setting],
        cookie: u64,
    ) -> Result<Handle, Errno> {
        self.connect_from(None, remote, settings, cookie)
    }

    /// As [`connect`](Self::connect), from this address and port; port 0 leaves that to who opens it.
    ///
    /// # Errors
    /// As for `connect`; `EADDRINUSE`, `EADDRNOTAVAIL`: as of bind(2).
    pub fn connect_from(
        &mut self,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        settings: &[Setting],
        cookie: u64,
    ) -> Result<Handle, Errno> {
        let mut options = ConnectOptions::default();
        options.local = local;
        for setting in settings {
            setting.on_engine(&mut options)?;
        }
        // Of an address that is not this machine's others say that there is no way, or that it is not theirs.
        local.map_or(Ok(()), kernel::can_bind)?;
        let opened = match self.context.mode {
            Mode::Kernel => Err(ConnectError::KernelsJob(CHOSEN)),
            Mode::Any | Mode::Engine => {
                // It is closed before the kernel connects instead.
                options.bound = local.map_or(Ok(None), kernel::right_to)?;
                self.context.session.connect(remote, options)
            }
        };
        let stream = match opened {
            Ok(socket) => Stream::Engine(socket),
            Err(ConnectError::Failed(errno)) => return Err(errno),
            Err(ConnectError::KernelsJob(_)) if self.context.mode == Mode::Engine => {
                return Err(Errno::OPNOTSUPP);
            }
            Err(ConnectError::KernelsJob(why)) => {
                let mut stream = kernel::Stream::connect(local, remote, |fd| {
                    settings
                        .iter()
                        .try_for_each(|setting| setting.on_kernel(fd))
                })?;
                stream.why_not = Some(why);
                Stream::Kernel(Box::new(stream))
            }
        };
        let mut connection = Connection::new(stream, Life::Opening, cookie);
        for setting in settings {
            if let Setting::ReceiveUnit(bytes) = setting {
                connection.unit = *bytes;
            }
        }
        self.add(connection)
    }

    /// Watches a descriptor of the program's own for `wanted`, which are epoll's bits (EPOLLIN,
    /// EPOLLOUT, EPOLLPRI, EPOLLRDHUP, EPOLLET). The queue keeps a duplicate.
    ///
    /// # Errors
    /// `EINVAL`: another bit. Otherwise the kernel's, as `EPERM` for a file.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, wanted: u32, cookie: u64) -> Result<Handle, Errno> {
        if wanted & !DESCRIPTORS != 0 {
            return Err(Errno::INVAL);
        }
        let fd = rustix::io::fcntl_dupfd_cloexec(fd, 0)?;
        let handle = self.objects.insert(Object::Descriptor { fd, cookie });
        let Some(Object::Descriptor { fd, .. }) = self.objects.get(handle) else {
            return Err(Errno::BADF);
        };
        let source = Source::Kernel(fd.as_fd());
        let added = self.poller.add(source, key(handle), Readiness(wanted));
        self.or_forget(handle, added)
    }

    /// Closes a connection, a listener or the watch on a descriptor. What was sent on a connection is
    /// still delivered; what was committed and a kernel's connection has not taken yet leaves while the queue
    /// is waited in or polled. Asynchronous sends do not come back any more, and views are void. From now on no
    /// event of it is taken out of the queue; among those that were taken before there may be some.
    ///
    /// # Errors
    /// `EBADF`: there is no such thing.
    pub fn close(&mut self, handle: Handle) -> Result<(), Errno> {
        match self.objects.get_mut(handle) {
            None | Some(Object::Waker) => return Err(Errno::BADF),
            Some(Object::Connection(connection)) => {
                if connection.life == Life::Closing {
                    return Err(Errno::BADF);
                }
                if !connection.is_flushed() {
                    connection.life = Life::Closing;
                    connection.stream.bound_what_is_left();
                    return Ok(());
                }
            }
            Some(Object::Descriptor { fd, .. }) => {
                let _ = self.poller.remove(Source::Kernel(fd.as_fd()), key(handle));
            }
            Some(Object::Listener(_)) => {}
        }
        self.remove(handle);
        Ok(())
    }

    /// Ends one direction of a connection, or both.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `ENOTCONN`: it is over, or not open yet. `EAGAIN`: what
    /// was committed before has not left yet (kernel only); [`Kind::Room`] says when it has.
    pub fn shutdown(&mut self, handle: Handle, how: Shutdown) -> Result<(), Errno> {
        let connection = self.open_connection(handle)?;
        let done = connection.stream.shutdown(how);
        done.map_err(|errno| connection.refuse(errno))
    }

    /// Sets an option of a connection, or of a listener for what it accepts from then on.
    ///
    /// # Errors
    /// `EBADF`: there is no such thing. `EINVAL`: the value cannot be.
    pub fn set(&mut self, handle: Handle, setting: Setting) -> Result<(), Errno> {
        if let Some(Object::Listener(listening)) = self.objects.get_mut(handle) {
            if let Setting::ReceiveUnit(bytes) = setting {
                listening.unit = bytes;
                return Ok(());
            }
            return setting.on_listener(&listening.listener);
        }
        let connection = self.connection(handle)?;
        if let Setting::ReceiveUnit(bytes) = setting {
            connection.unit = bytes;
            return Ok(());
        }
        connection.leave_first();
        connection.stream.set(setting)
    }

    /// This end's address, of a connection or a listener.
    ///
    /// # Errors
    /// `EBADF`: there is no such thing.
    pub fn local(&mut self, handle: Handle) -> Result<SocketAddr, Errno> {
        if let Some(Object::Listener(listening)) = self.objects.get(handle) {
            return Ok(listening.listener.local());
        }
        self.connection(handle)?.stream.local()
    }

    /// The other end's address.
    ///
    /// # Errors
    /// `EBADF`: there is no such connection. `ENOTCONN`: it has no other end, as a listener.
    pub fn peer(&mut self, handle: Handle) -> Result<SocketAddr, Errno> {
        if let Some(Object::Listener(_)) = self.objects.get(handle) {
            return Err(Errno::NOTCONN);
        }
        self.connection(handle)?.stream.peer()
    }

    /// Whether the engine has a connection, or listens for a listener besides the kernel. Asks nobody.
    ///
    /// # Errors
    /// `EBADF`: there is no such thing.
    pub fn is_offloaded(&mut self, handle: Handle) -> Result<bool, Errno> {
        if let Some(Object::Listener(listening)) = self.objects.get(handle) {
            return Ok(listening.listener.is_offloaded());
        }
        let stream = &self.connection(handle)?.stream;
        Ok(matches!(stream, Stream::Engine(_)))
    }

    /// Who has a connection, and what is known of it; of a listener, whether the engine listens there besides
    /// the kernel. It asks the engine of a connection, which costs some microseconds.
    ///
    /// # Errors
    /// `EBADF`: there is no such thing. `ETIMEDOUT`: the engine does not run just now.
    pub fn facts(&mut self, handle: Handle) -> Result<Facts, Errno> {
        if let Some(Object::Listener(listening)) = self.objects.get(handle) {
            let why_not = self.context.why_not_listening(&listening.listener);
            return Ok(Facts {
                is_offloaded: why_not.is_none(),
                served_by: self.together.served_by(why_not.is_none()),
                why_not,
                unacknowledged: 0,
                unread: 0,
                tcp: None,
            });
        }
        let connection = self.connection(handle)?;
        connection.leave_first();
        let unacknowledged = connection.unacknowledged();
        let unread = connection.stream.available();
        let (is_offloaded, why_not, tcp) = match &connection.stream {
            Stream::Engine(socket) => match socket.info() {
                Err(Errno::TIMEDOUT) => return Err(Errno::TIMEDOUT),
                // Of one that is over nothing is known.
                info => (true, None, info.ok()),
            },
            Stream::Kernel(stream) => {
                let why_not = stream.why_not;
                let why_left = || stream.is_left.then(|| connection.stream.why_left());
                (false, why_not.or_else(why_left), None)
            }
        };
        Ok(Facts {
            is_offloaded,
            served_by: self.together.served_by(is_offloaded),
            why_not,
            unacknowledged,
            unread,
            tcp,
        })
    }

    /// Takes what has happened, at most `most` events, into `events`, which is emptied first. Never
    /// waits.
    ///
    /// # Errors
    /// The kernel's for waiting.
    pub fn poll(&mut self, events: &mut Vec<Event>, most: usize) -> Result<(), Errno> {
        self.wait(events, most, Some(Duration::ZERO))
    }

    /// As [`poll`](Self::poll), but waits until something has happened or `limit` is over (`None`:
    /// without end).
    ///
    /// # Errors
    /// `EINTR`: a signal was handled.
    pub fn wait(
        &mut self,
        events: &mut Vec<Event>,
        most: usize,
        limit: Option<Duration>,
    ) -> Result<(), Errno> {
        events.clear();
        let start = Instant::now();
        let mut left = limit;
        self.stop_staging();
        let mut arrived = 0;
        loop {
            // Of what has happened, nothing may be worth telling, and there may be more behind it.
            let mut looked_at_all = false;
            if self.happened.is_empty() {
                let mut ready = std::mem::take(&mut self.ready);
                let waited = self.poller.wait(&mut ready, self.until_asked(left));
                looked_at_all = ready.is_empty();
                for event in ready.drain(..) {
                    self.tell(event);
                }
                self.ready = ready;
                self.ask();
                self.look_for_free();
                waited?;
            }
            while events.len() < most
                && let Some(event) = self.happened.pop_front()
            {
                if self.has(event.handle) {
                    arrived += usize::from(self.is_first_by_kernel(&event));
                    events.push(event);
                }
            }
            if !events.is_empty() || most == 0 {
                self.together.told(arrived);
                return Ok(());
            }
            left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
            if left == Some(Duration::ZERO) && looked_at_all {
                return Ok(());
            }
        }
    }

    /// The descriptor by which another event loop waits for this queue: while it is
    /// [armed](Self::arm) it is readable when something may have happened.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// Before the program sleeps on [`fd`](Self::fd): from now on that tells of everything. Returns
    /// how long it may sleep at most; zero: not at all, something has happened. Afterwards
    /// [`disarm`](Self::disarm) comes first.
    ///
    /// # Errors
    /// The kernel's for changing an epoll set.
    pub fn arm(&mut self) -> Result<Option<Duration>, Errno> {
        self.stop_staging();
        let limit = self.poller.arm()?;
        let limit = self.until_asked(limit);
        while self
            .happened
            .front()
            .is_some_and(|event| !self.has(event.handle))
        {
            self.happened.pop_front();
        }
        Ok(if self.happened.is_empty() {
            limit
        } else {
            Some(Duration::ZERO)
        })
    }

    /// The inverse of [`arm`](Self::arm).
    pub fn disarm(&mut self) {
        self.poller.disarm();
    }

    /// Tells what has become of posted buffers, now that one more is.
    pub(crate) fn tell_placed(&mut self, handle: Handle) {
        if let Some(Object::Connection(connection)) = self.objects.get_mut(handle) {
            let happened = &mut self.happened;
            connection.tell_placed(handle, |event| happened.push_back(event));
        }
    }

    /// Sees to it that asynchronous sends on a connection come back, after one that does as `back` says, or one that was
    /// refused.
    pub(crate) fn await_sends(&mut self, handle: Handle, back: Back) {
        let Some(Object::Connection(connection)) = self.objects.get_mut(handle) else {
            return;
        };
        if let (Back::Left(_), Stream::Kernel(_)) = (back, &connection.stream) {
            // Most have left by now.
            let happened = &mut self.happened;
            connection.tell_sends(handle, |event| happened.push_back(event));
        }
        list_if_to_be_asked(&mut self.awaiting, connection, handle);
    }

    /// Whether the program has something under this handle. Of what it has closed nothing is told any more,
    /// also if it has happened before.
    fn has(&self, handle: Handle) -> bool {
        match self.objects.get(handle) {
            // What nothing of it has told.
            None => handle.is_null(),
            Some(Object::Connection(connection)) => connection.life != Life::Closing,
            Some(_) => true,
        }
    }

    /// Whether this tells of what has come on a connection of the kernel's, as the first in this turn.
    fn is_first_by_kernel(&mut self, event: &Event) -> bool {
        let has_come = matches!(event.kind, Kind::Receive | Kind::Placed | Kind::Filled);
        match self.objects.get_mut(event.handle) {
            Some(Object::Connection(connection)) if has_come => match &mut connection.stream {
                Stream::Kernel(stream) => {
                    let turn = Some(self.together.turn());
                    std::mem::replace(&mut stream.told_in, turn) != turn
                }
                Stream::Engine(_) => false,
            },
            _ => false,
        }
    }

    /// Looks for acknowledgements of which nobody may have told.
    fn ask(&mut self) {
        if self.awaiting.is_empty() {
            return;
        }
        let (objects, happened) = (&mut self.objects, &mut self.happened);
        self.awaiting
            .look(Instant::now(), |handle| match objects.get_mut(*handle) {
                Some(Object::Connection(connection)) if connection.life != Life::Closing => {
                    connection.ask(*handle, |event| happened.push_back(event))
                }
                _ => false,
            });
    }

    /// How long to wait at most, if that is no longer than `limit`: until it is time to look for acknowledgements, or
    /// for free memory.
    fn until_asked(&self, limit: Option<Duration>) -> Option<Duration> {
        if self.awaiting.is_empty() && self.wanted.is_empty() {
            return limit;
        }
        let now = Instant::now();
        let due = [self.awaiting.due(now), self.wanted.due(now), limit];
        due.into_iter().flatten().min()
    }

    /// What the readiness of one object means.
    fn tell(&mut self, ready: Ready) {
        let handle = Handle::from(KeyData::from_ffi(ready.key));
        let happened = &mut self.happened;
        let event = |kind, cookie, bytes| Event {
            kind,
            error: 0,
            handle,
            cookie,
            bytes,
        };
        match self.objects.get_mut(handle) {
            None => {}
            Some(Object::Waker) => {
                let _ = rustix::io::read(&self.wake, &mut [0; 8]);
                happened.push_back(event(Kind::Wake, 0, 0));
            }
            Some(Object::Listener(listening)) => {
                happened.push_back(event(Kind::Accept, listening.cookie, 0));
            }
            Some(Object::Descriptor { cookie, .. }) => {
                let bits = ready.readiness.0.into();
                happened.push_back(event(Kind::Ready, *cookie, bits));
            }
            Some(Object::Connection(connection)) => {
                let is_closing = connection.life == Life::Closing;
                connection.tell(handle, ready.readiness, |event| {
                    if !is_closing {
                        happened.push_back(event);
                    }
                });
                if !is_closing {
                    list_if_to_be_asked(&mut self.awaiting, connection, handle);
                } else if connection.is_flushed() {
                    self.remove(handle);
                }
            }
        }
    }

    /// Takes a connection in.
    pub(crate) fn add(&mut self, connection: Connection) -> Result<Handle, Errno> {
        let handle = self
            .objects
            .insert(Object::Connection(Box::new(connection)));
        let Some(Object::Connection(connection)) = self.objects.get(handle) else {
            return Err(Errno::BADF);
        };
        let (source, wanted) = match &connection.stream {
            Stream::Engine(socket) => (Source::Socket(socket), EVERYTHING | Readiness::ACKED),
            Stream::Kernel(stream) => (Source::Kernel(stream.fd()), EVERYTHING | kernel::URGENT),
        };
        let added = self.poller.add(source, key(handle), wanted);
        self.or_forget(handle, added)
    }

    /// Takes something out, and with it whatever counts it.
    fn remove(&mut self, handle: Handle) {
        if let Some(Object::Connection(connection)) = self.objects.remove(handle)
            && let Some(ticket) = connection.admitted
            && let Some(Object::Listener(listening)) = self.objects.get_mut(ticket.listener)
        {
            listening
                .gate
                .ended(ticket.number, ticket.from, ticket.by_engine);
        }
    }

    /// Takes out again what could not be watched.
    fn or_forget(&mut self, handle: Handle, added: Result<(), Errno>) -> Result<Handle, Errno> {
        if let Err(errno) = added {
            self.remove(handle);
            return Err(errno);
        }
        Ok(handle)
    }

    pub(crate) fn connection(&mut self, handle: Handle) -> Result<&mut Connection, Errno> {
        match self.objects.get_mut(handle) {
            Some(Object::Connection(connection)) if connection.life != Life::Closing => {
                Ok(connection)
            }
            _ => Err(Errno::BADF),
        }
    }

    pub(crate) fn listener(&mut self, handle: Handle) -> Result<&mut Listening, Errno> {
        self.listener_in_context(handle)
            .map(|(_, listening)| listening)
    }

    pub(crate) fn listener_in_context(
        &mut self,
        handle: Handle,
    ) -> Result<(&Context, &mut Listening), Errno> {
        match self.objects.get_mut(handle) {
            Some(Object::Listener(listening)) => Ok((&self.context, listening)),
            _ => Err(Errno::BADF),
        }
    }
}

/// A connection is looked at for sends that have come back, if it is to be and is not yet.
fn list_if_to_be_asked(awaiting: &mut Awaiting, connection: &mut Connection, handle: Handle) {
    if connection.is_to_be_asked() && !std::mem::replace(&mut connection.is_awaited, true) {
        awaiting.list(handle, Instant::now());
    }
}

/// The handle as the poller's key.
fn key(handle: Handle) -> u64 {
    handle.data().as_ffi()
}
