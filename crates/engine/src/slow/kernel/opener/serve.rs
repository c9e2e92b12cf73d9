//! The opener's own side: it gives up what it does not need, and answers one request after the other.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::process::{
    DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal,
};

use super::channel::{Begun, pair, receive, send};
use super::doer::{Doer, Done};
use super::words::{LEN, Operation, number};
use crate::all_or_none::AbortOnPanic;
use crate::slow::kernel::privileges::{self, Rights};

/// Makes this process an opener for the interfaces with these indices, asked by `socket`. Returns when nobody
/// can ask any more.
///
/// # Errors
/// It cannot open what it needs, or nobody is there.
pub fn run(socket: OwnedFd, interfaces: &[u32]) -> io::Result<()> {
    let _ = rustix::thread::set_name(c"opener");
    // Whose socket is closed is gone as well: this is for one that a descriptor of it survives.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Of the same user as the engine, and not for it to look into.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(serve_both(&socket, interfaces, || std::process::exit(1))?)
}

/// One on a thread of this process, for who has no program to execute: tests.
///
/// # Errors
/// There are no more descriptors, or threads.
pub fn on_a_thread(interfaces: &[u32]) -> io::Result<Begun> {
    let (ours, its) = pair()?;
    let interfaces = interfaces.to_vec();
    let thread = std::thread::Builder::new().name("opener".to_owned());
    thread.spawn(move || serve_both(&its, &interfaces, || ()))?;
    Ok(Begun {
        socket: ours,
        process: None,
    })
}

/// Serves neighbours by a thread of its own, for that waits for the kernel's lock, and everything else here. The first
/// message brings the way by which that thread is asked; when nobody can ask it any more, it says so to `ended`.
fn serve_both(
    socket: &OwnedFd,
    interfaces: &[u32],
    ended: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let its = receive(socket, &mut [0], None)?.fds.pop();
    let its = its.ok_or(Errno::PROTO)?;
    let interfaces = interfaces.to_vec();
    let thread = std::thread::Builder::new().name("neighbours".to_owned());
    let thread = thread.spawn(move || {
        let _all_or_none = AbortOnPanic;
        // Why it ends is not asked: without it there is no opener.
        let _ = serve(&its, &interfaces);
        ended();
    });
    thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
    // Here there are no neighbours, on whichever interface.
    serve(socket, &[])
}

fn serve(socket: &OwnedFd, interfaces: &[u32]) -> Result<()> {
    let mut doer = Doer::of(interfaces)?;
    let rights = privileges::keep_to_open()?;
    answer(socket, 0, Ok(of_rights(&rights)))?;
    // One byte more than a request has: what is longer is none.
    let mut bytes = [0; LEN + 1];
    loop {
        let came = match receive(socket, &mut bytes, None) {
            Err(Errno::PIPE) => return Ok(()),
            came => came?,
        };
        let request = bytes.get(..came.bytes).unwrap_or_default();
        let number = number(request);
        let done = Operation::judge(request, interfaces).and_then(|operation| {
            let fd = came.fds.first().map(AsFd::as_fd);
            doer.perform(&operation, fd)
        });
        match answer(socket, number, done) {
            Err(Errno::PIPE) => return Ok(()),
            answered => answered?,
        }
    }
}

/// What it says first.
fn of_rights(rights: &Rights) -> Done {
    Done {
        fd: None,
        told: rights.encode().to_vec(),
    }
}

/// Answers the request of this number.
fn answer(socket: &OwnedFd, number: u16, done: Result<Done>) -> Result<()> {
    let (code, done) = match done {
        Ok(done) => (0, done),
        Err(errno) => (errno.raw_os_error(), Done::default()),
    };
    let (number, code) = (number.to_ne_bytes(), code.to_ne_bytes());
    let parts = [&number[..], &code, &done.told].map(IoSlice::new);
    send(socket, &parts, done.fd.as_ref().map(AsFd::as_fd))
}
