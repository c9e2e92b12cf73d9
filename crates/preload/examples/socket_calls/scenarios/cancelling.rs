//! Threads that are cancelled in calls on what is the kernel's, and in what libc does for them.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;

use super::Stage;
use super::interruptions::{
    Start, Work, cancel, polls, receives, selects, start, started, waits_in_a_set,
};
use crate::calls;

// A thread that is cancelled in this unwinds.
unsafe extern "C-unwind" {
    fn epoll_pwait2(
        set: c_int,
        events: *mut libc::epoll_event,
        most: c_int,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int;
}

/// What a thread was started with.
fn given(work: *mut c_void) -> (c_int, c_int) {
    started();
    // SAFETY: the starter's work.
    let work = unsafe { &*work.cast::<Work>() };
    (work.fd, work.set)
}

fn ended(result: c_int) -> *mut c_void {
    result as usize as *mut c_void
}

extern "C-unwind" fn waits_to_the_nanosecond(work: *mut c_void) -> *mut c_void {
    let (_, set) = given(work);
    // SAFETY: room for an event.
    unsafe {
        let mut event: libc::epoll_event = zeroed();
        let none = std::ptr::null();
        ended(epoll_pwait2(set, &raw mut event, 1, none, none.cast()))
    }
}

/// A set with nothing of the engine's in it, in which several wait.
pub fn in_a_set(stage: &mut Stage<'_>) {
    // SAFETY: room for two numbers, and own descriptors and events.
    let (set, pipe) = unsafe {
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        let set = libc::epoll_create1(0);
        let mut event: libc::epoll_event = zeroed();
        event.events = libc::EPOLLIN as u32;
        libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, pipe[0], &raw mut event);
        (set, pipe)
    };
    let others = [(); 3].map(|()| {
        std::thread::spawn(move || {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: room for an event.
            unsafe { libc::epoll_wait(set, &raw mut event, 1, calls::HANG) }
        })
    });
    let mut work = Work { fd: -1, set };
    for asleep in [true, false] {
        cancel(stage, "epoll_wait", waits_in_a_set, &mut work, asleep);
        let precisely = waits_to_the_nanosecond;
        cancel(stage, "epoll_pwait2", precisely, &mut work, asleep);
    }
    // Who is not cancelled waits on.
    // SAFETY: an own descriptor and a byte.
    unsafe { libc::write(pipe[1], c"x".as_ptr().cast(), 1) };
    for other in others {
        let found = other.join().expect("it ends");
        stage.transcript.note(format_args!("another found {found}"));
    }
    for fd in [set, pipe[0], pipe[1]] {
        // SAFETY: own descriptors.
        unsafe { libc::close(fd) };
    }
}

/// On a connection on which others wait in the same calls.
pub fn beside_others(stage: &mut Stage<'_>, fd: c_int) {
    let ways: [(&str, Start); 3] = [("recv", receives), ("poll", polls), ("select", selects)];
    let mut work = Work { fd, set: -1 };
    let others = ways.map(|(_, way)| [(); 2].map(|()| start(way, &mut work)));
    for (name, way) in ways {
        cancel(stage, name, way, &mut work, true);
    }
    stage.agent.tell("close");
    for (other, (name, _)) in others.into_iter().zip(ways) {
        for one in other {
            let mut ended = std::ptr::null_mut();
            // SAFETY: a thread that was started and not joined.
            unsafe { libc::pthread_join(one, &raw mut ended) };
            let ended = ended as isize;
            stage
                .transcript
                .note(format_args!("another {name}: {ended}"));
        }
    }
}
