//! Options and flags. Their safety is that of `calls`.

use core::ffi::{c_int, c_long, c_ulong, c_void};

use libc::socklen_t;
use sim::script::call::{OptionValue, constant};
use sim::script::{Errno, tcp_info};

use super::memory::{bytes, host, int, put};

pub(super) unsafe extern "C" fn fcntl(
    userdata: *mut c_void,
    fd: c_int,
    command: c_int,
    argument: c_long,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let done = host.call(
        |state| {
            let fd = state.find(fd)?;
            let non_blocking = state.sockets.non_blocking(fd)?;
            match command {
                libc::F_GETFL => {
                    let flag = if *non_blocking { libc::O_NONBLOCK } else { 0 };
                    Ok(i64::from(libc::O_RDWR | flag))
                }
                libc::F_SETFL => {
                    *non_blocking = argument & c_long::from(libc::O_NONBLOCK) != 0;
                    Ok(0)
                }
                _ => Err(Errno::EINVAL.into()),
            }
        },
        None,
    );
    int(done.map(|value| value.unwrap_or(0)))
}

pub(super) unsafe extern "C" fn ioctl(
    userdata: *mut c_void,
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let queues = host.call(
        |state| state.find(fd).and_then(|fd| state.sockets.queues(fd)),
        None,
    );
    let count = queues.and_then(|queues| {
        let (unread, unacknowledged) = queues.unwrap_or((0, 0));
        match request {
            libc::FIONREAD => Ok(unread),
            libc::TIOCOUTQ => Ok(unacknowledged),
            _ => Err(Errno::EINVAL),
        }
    });
    int(count.map(|count| {
        let count = c_int::try_from(count).unwrap_or(c_int::MAX);
        // SAFETY: both requests give back an int.
        unsafe { put(&count.to_ne_bytes(), argument, size_of::<c_int>()) };
        0
    }))
}

pub(super) unsafe extern "C" fn getsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: as of all calls.
    let host = unsafe { host(userdata) };
    let found = host.call(
        |state| {
            let fd = state.find(fd)?;
            if (level, name) == (constant::IPPROTO_TCP, constant::TCP_INFO) {
                return Ok(tcp_info::encode(&state.sockets.info(fd)?));
            }
            Ok(match state.sockets.option(fd, level, name)? {
                OptionValue::Integers(numbers) => {
                    numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
                }
                OptionValue::Name(name) => {
                    let mut bytes = name.into_bytes();
                    bytes.resize(16, 0);
                    bytes
                }
            })
        },
        None,
    );
    if len.is_null() {
        return int(Err(Errno::EFAULT));
    }
    int(found.map(|found| {
        // SAFETY: as of all calls.
        unsafe {
            let count = put(&found.unwrap_or_default(), value, *len as usize);
            *len = count as socklen_t;
        }
        0
    }))
}

pub(super) unsafe extern "C" fn setsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: as of all calls.
    let (host, value) = unsafe { (host(userdata), bytes(value, len as usize)) };
    let value = if (level, name) == (constant::IPPROTO_TCP, constant::TCP_CONGESTION) {
        OptionValue::Name(String::from_utf8_lossy(&value).into_owned())
    } else {
        let words = value.chunks_exact(4);
        OptionValue::Integers(
            words
                .map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
                .collect(),
        )
    };
    let done = host.call(
        |state| {
            let fd = state.find(fd)?;
            state.sockets.set_option(fd, level, name, &value)
        },
        None,
    );
    int(done.map(|_| 0))
}
