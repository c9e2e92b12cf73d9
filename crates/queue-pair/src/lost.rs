//! Pages that the kernel cannot give when they are touched.
//!
//! The size of a region is sealed; its pages are not. They come when they are first touched, and whoever
//! has the region can give them back (`FALLOC_FL_PUNCH_HOLE`, `MADV_REMOVE`), so that the next touch
//! makes a new one. Where the kernel has none to give (`vm.overcommit_memory = 2`), or the machine's
//! memory is broken there, a touch is answered by SIGBUS, which ends a process that is not prepared.
//!
//! An engine is: a memory that is [`watch`]ed has a page of zeros put in the place of each that is
//! missing, the access goes on, and the memory [says so](Watched::is_lost) from then on. What was read
//! there is not what the other side wrote, and what was written it does not see: its session is to end.
//! No other session has a part in that.
//!
//! (A limit of the engine's cgroup is another matter: the kernel then ends a process in that cgroup,
//! and asks nobody. What an engine may be made to touch has to fit; see `Limits`.)

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::page::PAGE;

/// Memories that can be watched at a time: twice as many as an engine has sessions.
const MOST: usize = 8_192;
/// Pages kept for when even those have run out by which missing ones are replaced. A kernel that
/// accounts for memory strictly has accounted for them; they use none before that.
const RESERVE: usize = 1_024;

/// A watched stretch of memory.
#[derive(Default)]
struct Stretch {
    /// Where it begins; 0: nothing is watched here.
    at: AtomicUsize,
    len: AtomicUsize,
    lost: AtomicBool,
}

/// What the handler of SIGBUS looks at. It may run at any time on any thread, so nothing here waits.
struct Watch {
    stretches: Box<[Stretch]>,
    /// No slot from here on was ever taken.
    used: AtomicUsize,
    reserve: AtomicPtr<c_void>,
    /// Pages taken out of the reserve.
    taken: AtomicUsize,
    /// How often a page was missing.
    count: AtomicU64,
    /// What was done about the signal before.
    former: libc::sigaction,
}

static WATCH: OnceLock<Watch> = OnceLock::new();
/// Held while what is watched changes; the handler does without.
static CHANGES: Mutex<()> = Mutex::new(());

/// A stretch of memory that is watched for as long as this lives.
#[derive(Debug)]
pub(crate) struct Watched(usize);

/// How often a page was missing in any watched memory of this process. A worker that sees it change
/// looks for the memory that [has lost one](crate::EngineSide::is_lost).
#[inline]
pub fn pages_lost() -> u64 {
    WATCH
        .get()
        .map_or(0, |watch| watch.count.load(Ordering::Relaxed))
}

/// Watches `len` bytes at `at`, a mapping of whole pages that is not unmapped before the watch ends.
/// The first call of a process installs the handler.
///
/// # Errors
/// `OutOfMemory`: as many are watched as can be. The kernel's, when it does not let the signal be
/// handled.
pub(crate) fn watch(at: *const u8, len: usize) -> io::Result<Watched> {
    let _changes = changes();
    let watch = match WATCH.get() {
        Some(watch) => watch,
        None => begin()?,
    };
    watch.fill_reserve();
    let free = |stretch: &Stretch| stretch.at.load(Ordering::Relaxed) == 0;
    let slot = watch.stretches.iter().position(free);
    let slot = slot.ok_or(io::ErrorKind::OutOfMemory)?;
    let stretch = &watch.stretches[slot];
    stretch.lost.store(false, Ordering::Relaxed);
    stretch.len.store(len, Ordering::Relaxed);
    stretch.at.store(at.expose_provenance(), Ordering::Release);
    watch.used.fetch_max(slot + 1, Ordering::Release);
    Ok(Watched(slot))
}

impl Watched {
    /// Whether a page of it was missing, and is zeros of this process alone since.
    pub(crate) fn is_lost(&self) -> bool {
        let stretch = WATCH.get().map(|watch| &watch.stretches[self.0]);
        stretch.is_some_and(|stretch| stretch.lost.load(Ordering::Relaxed))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _changes = changes();
        if let Some(watch) = WATCH.get() {
            watch.stretches[self.0].at.store(0, Ordering::Release);
        }
    }
}

fn changes() -> MutexGuard<'static, ()> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler, before there is anything that it would find.
fn begin() -> io::Result<&'static Watch> {
    // SAFETY: a sigaction of zeros is one: the default, with an empty mask.
    let mut former: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: asks only; `former` is a place for one.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut former) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let watch = WATCH.get_or_init(|| Watch {
        stretches: (0..MOST).map(|_| Stretch::default()).collect(),
        used: AtomicUsize::new(0),
        reserve: AtomicPtr::new(ptr::null_mut()),
        taken: AtomicUsize::new(RESERVE),
        count: AtomicU64::new(0),
        former,
    });
    // SAFETY: as above.
    let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ours.sa_sigaction = on_sigbus as *const () as libc::sighandler_t;
    // On the stack that a thread has set aside for signals, if it has.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and calls nothing that must not
    // be called in one: it reads and writes atomics, and makes system calls.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(watch)
}

