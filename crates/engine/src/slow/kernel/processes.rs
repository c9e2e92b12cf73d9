//! Which process has a number: numbers are given again.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

/// Since the machine was started.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    // That clock begins at 0.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Why there is no descriptor of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwatched {
    /// It has ended, and another one may have its number.
    Gone,
    /// It may be there.
    Unknown(Errno),
}

impl From<Errno> for Unwatched {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH => Self::Gone,
            errno => Self::Unknown(errno),
        }
    }
}

/// A descriptor of the process that had this number at a time [since the machine was started](since_boot).
///
/// # Errors
/// There is none, for the reason given. A process of another PID namespace has no number.
pub fn descriptor_of(pid: u32, then: Duration) -> Result<OwnedFd, Unwatched> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(Unwatched::Unknown(Errno::INVAL))?;
    let opened = pidfd_open(pid, PidfdFlags::empty())?;
    // Afterwards: what is opened keeps its number for as long as it lives.
    match began(pid.as_raw_pid().unsigned_abs()) {
        Some(began) if began > then => Err(Unwatched::Gone),
        _ => Ok(opened),
    }
}

/// When the process with this number began, as proc_pid_stat(5) has it, in ticks; `None` if that is not told.
fn began(pid: u32) -> Option<Duration> {
    // What follows the name, which ends with the last parenthesis and may have some itself, begins with field 3.
    const START: usize = 22 - 3;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').nth(START)?.parse().ok()?;
    let in_a_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_millis(
        ticks.checked_mul(1000)? / in_a_second,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_began_later_is_not_the_one_that_had_the_number() {
        let own = std::process::id();
        assert!(descriptor_of(own, since_boot()).is_ok());
        let refused = |pid, then| descriptor_of(pid, then).expect_err("there is none");
        // As if this one had got the number of one that ended long ago.
        assert_eq!(refused(own, Duration::ZERO), Unwatched::Gone);
        assert_eq!(refused(1 << 30, since_boot()), Unwatched::Gone);
        let of_another_namespace = refused(0, since_boot());
        assert_eq!(of_another_namespace, Unwatched::Unknown(Errno::INVAL));
        let began = began(own).expect("it is told");
        assert!(began <= since_boot() && !began.is_zero());
    }
}
