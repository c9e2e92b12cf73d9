//! Sets that several processes have since a fork.
//!
//! The kernel's part of such a set is one. Of our part each process has its own, made alike by the fork. What
//! a process changes in it from then on it writes into a [log](host::ChangeLog) in memory that the family shares,
//! if others have the socket, too; and everyone does the same in his own part before he waits in the set, or
//! changes it.
//!
//! Who sleeps is woken by the family's *bell*: an eventfd that is written to and never read. Each process
//! watches it by a descriptor of its own, the *news*, which tells each time that it was rung, edge-triggered.
//! So nobody has to know who is there, and nobody's wake-up depends on another.
//!
//! A bell that only one process may hear is not in the set itself, where others would be woken by it and could
//! do nothing about it. Who waits in a set of a family's sleeps *beside* it: in a set of its own, with that
//! one, the news and the sleeper's bells in it ([`sleep`](crate::objects::set::sleep)).
//!
//! A connection that others do not have is not told of: they have nothing that they could be told of. On the
//! kernel they would be. That is said, if they wait in the set.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use host::one_shot::Heir;
use host::{Change, LogReader, Readiness, Taken};
use rustix::io::Errno;

use super::opening;
use crate::engine::{report, session, settings};
use crate::kernel::lock::lock;
use crate::kernel::option::kernel_value;
use crate::numbers::table::{self, Held, number_of_set};
use crate::objects::set::bell::{self, Family};
use crate::objects::set::{self, Set};
use crate::objects::tcp::Tcp;
use crate::thread::inside;

/// Why another process is not told of a connection.
const NOT_TOLD: &str = "connections that other processes have not got were put into an epoll set in which these wait, too: they are not told of them";

/// Why a process may not know what is in a set.
const LOST: &str = "other processes have changed an epoll set more often than is remembered: this one may not know of all that is in it";

/// The same, for want of descriptors.
const NOT_FOLLOWED: &str = "there were no descriptors or watches left for an epoll set that other processes have changed: this one does not know of all that is in it";

/// What a process knows for itself.
struct Local {
    sets: Vec<Weak<Set>>,
    /// How many are kept before those that are gone are looked for.
    room: usize,
    reader: LogReader,
    /// Its number in the family; 0 if it has none yet.
    process: u32,
}

static LOCAL: Mutex<Local> = Mutex::new(Local {
    sets: Vec::new(),
    room: 0,
    reader: LogReader::new(),
    process: 0,
});

/// It has said that others are not told.
static SAID: AtomicBool = AtomicBool::new(false);

/// A new set of the program's, which children will have as well.
pub fn new_set() -> Arc<Set> {
    let set = Arc::default();
    // A handler would wait for the lock.
    inside::enter();
    let mut local = lock(&LOCAL);
    if local.sets.len() >= local.room {
        local.sets.retain(|set| set.strong_count() > 0);
        local.room = (2 * local.sets.len()).max(16);
    }
    local.sets.push(Arc::downgrade(&set));
    drop(local);
    inside::leave();
    set
}

/// A thread is about to wait in a set that is a family's: others may have changed it, and are to say so
/// from now on.
pub fn attend(set: &Set) {
    let Some(family) = bell::family() else { return };
    inherit(family);
    let mut local = lock(&LOCAL);
    let process = local.process(family);
    family.log.attend(set.kin.family(), process);
    local.catch_up(family);
}

/// Does what other members of the family have done, before a set of theirs is changed here.
pub fn catch_up() {
    if let Some(family) = bell::family() {
        inherit(family);
        lock(&LOCAL).catch_up(family);
    }
}

/// Before something is done that others have done, which may be to show a listener to the engine.
fn inherit(family: &Family) {
    if session::is_heir() && !lock(&LOCAL).reader.is_up_to_date(family.log) {
        session::inherit();
    }
}

/// As [`catch_up`], after [`news`](bell::news) were found readable.
pub fn heard() {
    let Some(family) = bell::family() else { return };
    inherit(family);
    // Before the log is read: what comes then rings anew.
    bell::take_news();
    let mut local = lock(&LOCAL);
    local.catch_up(family);
    // Who was to hear it and does not know our part yet may have missed it by what was consumed here.
    let unaware = |set: Arc<Set>| set.has_ours() && set.unaware.any();
    if local.living().any(unaware) {
        family.ring();
    }
}

/// This process has changed an interest in a set of its family's. `wanted` is `None` if it was taken out.
pub fn changed(set: &Set, (fd, tcp): (c_int, &Tcp), wanted: Option<Readiness>, data: u64) {
    let Some(family) = bell::family() else { return };
    let number = set.kin.family();
    let process = lock(&LOCAL).process(family);
    let socket = match identity(fd, tcp) {
        Some(socket) if others_have(tcp) => socket,
        _ => {
            if wanted.is_some()
                && family.log.others_attend(number, process) == Some(true)
                && !SAID.swap(true, Ordering::Relaxed)
            {
                report::remark(NOT_TOLD);
            }
            return;
        }
    };
    family.log.append(&Change {
        set: number,
        author: process,
        socket,
        key: fd as u64,
        // As in the part of ours that the process itself has.
        wanted: wanted.map(|wanted| wanted | Readiness::ALWAYS),
        data,
    });
    if family.log.others_attend(number, process) != Some(false) {
        family.ring();
    }
}

/// Whether other processes may have the socket as well.
fn others_have(tcp: &Tcp) -> bool {
    // A listener may be older than a fork, which is not known of it.
    tcp.stream().is_none_or(|stream| stream.socket.is_shared())
}

