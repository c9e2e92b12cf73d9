//! How long the worker looks for work before it sleeps: as long as that has been worth it.
//!
//! Two kinds of work may follow a turn. A program that was told something may answer, which on the same
//! core takes one yield; and the network may, which takes a round trip. So what is learnt is learnt
//! apart after [`Telling`](After::Telling) and after [`Sending`](After::Sending).
//!
//! A *short* look, for the time that is configured, is taken where one in three has found work: a look
//! for nothing is two switches of the core, and a sleep and a wake-up cost little more. A *long* look
//! keeps a core busy and spares being woken across cores, which is most of the latency of one client
//! that waits for each answer. It is taken only where nearly every piece of work has come that soon; so
//! it ends by itself where work comes by chance, as from many clients.

use std::time::Duration;

use queue_pair::{Odds, Profile, Regularity};

/// The longest look but one. A round trip of two wake-ups across cores took 60 µs on two virtual cores.
const LONG: Duration = Duration::from_micros(100);
/// Work that comes within this after the last comes from the same core, or follows by itself.
const NEAR: Duration = Duration::from_micros(10);
/// The look of [`Profile::Latency`].
const LONGEST: Duration = Duration::from_millis(1);
/// What a turn leaves to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// A program's answer.
    Telling,
    /// The network.
    Sending,
}

/// What the worker does while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It sleeps at once.
    None,
    /// It looks for work as long as is configured.
    Short(Duration),
    /// It looks for longer.
    Long(Duration),
    /// It sleeps, and has looked in vain before if so.
    Over(bool),
}

/// What is known of the time after one kind of turn.
#[derive(Debug, Default)]
struct Known {
    /// Short looks that found work.
    odds: Odds,
    /// Work that has come within a long look.
    soon: Regularity,
}

/// Decides how long to look.
#[derive(Debug)]
pub(super) struct Looking {
    after: After,
    telling: Known,
    sending: Known,
    /// What was decided since there was work; `None`: nothing yet.
    look: Option<Look>,
    /// See [`keeps_awake`](Self::keeps_awake).
    keeps_awake: bool,
}

impl Default for Looking {
    fn default() -> Self {
        Self {
            after: After::Sending,
            telling: Known::default(),
            sending: Known::default(),
            look: None,
            keeps_awake: false,
        }
    }
}

impl Looking {
    fn known(&mut self) -> &mut Known {
        match self.after {
            After::Telling => &mut self.telling,
            After::Sending => &mut self.sending,
        }
    }

    /// A turn found work, `idle` after the last that did, and leaves `after` to be waited for. It had `waited` so long
    /// for a worker that slept: to look would have spared that. Whether it was looked for since the last.
    pub(super) fn found(&mut self, idle: Duration, waited: Duration, after: After) -> bool {
        let mut looked = false;
        // Without an empty turn between them both are one piece of work.
        if let Some(look) = self.look.take() {
            let known = match self.after {
                After::Telling => &self.telling,
                After::Sending => &self.sending,
            };
            looked = match look {
                Look::Short(_) => {
                    known.odds.paid();
                    true
                }
                Look::Long(_) => {
                    self.keeps_awake = idle > NEAR;
                    true
                }
                Look::None => false,
                Look::Over(looked) => looked,
            };
            known.soon.came(idle.saturating_sub(waited) <= LONG);
        }
        self.after = after;
        looked
    }

    /// There is nothing to do: for how long after the last work to look for more. `short` is as configured;
    /// zero is never. `waits` tells, where that is asked, whether those who send frames wait for answers.
    pub(super) fn limit(
        &mut self,
        profile: Profile,
        short: Duration,
        waits: impl FnOnce() -> bool,
    ) -> Duration {
        let look = match self.look {
            Some(look) => look,
            None => {
                let after = self.after;
                let known = self.known();
                let look = match profile {
                    _ if short.is_zero() => Look::None,
                    Profile::Latency => Look::Long(LONGEST.max(short)),
                    Profile::Efficient if after == After::Sending => Look::None,
                    Profile::Balanced if known.soon.is_expected() && waits() => {
                        Look::Long(LONG.max(short))
                    }
                    _ if known.odds.are_good() => Look::Short(short),
                    _ => Look::None,
                };
                *self.look.insert(look)
            }
        };
        match look {
            Look::Short(limit) | Look::Long(limit) => limit,
            Look::None | Look::Over(_) => Duration::ZERO,
        }
    }

    /// Whether long looks have kept it awake since it last slept: then nobody has to wake it, and to be
    /// near its programs would only take the core from them.
    pub(super) fn keeps_awake(&self) -> bool {
        self.keeps_awake
    }

