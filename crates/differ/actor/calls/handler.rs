//! What happens at SIGUSR1: nothing, or a call on a descriptor.
//!
//! The handler takes no lock and no memory. What it needs is made before, and what its calls return is kept in
//! words.

use crate::errors::name;
use crate::slots;
use differ::outcome::{Outcome, step_tag, text};
use differ::program::Handler;
use std::ffi::c_int;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// What the handler does.
struct Does {
    number: c_int,
    /// What it writes. `None`: it reads.
    text: Option<String>,
    most: usize,
}

static DOES: AtomicPtr<Does> = AtomicPtr::new(null_mut());

/// What its calls have returned.
#[derive(Clone, Copy)]
struct Returned {
    value: isize,
    errno: c_int,
    bytes: [u8; Handler::MOST as usize],
    reads: bool,
}

/// Of so many between two questions; what comes after is not kept.
const KEPT: usize = 8;

/// Written by the handler alone, each time at a place of its own, and read where it does not run.
static mut RETURNED: [Returned; KEPT] = [Returned {
    value: 0,
    errno: 0,
    bytes: [0; Handler::MOST as usize],
    reads: false,
}; KEPT];

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Catches SIGUSR1, with these flags.
pub fn catch(flags: c_int) {
    // SAFETY: the handler may run at any time.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = does as extern "C" fn(c_int) as usize;
        action.sa_flags = flags;
        libc::sigaction(libc::SIGUSR1, &raw const action, null_mut());
    }
}

extern "C" fn does(_signal: c_int) {
    // SAFETY: whatever is there stays for ever.
    let Some(does) = (unsafe { DOES.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let mut returned = Returned {
        value: 0,
        errno: 0,
        bytes: [0; Handler::MOST as usize],
        reads: does.text.is_none(),
    };
    // SAFETY: whole buffers; errno is the thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        returned.value = match &does.text {
            Some(text) => {
                let (at, length) = (text.as_ptr().cast(), text.len());
                libc::send(does.number, at, length, libc::MSG_NOSIGNAL)
            }
            None => libc::recv(
                does.number,
                returned.bytes.as_mut_ptr().cast(),
                does.most,
                0,
            ),
        };
        if returned.value < 0 {
            returned.errno = *errno;
        }
        *errno = before;
        // While one sleeps in its call, another may run in another thread.
        let count = COUNT.fetch_add(1, Ordering::AcqRel);
        if count < KEPT {
            let kept = (&raw mut RETURNED).cast::<Returned>();
            kept.add(count).write(returned);
        }
    }
}

/// From now on the handler does this.
pub fn handle(step: usize, handler: Handler, restart: bool) -> Option<Outcome> {
    let does = match handler {
        Handler::Nothing => None,
        Handler::Receive(slot, most) => Some(Does {
            number: slots::get(slot)?,
            text: None,
            most: most.min(Handler::MOST).into(),
        }),
        Handler::Send(slot, length) => Some(Does {
            number: slots::get(slot)?,
            text: Some(text(step_tag(step), 0, length.into())),
            most: 0,
        }),
    };
    // One that runs now may use the former: it is never freed.
    let does = does.map_or(null_mut(), |does| Box::into_raw(Box::new(does)));
    DOES.store(does, Ordering::Release);
    catch(if restart { libc::SA_RESTART } else { 0 });
    Some(Outcome::Value(0))
}

/// What its calls have returned since this was last asked.
pub fn handled() -> Outcome {
    let count = COUNT.swap(0, Ordering::Acquire);
    // SAFETY: no step is taken while the handler runs.
    let kept = unsafe { (&raw const RETURNED).read() };
    let said = kept.iter().take(count).map(|returned| {
        let call = if returned.reads { "recv" } else { "send" };
        match usize::try_from(returned.value) {
            Ok(read) if returned.reads => {
                let bytes = String::from_utf8_lossy(&returned.bytes[..read]);
                format!("{call} {bytes:?}")
            }
            Ok(written) => format!("{call} {written}"),
            Err(_) => format!("{call} {}", name(returned.errno)),
        }
    });
    Outcome::Text(format!(
        "{count} calls: {}",
        said.collect::<Vec<_>>().join(", ")
    ))
}