/// The number that a socket has in every process.
fn identity(fd: c_int, tcp: &Tcp) -> Option<u64> {
    let number = match tcp.stream() {
        Some(stream) => stream.socket.cookie(),
        None => kernel_value::<u64>(fd, libc::SOL_SOCKET, libc::SO_COOKIE).ok()?,
    };
    // One that is being opened has none yet.
    (number != 0).then_some(number)
}

impl Local {
    fn process(&mut self, family: &Family) -> u32 {
        if self.process == 0 {
            self.process = family.log.new_process();
        }
        self.process
    }

    fn living(&self) -> impl Iterator<Item = Arc<Set>> {
        self.sets.iter().filter_map(Weak::upgrade)
    }

    fn catch_up(&mut self, family: &Family) {
        if self.reader.is_up_to_date(family.log) {
            return;
        }
        let mut changes = Vec::new();
        if !self.reader.read(family.log, |change| changes.push(change)) {
            report::remark(LOST);
        }
        // Of what was done to one interest, the last is what holds.
        let mut decided = HashSet::new();
        changes.reverse();
        changes.retain(|it: &Change| decided.insert((it.set, it.socket, it.key)));
        changes.retain(|it| it.author != self.process);
        for change in changes.iter().rev() {
            let of_family = |set: &Arc<Set>| set.kin.family() == change.set;
            if let Some(set) = self.living().find(of_family) {
                // Whom this process has not got it cannot be told of.
                if follow(&set, change).is_err() {
                    report::remark(NOT_FOLLOWED);
                }
            }
        }
    }
}

/// Does in this process what another has done.
///
/// # Errors
/// There are no descriptors for that.
fn follow(set: &Arc<Set>, change: &Change) -> Result<(), Errno> {
    let (Some(held), Some(number)) = (find(change.socket), number_of_set(set, -1)) else {
        return Ok(());
    };
    if session::begin().is_none() {
        return Ok(());
    }
    let ready = &set.ours(number)?.ready;
    let taken = |wanted| Taken {
        key: change.key,
        wanted,
        data: change.data,
    };
    if let Some(stream) = held.stream() {
        let _ = ready.remove(&stream.socket, change.key);
        if let Some(wanted) = change.wanted {
            ready.put_back(&stream.socket, taken(wanted))?;
        }
    } else if let Some(listening) = held.listener() {
        let _ = ready.remove(&listening.listener, change.key);
        if let Some(wanted) = change.wanted {
            ready.put_back(&listening.listener, taken(wanted))?;
        }
    }
    Ok(())
}

/// The socket of this number, if this process has it.
fn find(socket: u64) -> Option<Held> {
    table::used(0, u32::MAX).find_map(|fd| {
        let held = table::get(fd)?;
        let tcp = held.tcp().filter(|tcp| tcp.is_offloaded())?;
        (identity(fd, tcp) == Some(socket)).then_some(held)
    })
}

/// Keeps other threads from what is known here, and from the sleepers of the sets, for the time of a fork.
#[expect(dead_code, reason = "held, not used")]
pub struct Quiet {
    local: MutexGuard<'static, Local>,
    sleepers: set::Quiet,
    news: bell::Quiet,
}

/// Before a fork. The sets that there are the child has, too.
pub fn before_fork() -> Quiet {
    let mut local = lock(&LOCAL);
    local.sets.retain(|set| set.strong_count() > 0);
    local
        .living()
        .for_each(|set| opening::opens(&set, Heir::Child));
    if !local.sets.is_empty()
        && settings::get().is_some()
        && let Some(family) = bell::establish()
    {
        // What was done by now, the child has done.
        local.catch_up(family);
        for set in local.living().filter(|set| !set.kin.are_there()) {
            set.kin.join(family.log.new_set());
        }
    }
    // After what is known here, and before the session's: so it is where one is about to sleep.
    let sleepers = set::quiet(local.living().collect());
    let news = bell::quiet();
    Quiet {
        local,
        sleepers,
        news,
    }
}

/// After a fork, in the parent: threads that sleep where they do not hear the news come out, and what wakes
/// this process alone does so beside its sets.
pub fn after_in_parent() {
    if bell::family().is_none() {
        return;
    }
    let sets: Vec<Arc<Set>> = lock(&LOCAL).living().collect();
    for set in sets {
        let asleep = set.kin.in_kernel.any();
        let in_it = || set.ours.get().is_some_and(|ours| ours.sleep.is_in_set());
        if (asleep || in_it())
            && let Some(number) = number_of_set(&set, -1)
        {
            let _ = come_out(&set, number, asleep);
        }
    }
}

/// Every thread of this process that sleeps in a set is to look around once.
pub fn call_all() {
    let sets: Vec<Arc<Set>> = lock(&LOCAL).living().collect();
    for set in sets {
        if set.unaware.any()
            && let Some(number) = number_of_set(&set, -1)
        {
            // These hear of nothing else.
            let _ = come_out(&set, number, true);
        }
        if let Some(ours) = set.ours.get() {
            ours.sleep.call_all();
        }
    }
}

fn come_out(set: &Set, number: c_int, asleep: bool) -> Result<(), Errno> {
    session::begin().ok_or(Errno::NOMEM)?;
    let ours = set.ours(number)?;
    match asleep {
        true => ours.sleep.call(&set.kin, number),
        false => {
            ours.sleep.leave_set(number);
            Ok(())
        }
    }
}

/// After a fork, in the child, of which the other threads are no part.
pub fn after_in_child() {
    let mut local = lock(&LOCAL);
    local.process = 0;
    bell::forget_news();
    for set in local.living() {
        set.kin.in_kernel.forget();
    }
}