    /// The worker goes to sleep; whether it has just looked in vain. Where strangers want the core
    /// (`crowded`) it could not look, and nothing is learnt.
    pub(super) fn in_vain(&mut self, crowded: bool) -> bool {
        let looked = !crowded && matches!(self.look, Some(Look::Short(_) | Look::Long(_)));
        if let Some(Look::Short(_)) = self.look
            && looked
        {
            self.known().odds.failed();
        }
        self.keeps_awake = false;
        let before = self.look == Some(Look::Over(true));
        self.look = Some(Look::Over(looked || before));
        looked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(10);
    /// It had not waited.
    const NOT: Duration = Duration::ZERO;

    /// Waits of a worker, each for `gap`; how long it looked in all.
    fn waits(looking: &mut Looking, after: After, gaps: &[Duration], times: usize) -> Duration {
        let mut looked = Duration::ZERO;
        for index in 0..times {
            assert!(!looking.found(Duration::ZERO, NOT, after));
            let gap = gaps[index % gaps.len()];
            let limit = looking.limit(Profile::Balanced, SHORT, || true);
            assert_eq!(
                looking.limit(Profile::Balanced, SHORT, || true),
                limit,
                "it is decided once"
            );
            looked += gap.min(limit);
            if gap >= limit {
                assert_eq!(looking.in_vain(false), !limit.is_zero());
                assert!(!looking.in_vain(false), "a look ends once");
                assert_eq!(
                    looking.limit(Profile::Balanced, SHORT, || true),
                    Duration::ZERO
                );
            }
            assert_eq!(looking.found(gap, NOT, after), !limit.is_zero());
        }
        looked
    }

    fn micros(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    #[test]
    fn who_never_answers_soon_is_hardly_looked_for() {
        let mut looking = Looking::default();
        let looked = waits(&mut looking, After::Sending, &[micros(300)], 1_000);
        assert!(looked < SHORT * 50, "{looked:?}");
        assert_eq!(
            waits(&mut looking, After::Telling, &[micros(2)], 100),
            micros(200),
            "a program that answers at once is looked for: that is known apart"
        );
        let looked = waits(&mut looking, After::Sending, &[micros(300)], 1_000);
        assert!(looked < SHORT * 50, "and forgotten by neither: {looked:?}");
    }

    #[test]
    fn who_answers_regularly_is_waited_for() {
        let mut looking = Looking::default();
        waits(&mut looking, After::Sending, &[micros(40)], 20);
        let looked = waits(&mut looking, After::Sending, &[micros(40)], 100);
        assert_eq!(looked, micros(4_000), "all the time");
        assert!(looking.keeps_awake());
        waits(&mut looking, After::Sending, &[micros(5)], 1);
        assert!(!looking.keeps_awake(), "this one was near");
        // One that is late ends it, for a while.
        let looked = waits(&mut looking, After::Sending, &[micros(400)], 1);
        assert_eq!(looked, LONG);
        let looked = waits(&mut looking, After::Sending, &[micros(400)], 100);
        assert!(looked <= LONG + SHORT * 20, "{looked:?}");
        assert!(!looking.keeps_awake());
    }

    #[test]
    fn to_be_woken_is_no_part_of_how_long_it_took_to_come() {
        let mut looking = Looking::default();
        let mut asleep = |waited| {
            looking.found(Duration::ZERO, NOT, After::Sending);
            let limit = looking.limit(Profile::Balanced, SHORT, || true);
            looking.in_vain(false);
            looking.found(micros(120), waited, After::Sending);
            limit
        };
        let limits: Vec<Duration> = (0..40).map(|_| asleep(micros(10))).collect();
        assert!(!limits.contains(&LONG), "it came after 110 µs");
        for _ in 0..40 {
            asleep(micros(40));
        }
        assert_eq!(asleep(micros(40)), LONG, "it came after 80 µs");
    }

    #[test]
    fn what_comes_by_chance_is_not_waited_for() {
        // One of ten is late.
        let mut gaps = vec![micros(40); 9];
        gaps.push(micros(150));
        let mut looking = Looking::default();
        let looked = waits(&mut looking, After::Sending, &gaps, 10_000);
        assert!(looked < SHORT * 1_000, "{looked:?}");
    }

    #[test]
    fn what_may_not_be_looked_for_long_is_looked_for_shortly() {
        let mut looking = Looking::default();
        for _ in 0..100 {
            looking.found(Duration::ZERO, NOT, After::Sending);
            assert_eq!(looking.limit(Profile::Balanced, SHORT, || false), SHORT);
            looking.found(micros(5), NOT, After::Sending);
        }
        looking.found(Duration::ZERO, NOT, After::Sending);
        assert_eq!(looking.limit(Profile::Balanced, SHORT, || true), LONG);
    }

    #[test]
    fn who_is_not_to_look_never_does() {
        let mut looking = Looking::default();
        for profile in Profile::ALL.repeat(30) {
            looking.found(Duration::ZERO, NOT, After::Telling);
            let limit = looking.limit(profile, Duration::ZERO, || true);
            assert_eq!(limit, Duration::ZERO);
            looking.found(micros(1), NOT, After::Telling);
        }
    }

    #[test]
    fn profiles_differ_in_what_they_wait_for() {
        let mut looking = Looking::default();
        let mut limits = |after, profile| {
            looking.found(micros(40), NOT, after);
            let limit = looking.limit(profile, SHORT, || true);
            looking.found(micros(40), NOT, after);
            limit
        };
        for after in [After::Telling, After::Sending].repeat(40) {
            limits(after, Profile::Balanced);
        }
        assert_eq!(limits(After::Telling, Profile::Efficient), SHORT);
        assert_eq!(limits(After::Sending, Profile::Efficient), Duration::ZERO);
        for after in [After::Telling, After::Sending] {
            assert_eq!(limits(after, Profile::Balanced), LONG);
            assert_eq!(limits(after, Profile::Latency), LONGEST);
        }
    }

    #[test]
    fn who_cannot_look_learns_nothing() {
        let mut looking = Looking::default();
        for _ in 0..1_000 {
            looking.found(Duration::ZERO, NOT, After::Telling);
            let limit = looking.limit(Profile::Balanced, SHORT, || true);
            assert_eq!(limit, SHORT);
            assert!(!looking.in_vain(true));
            assert!(!looking.found(micros(500), NOT, After::Telling));
        }
    }

    #[test]
    fn turns_that_find_work_one_after_another_teach_nothing() {
        let mut looking = Looking::default();
        for _ in 0..1_000 {
            looking.found(Duration::ZERO, NOT, After::Sending);
        }
        assert_eq!(looking.limit(Profile::Balanced, SHORT, || true), SHORT);
    }
}
