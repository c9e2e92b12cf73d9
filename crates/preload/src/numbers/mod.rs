//! The life of descriptor numbers: closed, duplicated, replaced.
//!
//! - [`table`][]: which are ours
//! - [`description`][]: what those stand for
//! - [`pool`][]: memory for that
//! - [`gate`][]: when they stay what they are
//! - [`closing`][]: those that libc closes by itself
//! - [`placeholder`][]: what is behind them in the kernel
//! - [`standard`][]: `stdin`, `stdout` and `stderr`, which go by numbers

use core::ffi::{c_int, c_uint};
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::kernel::raw::{result, sys};
use table::Held;

pub mod closing;
pub mod description;
pub mod gate;
pub mod placeholder;
pub mod pool;
pub mod standard;
pub mod table;

/// Closes `fd`, ours or the kernel's.
pub fn close(fd: c_int) -> Result<usize, Errno> {
    if host::private_fds::contains(fd) {
        return Err(Errno::BADF);
    }
    if let Some(held) = table::get(fd) {
        held.number_closes(fd);
    }
    let (closed, held) = give_up(fd);
    if held.is_some() {
        standard::number_changed(fd);
    }
    // The last reference ends the connection, after the number is free as in the kernel: a
    // lingering close waits in `number_closes`, before.
    drop(held);
    closed
}

/// Takes a number out of the table and closes it, and no fork comes between: its child would have a number that is open,
/// and nobody's. What it was comes back.
fn give_up(fd: c_int) -> (Result<usize, Errno>, Option<Held>) {
    let _leaving = table::is_ours(fd).then(gate::leaving);
    let held = table::remove(fd);
    // SAFETY: the program gives up the number.
    let closed = result(unsafe { sys!(libc::SYS_close, fd) });
    (closed, held)
}

/// Closes a range, around the descriptors that are this library's own. Ours go one by one: what the kernel does for the
/// program's own files may take long, and no fork waits for that.
pub fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Result<usize, Errno> {
    if first > last {
        return Err(Errno::INVAL);
    }
    let closes = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0;
    if closes && table::used(first, last).next().is_some() {
        // Refuses flags that there are not, and gives the thread numbers of its own if it is to have them.
        kernel_close_range(c_uint::MAX, c_uint::MAX, flags)?;
        for fd in table::used(first, last) {
            // One that is closed already is as good.
            let _ = close(fd);
        }
    }
    let mut hidden: Vec<c_uint> = host::private_fds::iter()
        .filter_map(|fd| c_uint::try_from(fd).ok())
        .filter(|fd| (first..=last).contains(fd))
        .collect();
    hidden.sort_unstable();
    let mut from = first;
    for fd in hidden {
        if fd > from {
            kernel_close_range(from, fd - 1, flags)?;
        }
        from = fd.saturating_add(1);
    }
    if from > last {
        return Ok(0);
    }
    kernel_close_range(from, last, flags)
}

fn kernel_close_range(first: c_uint, last: c_uint, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: the program gives up these numbers, and none of them is ours to keep.
    result(unsafe { sys!(libc::SYS_close_range, first, last, flags) })
}

/// dup2: like dup3, but a number onto itself is left alone.
pub fn dup2(from: c_int, to: c_int) -> Result<usize, Errno> {
    if from == to {
        // SAFETY: asks only whether the number is open.
        result(unsafe { sys!(libc::SYS_fcntl, from, libc::F_GETFD) })?;
        return Ok(to as usize);
    }
    dup3(from, to, 0)
}

/// Makes `to` what `from` is, closing what it was.
pub fn dup3(from: c_int, to: c_int, flags: c_int) -> Result<usize, Errno> {
    if host::private_fds::contains(to) || host::private_fds::contains(from) {
        return Err(Errno::BADF);
    }
    let before = {
        let _leaving = table::is_ours(to).then(gate::leaving);
        // SAFETY: the program gives up what `to` was.
        result(unsafe { sys!(libc::SYS_dup3, from, to, flags) })?;
        follow(from, to)
    };
    drop(before);
    standard::number_changed(to);
    Ok(to as usize)
}

/// The kernel has made `new` a duplicate of `old`. It alone knows whether that succeeds, so the table
/// follows: meanwhile a call on `new` by another thread is one that came before.
pub fn duplicated(old: c_int, new: c_int) {
    drop(follow(old, new));
    standard::number_changed(new);
}

/// The table follows the kernel. What `new` was comes back.
fn follow(old: c_int, new: c_int) -> Option<Held> {
    match table::get(old) {
        Some(held) => {
            closing::made_again(new);
            table::put(new, held)
        }
        None if table::is_ours(new) => table::remove(new),
        None => None,
    }
}

/// The kernel has handed out `fd`, for something that is not ours.
pub fn handed_out(fd: c_int) -> c_int {
    if fd >= 0 {
        table::handed_out(fd);
        standard::number_changed(fd);
    }
    fd
}

/// The numbers that stay open in a program that is executed, of those that are `meant`.
pub fn staying_open(meant: impl Fn(&Held) -> bool) -> impl Iterator<Item = c_int> {
    table::used(0, u32::MAX).filter(move |&fd| {
        let is_open = || {
            // SAFETY: asks for a flag.
            let flags = result(unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFD) });
            flags.is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize == 0)
        };
        // Asked first: it costs no call.
        table::get(fd).is_some_and(|held| meant(&held)) && is_open()
    })
}

/// The numbers that are open, in rising order. `None`: there is no `/proc`.
pub fn open() -> Option<Vec<c_int>> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<c_int> = names.collect();
    numbers.sort_unstable();
    Some(numbers)
}

/// A duplicate of the program's descriptor, to keep or to show.
pub fn duplicate(fd: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: makes a new number, which is nobody else's.
    unsafe {
        let new = result(sys!(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, 0usize))?;
        Ok(OwnedFd::from_raw_fd(new as c_int))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::description::Content;
    use crate::objects::tcp::Tcp;

    fn is_asleep(thread: rustix::process::Pid) -> bool {
        let path = format!("/proc/self/task/{thread}/stat");
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|state| state.starts_with('S'))
    }

    /// The child has what its table says.
    #[test]
    fn who_closes_a_number_during_a_fork_has_it_in_the_table_until_it_is_closed() {
        let fd = placeholder::placeholder(libc::AF_INET, true)
            .unwrap()
            .keep();
        let tcp = Tcp::new(libc::AF_INET, false);
        assert!(table::install(fd, Held::new(Content::Tcp(tcp))));
        let still = gate::still();
        let (tell, told) = std::sync::mpsc::channel();
        let closes = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            close(fd)
        });
        let thread = told.recv().unwrap();
        let mut looks = 0;
        while looks < 200 && !closes.is_finished() {
            looks = if is_asleep(thread) { looks + 1 } else { 0 };
            std::thread::yield_now();
        }
        assert!(table::is_ours(fd));
        drop(still);
        assert_eq!(closes.join().unwrap(), Ok(0));
        assert!(!table::is_ours(fd));
    }
}
