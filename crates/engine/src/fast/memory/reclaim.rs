//! Memory that goes back to the machine: what of a session is to be given back, and how much it holds.
//!
//! A page is given back by a system call that may have to wait for any process which has the region's
//! file, for as long as that one likes. So neither half of the engine makes it: pieces are taken out of
//! their pool, carried away as a [`Reclaim`] by the slow half's [errands](crate::slow::errands), and put
//! back when it is done. Nothing uses them meanwhile; what never comes back was its own session's.

use core::time::Duration;

use queue_pair::Area;
use tcp::Instant;

use super::pool::Pool;
use crate::exchange::SessionKey;

/// Bytes of a send area that are left to a session without another look.
const SENT_KEPT: u64 = 1 << 20;
/// How long a piece is free before it goes.
const UNUSED_FOR: Duration = Duration::from_secs(1);
/// How often what a session sends from is looked at while it does something.
const LOOKS: Duration = Duration::from_secs(2);
/// When it is looked at for the last time after that.
const LAST_LOOK: Duration = Duration::from_secs(64);

/// Memory of one session, to be given back and measured.
#[derive(Debug)]
pub struct Reclaim {
    /// Whose it is.
    pub session: SessionKey,
    uid: u32,
    /// What it receives into and sends from, until that is done.
    areas: Option<(Area, Area)>,
    /// Chunks that nobody uses.
    chunks: Vec<u32>,
    /// They have no memory any more.
    given: bool,
    /// Bytes that it holds to send from, if they were looked at.
    sent: Option<u64>,
}

impl Reclaim {
    /// The user whose session it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Gives the memory back, and measures what is left. A host can hold this up for as long as it likes.
    pub fn give_back(&mut self) {
        let Some((receive, send)) = self.areas.take() else {
            return;
        };
        self.chunks.sort_unstable();
        let runs = self.chunks.chunk_by(|one, next| one + 1 == *next);
        let given = runs.into_iter().try_for_each(|run| {
            let len = run.len() * super::CHUNK as usize;
            receive.give_back(Pool::offset(run[0]), len)
        });
        self.given = given.is_ok();
        self.sent = send.resident().ok();
    }
}

/// What is known of the memory of one session.
#[derive(Debug, Default)]
pub struct Upkeep {
    /// Somebody sees to it.
    under_way: bool,
    /// Bytes that it holds to send from, when that was last looked at.
    pub sent: u64,
    /// What it had done then: any number that grows with it.
    activity: u64,
    /// When pieces may go that are free from now until then.
    due: Instant,
    /// When that is looked at again, and how long after the last time.
    next: Instant,
    pause: Duration,
}

impl Upkeep {
    /// Whether it is to be seen to now or later, for what the session sends from.
    pub fn is_restless(&self, activity: u64) -> bool {
        !self.under_way && (activity != self.activity || self.expects_less())
    }

    /// Whether nobody sees to it.
    pub fn is_free(&self) -> bool {
        !self.under_way
    }

    /// It may have been given back meanwhile, which nobody says.
    fn expects_less(&self) -> bool {
        self.sent > SENT_KEPT && self.pause < LAST_LOOK
    }

    /// Takes out what can go of a session's memory; `None`: there is nothing, and nothing to be looked at.
    pub fn begin(
        &mut self,
        (session, uid): (SessionKey, u32),
        (pool, send): (&mut Pool, &Area),
        activity: u64,
        now: Instant,
        hurry: bool,
    ) -> Option<Reclaim> {
        if self.under_way {
            return None;
        }
        let chunks = if hurry || now >= self.due {
            self.due = now + UNUSED_FOR;
            pool.take_spare(hurry)
        } else {
            Vec::new()
        };
        let look = now >= self.next && self.is_restless(activity);
        if chunks.is_empty() && !look {
            return None;
        }
        // Chunks that go in between put no look off, nor are they one: less may be held after the last of them.
        if look {
            self.pause = match activity == self.activity {
                true => (2 * self.pause).clamp(LOOKS, LAST_LOOK),
                false => LOOKS,
            };
            self.next = now + self.pause;
            self.activity = activity;
        }
        self.under_way = true;
        Some(Reclaim {
            session,
            uid,
            areas: Some((pool.area().clone(), send.clone())),
            chunks,
            given: false,
            sent: None,
        })
    }

    /// It is done, or could not be: how many chunks were given back.
    pub fn end(&mut self, done: &Reclaim, pool: &mut Pool) -> u32 {
        self.under_way = false;
        if let Some(sent) = done.sent {
            self.sent = sent;
            pool.sends_from(sent);
        }
        pool.reclaimed(&done.chunks, done.given);
        match done.given {
            true => done.chunks.len() as u32,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::connections::SessionId;
    use crate::fast::memory::CHUNK;

    /// A host gives back what it sent from piece by piece, as the engine does what it received into.
    #[test]
    fn pieces_that_go_put_no_look_at_the_rest_off() {
        const PIECES: u32 = 100;
        let receive = Area::private("receive", (PIECES * CHUNK * 8) as usize);
        let send = Area::private("send", 4 << 20);
        let (mut pool, mut upkeep) = (Pool::new(receive), Upkeep::default());
        let key = SessionKey {
            id: SessionId(0),
            number: 1,
        };
        let mut looks = Vec::new();
        for second in 0..200 {
            let held: Vec<_> = (0..PIECES).filter_map(|_| pool.take(false)).collect();
            held.into_iter().for_each(|chunk| pool.give_back(chunk));
            let now = Instant::ZERO + Duration::from_secs(second);
            let before = upkeep.next;
            if let Some(mut done) = upkeep.begin((key, 1_000), (&mut pool, &send), 7, now, true) {
                done.give_back();
                upkeep.end(&done, &mut pool);
            }
            if upkeep.next != before {
                looks.push(second);
            }
        }
        assert_eq!(looks, [0, 2, 6, 14, 30, 62]);
    }
}
