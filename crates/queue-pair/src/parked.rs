//! How threads sleep on one connection, however many sleep on others: each by a word of its own, in
//! which the other side wakes it by the kernel's futex. No descriptor is needed, and nobody else wakes.
//!
//! | the thread | the other side |
//! | --- | --- |
//! | S1: [`set`]: the word says `PARKED` | W1: publishes news of the connection |
//! | S2: `fence(SeqCst)` | W2: `fence(SeqCst)`, once for all that it has published |
//! | S3: looks for news once more | W3: [`wake`]: `PARKED` becomes `WOKEN`, and the futex is woken |
//! | S4: [`sleep`]: only while the word says `PARKED` | |
//! | S5: [`set`]: the word says `NOBODY`; fence; it looks once more | |
//!
//! That no wake-up is lost up to S4 is the argument at [`crate::armed`]. A word that says `WOKEN` means
//! that its thread is on its way to S5, where it looks for what was published meanwhile: so the other
//! side has nothing to do. If it says `NOBODY`, others may have to be woken, by the armed word.
//!
//! Several threads may sleep by one word. Once it says `WOKEN` it says so until the last of them is at S5:
//! one that was between S3 and S4 would sleep if another, which has taken the news in, made it `PARKED`
//! again ([`set_beside_others`]).
//!
//! The word says, too, for how much [room] somebody waits, if anybody does, by the word or by other means:
//! most connections can take more than their programs have, and a program is not woken for each acknowledgement of what
//! it has sent. That is said after S3, and whoever waits for room has said in S1 that it wants everything.
//!
//! A hostile side can lose the other's wake-ups, or wake it for nothing: that hurts its own connection
//! alone.

#[cfg(not(loom))]
use std::time::Duration;

#[cfg(not(loom))]
use rustix::io::Errno;
#[cfg(not(loom))]
use rustix::thread::futex;
#[cfg(not(loom))]
use rustix::time::Timespec;

use crate::room::{self, NOBODY, PARKED, PARKED_FOR_URGENT, WOKEN, concerns};
use crate::sync::{AtomicU32, Ordering, fence};

/// News of a connection, by who has to be woken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// Some room to send into, which can wait for more.
    Room,
    /// Room that is worth waking for whoever waits for it.
    MuchRoom,
    /// Everything else: data, an end, an answer.
    Urgent,
}

/// What those who sleep by a word are to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wants {
    /// Nobody sleeps.
    Nothing,
    /// Data, an end, much room: not for room that can wait for more.
    Urgent,
    /// Whatever there is.
    All,
}

impl Wants {
    fn word(self) -> u32 {
        match self {
            Self::Nothing => NOBODY,
            Self::Urgent => PARKED_FOR_URGENT,
            Self::All => PARKED,
        }
    }
}

/// Says what those who sleep, or are about to, are to be woken for. Whoever is about to sleep looks for
/// news once more, and sleeps only if there is none; whoever is awake looks afterwards, too.
pub fn set(word: &AtomicU32, wants: Wants) {
    #[cfg(not(loom))]
    word.store(wants.word(), Ordering::Relaxed);
    // The model has no order between a store and a swap that it happens beside, and takes what the swap has left for
    // newer.
    #[cfg(loom)]
    word.swap(wants.word(), Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// As [`set`], where others sleep by this word, or are about to: they are woken for no less than before. False: they
/// were woken, and as long as one of them has not gone that is what the word says, or that nobody sleeps: somebody who
/// had come too late to wake others before them has taken back what he said, after a second had said the same to these.
/// For how much room somebody waits, if it says that, it goes on to say.
pub fn set_beside_others(word: &AtomicU32, wants: Wants) -> bool {
    let asleep = |now| match now {
        PARKED_FOR_URGENT => Some(wants.word()),
        now => room::is_asleep(now).then_some(now),
    };
    let set = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, asleep);
    fence(Ordering::SeqCst);
    set.is_ok()
}

/// One goes, and those who go on to sleep by this word want no more than that: for an engine that has no words for how
/// much room they wait for ([`SLEEPERS_SAY_SINCE`](room::SLEEPERS_SAY_SINCE)). Where it has, the word says what it said.
pub fn leave_to_others(word: &AtomicU32, wants: Wants) {
    // Where they were woken, they have to see it.
    let asleep = |now| room::is_asleep(now).then_some(wants.word());
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, asleep);
    fence(Ordering::SeqCst);
}

/// Whether somebody sleeps by this word, or is about to: a hint.
pub fn is_asleep(word: &AtomicU32) -> bool {
    room::is_asleep(word.load(Ordering::Relaxed))
}

/// Sleeps until [`wake`], at most `limit`.
///
/// # Errors
/// `EINTR`: a signal was handled. `ETIMEDOUT`: the time is over.
#[cfg(not(loom))]
pub fn sleep(word: &AtomicU32, limit: Option<Duration>) -> Result<(), Errno> {
    // Not private: the other side is another process.
    sleep_by(word, limit, |word, asleep, limit| {
        futex::wait(word, futex::Flags::empty(), asleep, limit)
    })
}

