//! poll and epoll. Their safety is that of `calls`.

use core::ffi::{c_int, c_void};
use core::time::Duration;

use libc::{epoll_event, nfds_t, pollfd};
use sim::script::Errno;
use sim::sockets::Refusal;

use super::memory::{host, int};
use crate::epoll::Epoll;
use crate::numbers::Object;

/// How long a call waits that says so in milliseconds; a negative number is for ever.
fn patience(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

pub(super) unsafe extern "C" fn poll(
    userdata: *mut c_void,
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let mut asked: Vec<pollfd> = (0..count as usize)
        // SAFETY: the array has that many.
        .map(|index| unsafe { fds.add(index).read() })
        .collect();
    let ready = host.call(
        |state| {
            let mut ready = 0;
            for one in &mut asked {
                let always = libc::POLLERR | libc::POLLHUP;
                let found = state.find(one.fd).and_then(|fd| state.sockets.events(fd));
                one.revents = found.map_or(libc::POLLNVAL, |events| {
                    events as i16 & (one.events | always)
                });
                ready += i64::from(one.revents != 0);
            }
            if ready == 0 {
                return Err(Refusal::Wait);
            }
            Ok(ready)
        },
        patience(timeout),
    );
    for (index, one) in asked.iter().enumerate() {
        // SAFETY: the array has that many.
        unsafe { fds.add(index).write(*one) };
    }
    int(ready.map(|ready| ready.unwrap_or(0)))
}

pub(super) unsafe extern "C" fn epoll_create(userdata: *mut c_void, size: c_int) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    if size <= 0 {
        return int(Err(Errno::EINVAL));
    }
    let mut state = host.lock();
    int(state.numbers.add(Object::Epoll).map(|number| {
        state.epolls.insert(number, Epoll::default());
        number.into()
    }))
}

pub(super) unsafe extern "C" fn epoll_ctl(
    userdata: *mut c_void,
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let (asked, data) = if operation == libc::EPOLL_CTL_DEL {
        (0, 0)
    } else if event.is_null() {
        return int(Err(Errno::EFAULT));
    } else {
        // SAFETY: as of all calls.
        let event = unsafe { event.read() };
        (event.events, event.u64)
    };
    let done = host.call(
        |state| {
            let object = state.numbers.find(fd)?;
            let set = state.epoll(epoll)?;
            // Sockets alone can be asked about.
            let Object::Socket(socket) = object else {
                return Err(Errno::EINVAL.into());
            };
            match (operation, set.knows(fd)) {
                (libc::EPOLL_CTL_ADD, false) | (libc::EPOLL_CTL_MOD, true) => {
                    set.ask(fd, socket, asked, data);
                }
                (libc::EPOLL_CTL_DEL, true) => set.forget(fd),
                (libc::EPOLL_CTL_ADD, true) => return Err(Errno(libc::EEXIST).into()),
                (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false) => {
                    return Err(Errno(libc::ENOENT).into());
                }
                _ => return Err(Errno::EINVAL.into()),
            }
            Ok(())
        },
        None,
    );
    int(done.map(|_| 0))
}

pub(super) unsafe extern "C" fn epoll_wait(
    userdata: *mut c_void,
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let Some(limit) = usize::try_from(count).ok().filter(|&count| count > 0) else {
        return int(Err(Errno::EINVAL));
    };
    let told = host.call(
        |state| {
            state.look();
            let told = state.epoll(epoll)?.take(limit);
            if told.is_empty() {
                return Err(Refusal::Wait);
            }
            Ok(told)
        },
        patience(timeout),
    );
    int(told.map(|told| {
        let told = told.unwrap_or_default();
        for (index, (ready, data)) in told.iter().enumerate() {
            let event = epoll_event {
                events: *ready,
                u64: *data,
            };
            // SAFETY: the array has `count`, and no more than that are told.
            unsafe { events.add(index).write(event) };
        }
        told.len() as i64
    }))
}