impl Watch {
    /// Makes a new reserve when half of the old one is gone. Without one the machine has no memory
    /// left, and what is there has to do.
    fn fill_reserve(&self) {
        if self.taken.load(Ordering::Relaxed) < RESERVE / 2 {
            return;
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
        let made = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), RESERVE * PAGE, access, MapFlags::PRIVATE)
        };
        if let Ok(pages) = made {
            self.reserve.store(pages, Ordering::Release);
            self.taken.store(0, Ordering::Release);
        }
    }

    /// Puts a page of zeros where one is missing at the address `at`; false if that is nowhere that is
    /// watched, or there is no page to be had.
    fn replace(&self, at: usize) -> bool {
        let used = self.used.load(Ordering::Acquire);
        let within = |stretch: &&Stretch| {
            let start = stretch.at.load(Ordering::Acquire);
            start != 0 && (start..start + stretch.len.load(Ordering::Relaxed)).contains(&at)
        };
        let Some(stretch) = self.stretches[..used].iter().find(within) else {
            return false;
        };
        let page = ptr::with_exposed_provenance_mut::<c_void>(at & !(PAGE - 1));
        let replaced = self.new_page(page) || self.spare_page(page);
        if replaced {
            stretch.lost.store(true, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        replaced
    }

    fn new_page(&self, page: *mut c_void) -> bool {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let how = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: it takes the place of a page of a mapping that this process has for sharing bytes
        // which anybody may change at any time; whoever has a pointer there finds other such bytes.
        unsafe { rustix::mm::mmap_anonymous(page, PAGE, access, how) }.is_ok()
    }

    fn spare_page(&self, page: *mut c_void) -> bool {
        let taken = self.taken.fetch_add(1, Ordering::AcqRel);
        let reserve = self.reserve.load(Ordering::Acquire);
        if taken >= RESERVE || reserve.is_null() {
            return false;
        }
        let spare = reserve.wrapping_byte_add(taken * PAGE);
        // SAFETY: nobody has a pointer to the spare page, and each is moved once: a second time it is
        // not there, and the call fails. For the place that it is moved to, see `new_page`.
        unsafe { rustix::mm::mremap_fixed(spare, PAGE, PAGE, MremapFlags::MAYMOVE, page) }.is_ok()
    }
}

/// Answers SIGBUS. Returning repeats the access.
extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(watch) = WATCH.get() else {
        return;
    };
    // SAFETY: with SA_SIGINFO the kernel passes a siginfo_t, and that of a SIGBUS that it sends has an
    // address. One that a process has sent has none, and code 0 or less.
    let at = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr().addr()) };
    if at.is_some_and(|at| watch.replace(at)) {
        return;
    }
    let former = watch.former.sa_sigaction;
    if former == libc::SIG_DFL || former == libc::SIG_IGN {
        // SAFETY: as in `begin`. The access is repeated, and ends the process.
        unsafe {
            let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(signal, &raw const default, ptr::null_mut());
        }
        return;
    }
    if watch.former.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: whoever installed it said that it has this signature, and was to get this signal.
        let former: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { core::mem::transmute(former) };
        former(signal, info, context);
    } else {
        // SAFETY: as above.
        let former: extern "C" fn(c_int) = unsafe { core::mem::transmute(former) };
        former(signal);
    }
}

/// Makes every page of a watched memory missing, of which there is a file at `fd`: as if the machine had
/// no memory. For tests, since a machine that has none is nothing to test on.
///
/// # Errors
/// It is not watched, or the kernel's.
#[doc(hidden)]
pub fn lose_pages(fd: impl AsFd) -> io::Result<()> {
    let _changes = changes();
    let inode = rustix::fs::fstat(fd)?.st_ino;
    let watch = WATCH.get().ok_or(io::ErrorKind::NotFound)?;
    let mapped = std::fs::read_to_string("/proc/self/maps")?;
    for stretch in &watch.stretches {
        let (at, len) = (
            stretch.at.load(Ordering::Acquire),
            stretch.len.load(Ordering::Relaxed),
        );
        // Fields of a line: addresses, access, offset, device, inode, name.
        let line = |line: &&str| line.starts_with(&format!("{at:08x}-"));
        let is_its = mapped
            .lines()
            .find(line)
            .is_some_and(|line| line.split_whitespace().nth(4) == Some(inode.to_string().as_str()));
        if at == 0 || !is_its {
            continue;
        }
        let empty = rustix::fs::memfd_create("empty", rustix::fs::MemfdFlags::CLOEXEC)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let how = MapFlags::SHARED | MapFlags::FIXED;
        let page = ptr::with_exposed_provenance_mut::<c_void>(at);
        // SAFETY: as in `Watch::new_page`; a touch raises SIGBUS, which is handled.
        unsafe { rustix::mm::mmap(page, len, access, how, empty, 0) }?;
        return Ok(());
    }
    Err(io::ErrorKind::NotFound.into())
}
