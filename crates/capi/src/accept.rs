//! Accepting, and who is admitted.

use libc::{c_int, size_t};
use native::{AdmissionLimit, AdmissionPolicy, Errno};

use crate::queue::{ObQueue, within};
use crate::receive::ObSpan;
use crate::spans::Span;
use crate::things::{ObSetting, make, read_settings};
use crate::{code, number};

/// Bits of an address that make a prefix, where C says nothing.
const BITS_V4: u8 = 32;
const BITS_V6: u8 = 64;

/// `ob_limit`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObLimit {
    per_second: u32,
    burst: u32,
    in_flight: u32,
}

/// `ob_admission`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObAdmission {
    all: ObLimit,
    each: ObLimit,
    bits_v4: u8,
    bits_v6: u8,
    reset: u8,
    unused: [u8; 5],
}

/// `ob_admitted`.
#[repr(C)]
pub struct ObAdmitted {
    by_engine: u32,
    unused: u32,
    accepts: u64,
    in_flight: u64,
    refused_by_rate: u64,
    refused_by_count: u64,
    refused_by_prefix: u64,
}

// As outboard.h says.
const _: () = assert!(size_of::<ObAdmission>() == 32 && size_of::<ObAdmitted>() == 48);

impl TryFrom<ObAdmission> for AdmissionPolicy {
    type Error = Errno;
    fn try_from(given: ObAdmission) -> Result<Self, Errno> {
        if given.unused != [0; 5] || given.reset > 1 {
            return Err(Errno::INVAL);
        }
        let limit = |limit: ObLimit| AdmissionLimit {
            per_second: limit.per_second,
            burst: limit.burst,
            in_flight: limit.in_flight,
        };
        let bits = |given: u8, otherwise| if given == 0 { otherwise } else { given };
        Ok(Self {
            all: limit(given.all),
            each: limit(given.each),
            bits_v4: bits(given.bits_v4, BITS_V4),
            bits_v6: bits(given.bits_v6, BITS_V6),
            reset: given.reset == 1,
        })
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `out` NULL or room for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_accept(
    queue: *mut ObQueue,
    listener: u64,
    cookie: u64,
    out: *mut u64,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        make(queue, out, |inside| {
            inside.queue.accept(inside.handle(listener), cookie)
        })
    }
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue; `settings` is NULL or points to `count` settings; `out` is NULL or room
/// for a handle, `first` NULL or room for a span.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_accept_with(
    queue: *mut ObQueue,
    listener: u64,
    settings: *const ObSetting,
    count: size_t,
    cookie: u64,
    out: *mut u64,
    limit: size_t,
    first: *mut ObSpan,
) -> c_int {
    if out.is_null() || (limit == 0 && !first.is_null()) {
        return number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let accepted = unsafe {
        within(queue, |inside| {
            let settings = read_settings(settings, count)?;
            let listener = inside.handle(listener);
            if first.is_null() {
                let accepted = inside.queue.accept_with(listener, &settings, cookie)?;
                return Ok((inside.number(accepted), None));
            }
            let (accepted, view) = inside
                .queue
                .accept_with_data(listener, &settings, limit, cookie)?;
            let Some(view) = view else {
                return Ok((inside.number(accepted), None));
            };
            let place = view.bytes()?;
            let (data, len) = (place.as_ptr(), place.len());
            let id = inside.spans.insert(accepted, Span::View(view));
            Ok((inside.number(accepted), Some(ObSpan::new(data, len, id))))
        })
    };
    code(accepted.map(|(accepted, view)| {
        // SAFETY: `out` is room for a handle.
        unsafe { out.write(accepted) };
        if !first.is_null() {
            let none = || ObSpan::new(std::ptr::null(), 0, 0);
            // SAFETY: `first` is room for a span.
            unsafe { first.write(view.unwrap_or_else(none)) };
        }
    }))
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `policy` NULL or a policy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_set_admission(
    queue: *mut ObQueue,
    listener: u64,
    policy: *const ObAdmission,
) -> c_int {
    // SAFETY: as the caller promises.
    code(unsafe {
        within(queue, |inside| {
            let policy = policy
                .as_ref()
                .copied()
                .map_or_else(|| Ok(AdmissionPolicy::default()), AdmissionPolicy::try_from)?;
            inside.queue.set_admission(inside.handle(listener), policy)
        })
    })
}

/// See outboard.h.
///
/// # Safety
/// `queue` is NULL or a queue, `out` NULL or room for the counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ob_get_admitted(
    queue: *mut ObQueue,
    listener: u64,
    out: *mut ObAdmitted,
) -> c_int {
    if out.is_null() {
        return number(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let counts = unsafe {
        within(queue, |inside| {
            inside.queue.admitted(inside.handle(listener))
        })
    };
    code(counts.map(|counts| {
        let told = ObAdmitted {
            by_engine: counts.by_engine.into(),
            unused: 0,
            accepts: counts.accepts,
            in_flight: counts.in_flight,
            refused_by_rate: counts.refused_by_rate,
            refused_by_count: counts.refused_by_count,
            refused_by_prefix: counts.refused_by_prefix,
        };
        // SAFETY: `out` is room for the counts.
        unsafe { out.write(told) };
    }))
}
