//! An echo server on the engine, or on the kernel where there is none, in which each connection is a
//! task of tokio's: `cargo run -p outboard-native --example echo_by_tokio -- 0.0.0.0:7000`.
//!
//! The adapter is [`Reactor`]: tokio waits for the queue's descriptor (`AsyncFd`) while the queue is
//! armed, and events wake the tasks whose connections they are about.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use native::{Context, Errno, Handle, Mode, Queue};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::LocalSet;

type Failed = Box<dyn std::error::Error>;

/// A queue as a source of tokio's events, for the tasks of one thread.
struct Reactor {
    queue: RefCell<Queue>,
    /// Another name of the queue's descriptor.
    fd: AsyncFd<OwnedFd>,
    armed: Cell<bool>,
    /// A task has used the queue while it was armed.
    used: Notify,
    /// Whom the events of a handle wake.
    tasks: RefCell<HashMap<Handle, Rc<Notify>>>,
}

/// A connection or a listener of a task's.
struct Thing {
    reactor: Rc<Reactor>,
    handle: Handle,
    news: Rc<Notify>,
}

impl Reactor {
    fn new(queue: Queue) -> Result<Rc<Self>, Failed> {
        #[expect(
            deprecated,
            reason = "its successor is unsafe; nobody else has this descriptor"
        )]
        let fd = AsyncFd::new(queue.fd().try_clone_to_owned()?)?;
        Ok(Rc::new(Self {
            queue: RefCell::new(queue),
            fd,
            armed: Cell::new(false),
            used: Notify::new(),
            tasks: RefCell::default(),
        }))
    }

    /// Uses the queue. What happens in it meanwhile the descriptor does not tell, so it is looked
    /// at again before the next wait.
    fn with<R>(&self, act: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queue = self.queue.borrow_mut();
        if self.armed.replace(false) {
            queue.disarm();
            self.used.notify_one();
        }
        act(&mut queue)
    }

    fn own(self: &Rc<Self>, handle: Handle) -> Thing {
        let news = Rc::new(Notify::new());
        self.tasks.borrow_mut().insert(handle, Rc::clone(&news));
        let reactor = Rc::clone(self);
        Thing {
            reactor,
            handle,
            news,
        }
    }

    /// Takes events and wakes tasks, without end.
    async fn run(&self) -> Result<(), Failed> {
        let mut events = Vec::new();
        loop {
            let limit = self.with(|queue| {
                queue.poll(&mut events, 64)?;
                if !events.is_empty() {
                    return Ok(Some(Duration::ZERO));
                }
                self.armed.set(true);
                queue.arm()
            })?;
            for event in events.drain(..) {
                if let Some(news) = self.tasks.borrow().get(&event.handle) {
                    news.notify_one();
                }
            }
            let limit = async {
                match limit {
                    None => std::future::pending().await,
                    Some(Duration::ZERO) => tokio::task::yield_now().await,
                    Some(limit) => tokio::time::sleep(limit).await,
                }
            };
            tokio::select! {
                ready = self.fd.readable() => ready?.clear_ready(),
                () = self.used.notified() => {}
                () = limit => {}
            }
        }
    }
}

impl Thing {
    /// Does what `act` does as soon as it can be done.
    async fn when_possible<R>(
        &self,
        mut act: impl FnMut(&mut Queue, Handle) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        loop {
            match self.reactor.with(|queue| act(queue, self.handle)) {
                Err(Errno::AGAIN) => self.news.notified().await,
                done => return done,
            }
        }
    }

    async fn accept(&self) -> Result<Thing, Errno> {
        let accept = |queue: &mut Queue, listener| queue.accept(listener, 0);
        let accepted = self.when_possible(accept).await?;
        Ok(self.reactor.own(accepted))
    }

    async fn recv(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        self.when_possible(|queue, handle| queue.recv(handle, bytes))
            .await
    }

    async fn send_all(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let send = |queue: &mut Queue, handle| queue.send(handle, bytes, false);
            bytes = &bytes[self.when_possible(send).await?..];
        }
        Ok(())
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.reactor.tasks.borrow_mut().remove(&self.handle);
        // It fails only for what is closed.
        let _ = self.reactor.with(|queue| queue.close(self.handle));
    }
}

async fn echo(connection: Thing) -> Result<(), Errno> {
    let mut bytes = [0; 16 * 1024];
    loop {
        match connection.recv(&mut bytes).await? {
            0 => return Ok(()),
            read => connection.send_all(&bytes[..read]).await?,
        }
    }
}

async fn serve(reactor: Rc<Reactor>, listener: Handle) -> Result<(), Failed> {
    let listener = reactor.own(listener);
    loop {
        let connection = listener.accept().await?;
        tokio::task::spawn_local(async {
            if let Err(errno) = echo(connection).await {
                eprintln!("a connection ended: {errno}");
            }
        });
    }
}

fn main() -> Result<(), Failed> {
    let addr = std::env::args().nth(1).ok_or("usage: echo ADDR:PORT")?;
    let mut queue = Context::attach("default", "echo", Mode::Any)?.queue()?;
    let listener = queue.listen(addr.parse()?, 1024, 0)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let reactor = Reactor::new(queue)?;
        tokio::select! {
            ended = reactor.run() => ended,
            ended = serve(Rc::clone(&reactor), listener) => ended,
        }
    })
}
