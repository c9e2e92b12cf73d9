//! pipe and splice. Their safety is that of `calls`.

use core::ffi::{c_int, c_uint, c_void};

use libc::{off64_t, size_t, ssize_t};
use sim::script::Errno;
use sim::sockets::Refusal;

use super::memory::{host, int, result};
use crate::host::State;
use crate::numbers::Object;
use crate::pipe::Pipe;

pub(super) unsafe extern "C" fn pipe(userdata: *mut c_void, ends: *mut c_int) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let mut state = host.lock();
    let place = state.pipes.len();
    let numbers = &mut state.numbers;
    let made = numbers
        .add(Object::ReadEnd(place))
        .and_then(|from| Ok((from, numbers.add(Object::WriteEnd(place))?)));
    int(made.map(|(from, to)| {
        state.pipes.push(Pipe::new());
        // SAFETY: there is room for two.
        unsafe {
            ends.write(from);
            ends.add(1).write(to);
        }
        0
    }))
}

/// Between a socket and a pipe, either way, or between two pipes. The offsets are for files: the
/// runner gives the address of its own argument, also where the script says NULL.
pub(super) unsafe extern "C" fn splice(
    userdata: *mut c_void,
    from: c_int,
    _from_offset: *mut off64_t,
    to: c_int,
    _to_offset: *mut off64_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let waits = flags & libc::SPLICE_F_NONBLOCK == 0;
    let more = flags & libc::SPLICE_F_MORE != 0;
    let done = host.call(|state| splice_once(state, from, to, len, waits, more), None);
    result(done.map(|count| count.unwrap_or(0) as i64)) as ssize_t
}

fn splice_once(
    state: &mut State,
    from: c_int,
    to: c_int,
    len: usize,
    waits: bool,
    more: bool,
) -> Result<usize, Refusal> {
    // Of the pipe alone: the socket has a mode of its own.
    let of_pipe = |refusal| match refusal {
        Refusal::Wait if !waits => Refusal::Error(Errno::EAGAIN),
        refusal => refusal,
    };
    let (from, to) = (state.numbers.find(from)?, state.numbers.find(to)?);
    if len == 0 {
        return Ok(0);
    }
    match (from, to) {
        (Object::Socket(socket), Object::WriteEnd(pipe)) => {
            let room = state.pipes[pipe].room().map_err(of_pipe)?;
            let bytes = state.sockets.receive(socket, room.min(len), 0)?;
            state.pipes[pipe].write(&bytes)
        }
        (Object::ReadEnd(pipe), Object::Socket(socket)) => {
            let bytes = state.pipes[pipe].peek(len).map_err(of_pipe)?;
            let flags = if more { libc::MSG_MORE } else { 0 };
            let taken = state.sockets.send(socket, &bytes, flags)?;
            state.pipes[pipe].consume(taken);
            Ok(taken)
        }
        (Object::ReadEnd(source), Object::WriteEnd(target)) if source != target => {
            let bytes = state.pipes[source].peek(len).map_err(of_pipe)?;
            let taken = state.pipes[target].write(&bytes).map_err(of_pipe)?;
            state.pipes[source].consume(taken);
            Ok(taken)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}