/// The same by a way of the caller's to make the call FUTEX_WAIT, which is not for this process alone: with
/// the word, what it says while one is to sleep, and the longest.
///
/// # Errors
/// As [`sleep`].
#[cfg(not(loom))]
pub fn sleep_by(
    word: &AtomicU32,
    limit: Option<Duration>,
    wait: impl FnOnce(&AtomicU32, u32, Option<&Timespec>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    // If that is changed before the call has begun, it does not wait.
    let asleep = word.load(Ordering::Relaxed);
    if !room::is_asleep(asleep) {
        return Ok(());
    }
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match wait(word, asleep, limit.as_ref()) {
        Ok(()) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// What [`wake`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nobody sleeps by this word.
    Nobody,
    /// Those who do were woken.
    Parked,
    /// They were woken before, and will look; or this is not what anybody waits for.
    NothingToDo,
}

/// Wakes who sleeps by this word, if he wants to be for such news. Of what is `acked` in all, if it is about that, the
/// word says how much is waited for. A `fence(SeqCst)` stands between what it is woken for and this.
pub fn wake(word: &AtomicU32, news: News, acked: Option<u64>) -> Found {
    match word.load(Ordering::Relaxed) {
        WOKEN => Found::NothingToDo,
        PARKED_FOR_URGENT if news == News::Room => Found::NothingToDo,
        said if news != News::Urgent && !concerns(said, acked) => Found::NothingToDo,
        said if room::is_asleep(said) => match word.swap(WOKEN, Ordering::Relaxed) {
            WOKEN => Found::NothingToDo,
            // It may say another count by now.
            asleep if room::is_asleep(asleep) => {
                // It fails for no word of ours. In the model nobody sleeps but by what the word says.
                #[cfg(not(loom))]
                let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
                Found::Parked
            }
            // Who has changed it since is awake, and looks.
            _ => {
                nobody_was_asleep(word);
                Found::Nobody
            }
        },
        _ => Found::Nobody,
    }
}

/// Takes back that somebody was woken, for he was awake by then. What the word said in between is not restored: it
/// may have been calm, and somebody may have begun to wait for room since, who could not [say](crate::room::say) so.
fn nobody_was_asleep(word: &AtomicU32) {
    let _ = word.compare_exchange(WOKEN, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::room::{Awaits, say, say_if_awake};

    #[test]
    fn whoever_sleeps_is_woken_once_and_whoever_is_on_his_way_is_left_alone() {
        let word = AtomicU32::new(NOBODY);
        assert_eq!(wake(&word, News::Urgent, None), Found::Nobody);
        set(&word, Wants::All);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep(&word, None));
            assert_eq!(wake(&word, News::Room, None), Found::Parked);
            assert_eq!(sleeper.join().unwrap(), Ok(()));
        });
        assert_eq!(wake(&word, News::Urgent, None), Found::NothingToDo);
        set(&word, Wants::Nothing);
        assert_eq!(wake(&word, News::Urgent, None), Found::Nobody);
        set(&word, Wants::Urgent);
        assert_eq!(wake(&word, News::Room, None), Found::NothingToDo);
        let limit = Some(Duration::from_millis(1));
        assert_eq!(sleep(&word, limit), Err(Errno::TIMEDOUT));
        assert_eq!(wake(&word, News::Urgent, None), Found::Parked);
        assert_eq!(sleep(&word, limit), Ok(()), "it was woken before it slept");
    }

    #[test]
    fn who_comes_or_goes_takes_no_wake_up_from_others() {
        let word = AtomicU32::new(NOBODY);
        set(&word, Wants::Urgent);
        assert!(set_beside_others(&word, Wants::All));
        assert_eq!(wake(&word, News::Room, None), Found::Parked);
        // One goes, and one comes, before another has slept.
        assert!(!set_beside_others(&word, Wants::Urgent));
        assert!(!set_beside_others(&word, Wants::All));
        let limit = Some(Duration::from_millis(1));
        assert_eq!(sleep(&word, limit), Ok(()));
        // The last goes.
        set(&word, Wants::Nothing);
        assert_eq!(wake(&word, News::Urgent, None), Found::Nobody);
    }

    #[test]
    fn who_comes_or_goes_leaves_others_what_they_are_woken_for() {
        let word = AtomicU32::new(NOBODY);
        let is_woken_for = |news| wake(&word, news, Some(9)) == Found::Parked;
        set(&word, Wants::All);
        assert!(set_beside_others(&word, Wants::Urgent));
        assert!(is_woken_for(News::Room));
        set(&word, Wants::Urgent);
        assert!(set_beside_others(&word, Wants::Urgent));
        assert!(!is_woken_for(News::Room));
        say(&word, Awaits::Until(10));
        for wants in [Wants::Urgent, Wants::All] {
            assert!(set_beside_others(&word, wants));
            assert!(!is_woken_for(News::MuchRoom));
        }
        say(&word, Awaits::Until(9));
        assert!(is_woken_for(News::Room));
        // An older engine knows only whether they want everything.
        set(&word, Wants::All);
        leave_to_others(&word, Wants::Urgent);
        assert!(!is_woken_for(News::Room) && is_woken_for(News::MuchRoom));
        leave_to_others(&word, Wants::All);
        let limit = Some(Duration::from_millis(1));
        assert_eq!(sleep(&word, limit), Ok(()), "it was woken before");
    }

    #[test]
    fn who_was_woken_is_so_whatever_becomes_of_an_earlier_wake_up() {
        let limit = Some(Duration::from_millis(1));
        for comes in [false, true] {
            let word = AtomicU32::new(NOBODY);
            // One who wakes has seen somebody asleep, who goes before he is woken.
            set(&word, Wants::All);
            set(&word, Wants::Nothing);
            assert_eq!(word.swap(WOKEN, Ordering::Relaxed), NOBODY);
            // Another comes, and is woken by a second before it sleeps.
            set(&word, Wants::All);
            assert_eq!(wake(&word, News::Urgent, None), Found::Parked);
            nobody_was_asleep(&word);
            match comes {
                true => assert!(!set_beside_others(&word, Wants::All)),
                false => leave_to_others(&word, Wants::All),
            }
            assert_eq!(sleep(&word, limit), Ok(()), "it was woken before it slept");
        }
    }

    #[test]
    fn of_room_those_are_told_who_wait_for_so_much() {
        let word = AtomicU32::new(NOBODY);
        say(&word, Awaits::Nothing);
        assert_eq!(wake(&word, News::MuchRoom, Some(9)), Found::NothingToDo);
        assert_eq!(wake(&word, News::Urgent, None), Found::Nobody);
        say(&word, Awaits::Until(10));
        for news in [News::Room, News::MuchRoom] {
            assert_eq!(wake(&word, news, Some(9)), Found::NothingToDo);
            assert_eq!(wake(&word, news, Some(10)), Found::Nobody);
        }
        assert_eq!(wake(&word, News::Urgent, None), Found::Nobody);
        say(&word, Awaits::Anything);
        assert_eq!(wake(&word, News::Room, None), Found::Nobody);
        // To an older engine who sleeps says what he waits for, whatever was said before, and nobody speaks for him.
        say(&word, Awaits::Nothing);
        set(&word, Wants::Urgent);
        say_if_awake(&word, Awaits::Nothing);
        assert_eq!(wake(&word, News::Room, Some(9)), Found::NothingToDo);
        say_if_awake(&word, Awaits::Anything);
        assert_eq!(wake(&word, News::MuchRoom, Some(9)), Found::Parked);
        say_if_awake(&word, Awaits::Nothing);
        assert_eq!(wake(&word, News::Urgent, None), Found::NothingToDo);
    }

    #[test]
    fn who_sleeps_by_the_word_is_woken_for_so_much_room_as_it_says() {
        let word = AtomicU32::new(NOBODY);
        let limit = Some(Duration::from_millis(1));
        for (awaits, acked) in [(Awaits::Until(10), Some(10)), (Awaits::Anything, Some(1))] {
            set(&word, Wants::All);
            assert!(!say(&word, Awaits::Nothing), "less than before");
            for news in [News::Room, News::MuchRoom] {
                assert_eq!(wake(&word, news, Some(9)), Found::NothingToDo);
            }
            say(&word, awaits);
            // Another who comes leaves it at that.
            assert!(set_beside_others(&word, Wants::All));
            if awaits != Awaits::Anything {
                assert_eq!(wake(&word, News::MuchRoom, Some(9)), Found::NothingToDo);
            }
            assert_eq!(sleep(&word, limit), Err(Errno::TIMEDOUT));
            assert_eq!(wake(&word, News::Room, acked), Found::Parked);
            assert_eq!(sleep(&word, limit), Ok(()));
            assert!(
                !set_beside_others(&word, Wants::All),
                "until the last has gone"
            );
        }
        for awaits in [Awaits::Nothing, Awaits::Until(10)] {
            set(&word, Wants::All);
            say(&word, awaits);
            assert_eq!(wake(&word, News::Urgent, None), Found::Parked);
        }
    }

    #[test]
    fn who_begins_to_wait_for_room_while_another_is_woken_in_vain_is_woken() {
        let word = AtomicU32::new(NOBODY);
        // The other side has seen somebody asleep, who is awake again, and calm, when it wakes him.
        say(&word, Awaits::Nothing);
        word.swap(WOKEN, Ordering::Relaxed);
        assert!(say(&word, Awaits::Anything), "it is not said");
        nobody_was_asleep(&word);
        assert_eq!(wake(&word, News::Room, None), Found::Nobody);
    }
}
