//! The calls, by family.

mod bytes;
mod handler;
mod made;
mod options;
pub mod process;
mod readiness;
mod rights;
mod sockets;
pub mod started;

use crate::errors::{last, value};
use crate::slots;
use differ::outcome::Outcome;
use differ::program::{Call, DupBy, ReceiveBy, SendBy, Slot};
use made::named;
use std::ffi::c_int;

/// Numbers that `dup2` goes to when it goes to no other descriptor's: beyond those in use, and
/// low enough for `select`.
const DUP2_NUMBERS: c_int = 100;

/// Makes a call, other than those that need to know who makes it.
pub fn make(step: usize, call: &Call) -> Outcome {
    try_make(step, call).unwrap_or(Outcome::NoSlot)
}

/// As [`make`]; `None` if the process has no descriptor of that name.
fn try_make(step: usize, call: &Call) -> Option<Outcome> {
    Some(match call {
        Call::Socket {
            new,
            family,
            nonblocking,
        } => sockets::socket(*new, *family, *nonblocking),
        Call::Bind {
            slot,
            address,
            port,
        } => sockets::bind(slots::get(*slot)?, *address, *port),
        Call::Listen { slot, backlog } => sockets::listen(slots::get(*slot)?, *backlog),
        Call::Accept { slot, new, by } => sockets::accept(slots::get(*slot)?, *new, *by),
        Call::AcceptAny { slots, new } => sockets::accept_any(&all(slots)?, *new),
        Call::Connect { slot, to } => sockets::connect(slots::get(*slot)?, *to),
        Call::Shutdown { slot, how } => sockets::shutdown(slots::get(*slot)?, *how),
        Call::Name { slot, of } => sockets::name(slots::get(*slot)?, *of),
        Call::Receive {
            slot,
            most,
            by,
            flags,
        } => bytes::receive(slots::get(*slot)?, *most, *by, flags),
        Call::Send {
            slot,
            length,
            by,
            flags,
        } => bytes::send(step, slots::get(*slot)?, *length, *by, flags),
        Call::SendFile {
            slot,
            from,
            offset,
            length,
        } => bytes::send_file(slots::get(*slot)?, slots::get(*from)?, *offset, *length),
        Call::Tee { from, to, length } => bytes::tee(slots::get(*from)?, slots::get(*to)?, *length),
        Call::ReadPlain { slot, most } => {
            bytes::receive(slots::get(*slot)?, *most, ReceiveBy::Read, &[])
        }
        Call::WritePlain { slot, length } => {
            bytes::send(step, slots::get(*slot)?, *length, SendBy::Write, &[])
        }
        Call::Splice {
            from,
            to,
            length,
            nonblocking,
        } => bytes::splice(slots::get(*from)?, slots::get(*to)?, *length, *nonblocking),
        Call::File { new, length } => bytes::file(*new, *length),
        Call::Pipe { new } => pair(*new, |numbers| {
            // SAFETY: room for two numbers.
            unsafe { libc::pipe2(numbers, libc::O_NONBLOCK) }
        }),
        Call::Pair { new } => pair(*new, |numbers| {
            // SAFETY: room for two numbers.
            unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, numbers) }
        }),
        Call::Pass { via, slot } => rights::pass(slots::get(*via)?, slots::get(*slot)?),
        Call::Take { via, new } => rights::take(slots::get(*via)?, *new),
        Call::EpollCreate { new } => {
            // SAFETY: takes no pointer.
            named(*new, unsafe { libc::epoll_create1(0) })
        }
        Call::EpollControl {
            set,
            change,
            slot,
            events,
        } => readiness::control(
            slots::get(*set)?,
            *change,
            *slot,
            slots::get(*slot)?,
            events,
        ),
        Call::EpollWait { set, most, wait } => {
            readiness::epoll_wait(slots::get(*set)?, *most, *wait)
        }
        Call::Poll { slots, wait } => {
            let entries: Option<Vec<_>> = slots
                .iter()
                .map(|(slot, events)| Some((*slot, slots::get(*slot)?, events.as_slice())))
                .collect();
            readiness::poll(&entries?, *wait)
        }
        Call::Select { read, write, wait } => {
            let numbers = |slots: &[Slot]| -> Option<Vec<(Slot, c_int)>> {
                slots
                    .iter()
                    .map(|slot| Some((*slot, slots::get(*slot)?)))
                    .collect()
            };
            readiness::select(&numbers(read)?, &numbers(write)?, *wait)
        }
        Call::SetOption {
            slot,
            option,
            value,
        } => options::set(slots::get(*slot)?, *option, *value),
        Call::GetOption { slot, option } => options::get(slots::get(*slot)?, *option),
        Call::Unread { slot } => options::unread(slots::get(*slot)?),
        Call::SetNonblocking { slot, on, by_ioctl } => {
            options::set_nonblocking(slots::get(*slot)?, *on, *by_ioctl)
        }
        Call::Flags { slot } => options::flags(slots::get(*slot)?),
        Call::Close { slot } => {
            let number = slots::get(*slot)?;
            slots::forget(*slot);
            // SAFETY: the program's own descriptor.
            value(unsafe { libc::close(number) })
        }
        Call::Dup { slot, new, by } => dup(slots::get(*slot)?, *new, *by)?,
        Call::Exit { at_once } => process::exit(*at_once),
        Call::Start { by, slot, length } => started::start(*by, step, slots::get(*slot)?, *length),
        Call::Handle { does, restart } => handler::handle(step, *does, *restart)?,
        Call::Handled => handler::handled(),
        Call::Fork { .. } | Call::Thread { .. } | Call::Exec => Outcome::NoSlot,
    })
}

fn all(names: &[Slot]) -> Option<Vec<c_int>> {
    names.iter().map(|slot| slots::get(*slot)).collect()
}

fn pair(new: [Slot; 2], make: impl FnOnce(*mut c_int) -> c_int) -> Outcome {
    let mut numbers = [0; 2];
    if make(numbers.as_mut_ptr()) < 0 {
        return last();
    }
    slots::set(new[0], numbers[0]);
    slots::set(new[1], numbers[1]);
    Outcome::Descriptors(numbers.to_vec())
}

fn dup(number: c_int, new: Slot, by: DupBy) -> Option<Outcome> {
    let onto = |other: Option<Slot>| match other {
        Some(other) => slots::get(other),
        None => Some(DUP2_NUMBERS + c_int::from(new)),
    };
    // SAFETY: these take no pointers, and close at most the program's own descriptors.
    let copy = unsafe {
        match by {
            DupBy::Dup => libc::dup(number),
            DupBy::Dup2(other) => libc::dup2(number, onto(other)?),
            DupBy::Dup3(other) => libc::dup3(number, onto(other)?, libc::O_CLOEXEC),
            DupBy::Fcntl => libc::fcntl(number, libc::F_DUPFD, 0),
            DupBy::FcntlCloseOnExec => libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0),
        }
    };
    Some(named(new, copy))
}
