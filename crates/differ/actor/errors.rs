//! Errors by their names.

use differ::outcome::Outcome;
use std::ffi::c_int;

macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

const NAMES: &[(c_int, &str)] = names![
    EPERM ENOENT EINTR EIO EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EINVAL ENFILE EMFILE
    ENOTTY EFBIG ENOSPC ESPIPE EPIPE EDOM ERANGE ELOOP ENOSYS ENODATA ETIME EOVERFLOW ENOTSOCK
    EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT EOPNOTSUPP EAFNOSUPPORT EADDRINUSE
    EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN
    ESHUTDOWN ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS EBADFD
];

/// The name of an errno.
pub fn name(number: c_int) -> String {
    NAMES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

/// The failure of the call that this thread made last.
pub fn last() -> Outcome {
    let number = std::io::Error::last_os_error().raw_os_error();
    Outcome::Error(name(number.unwrap_or(0)))
}

/// What a call returned, or how it failed.
pub fn value(returned: impl Into<i64>) -> Outcome {
    match returned.into() {
        ..0 => last(),
        value => Outcome::Value(value),
    }
}
