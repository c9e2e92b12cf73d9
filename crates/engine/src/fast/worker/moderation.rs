//! Receive moderation: while frames come often, the worker sleeps through a short delay before it
//! lets the device wake it, so that one wake-up serves several frames.
//!
//! NICs do this with their interrupts (`ethtool -C adaptive-rx`). Here it pays even more: to be
//! woken, to wake the server and to wake the client again costs tens of microseconds, many times
//! what a small request does. But a delay only helps if frames come whether or not we answer: a
//! client that waits for our answer before it asks again is merely slowed down.
//!
//! One that is near is seen: his data come right after ours on the same connection
//! ([`prompt_segments_in`](tcp::Counters::prompt_segments_in)), and where most do there is no delay. Of others it
//! must be tried: the rate of frames with the delay is compared with the rate without, again and again, and
//! where the delay costs rate or merges nothing it is left off for a time that doubles.
//!
//! What is seen may be chance: who asks by the clock over few connections is right after an answer as well. For
//! them there is no delay either, but to look for long for what they send would be for nothing. So it is doubted
//! now and then, for the looks alone: whose rate a delay does not touch does not wait for us, or waits for much
//! longer than the delay (for a program that takes its time, for a far network, or between two bursts), and a look
//! would spare him little.

use std::time::Duration;

use tcp::Instant;

/// Rates are compared over spans of at least this many nanoseconds, and this many sleeps.
const SPAN_NS: u64 = 10_000_000;
const SPAN_SLEEPS: u32 = 16;
/// Below this many sleeps a second there is nothing worth saving.
const SLEEPS_PER_SECOND: f64 = 2_000.0;
/// A span in which the worker slept this seldom says nothing about the next.
const STALE_NS: u64 = 5 * SPAN_NS;
/// The rate that must remain, as a part of that without the delay. Poisson arrivals at the lowest
/// rate that matters differ by less than this over a span, two times out of three.
const RATE_KEPT: f64 = 0.8;
/// A doubt compares spans of at least this many nanoseconds.
const DOUBT_NS: u64 = 2 * SPAN_NS;
/// The part of the rate without the delay that is kept with it by those who seem to wait and do not.
const RATE_KEPT_BY_CHANCE: f64 = 0.9;
/// With less it is sure that they wait. Between the two it may be chance: then two doubts must say so, one after
/// the other. (Poisson arrivals, 5,000 a second, are above the first three times out of four.)
const RATE_KEPT_BY_WHO_WAITS: f64 = 0.5;
/// For so long it is believed what came of a doubt.
const BELIEVED_NS: u64 = 1_600_000_000;
/// How many times as many frames must meet a wake-up.
const MERGED: f64 = 1.25;
/// The delay holds for so many spans before the rate without it is looked at again.
const HELD_SPANS: u32 = 50;
/// The rest after a first trial that failed, and after many.
const REST_NS: u64 = 100_000_000;
const REST_MAX_NS: u64 = 1_600_000_000;

/// Over so many segments with data it is counted how many of their senders had waited.
const SEGMENTS: u64 = 32;
/// After so many frames without that many segments with data nobody is known to wait.
const FRAMES: u64 = 64 * SEGMENTS;

/// What has been received so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Received {
    pub frames: u64,
    /// Segments with data.
    pub data: u64,
    /// Of these, those whose senders had waited for what was sent before.
    pub prompt: u64,
}

/// What is being found out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// No delay: how often do frames wake the worker?
    Watching,
    /// A delay, on trial against the flow without one.
    Trying(Flow),
    /// A delay that proved itself, for so many more spans.
    Holding(u32),
    /// No delay for one span: has the flow that was seen with it been its own limit?
    Checking(Flow),
    /// A delay, since most seem to wait: is that so? At this rate, in frames a second, they came without one.
    Doubting(f64),
    /// No delay until then: it did not help.
    Resting {
        until: Instant,
        /// It cost rate, and did not merely gather nothing: those who send wait for answers.
        slower: bool,
    },
}

/// What a span showed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flow {
    frames_per_second: f64,
    frames_per_sleep: f64,
}

/// Decides before each sleep how long the device may not interrupt it.
#[derive(Debug)]
pub(super) struct Moderation {
    delay: Duration,
    phase: Phase,
    rest_ns: u64,
    /// Since when, from which count of frames, and over how many sleeps the span goes.
    since: Instant,
    frames: u64,
    sleeps: u32,
    /// How often in the span it was asked, before a sleep or a look.
    asked: u32,
    /// Since which counts it is counted who had waited.
    counted: Received,
    /// Whether most had, when that was last known.
    waited: bool,
    /// How many doubts in a row have to speak against it until that is no chance any more, and until when the last is
    /// believed.
    chance: u32,
    believed_until: Instant,
}

impl Moderation {
    /// Moderation by delays of `delay`; none if that is zero.
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            phase: Phase::Watching,
            rest_ns: REST_NS,
            since: Instant::ZERO,
            frames: 0,
            sleeps: 0,
            asked: 0,
            counted: Received::default(),
            waited: false,
            chance: 0,
            believed_until: Instant::ZERO,
        }
    }

    /// The worker is about to sleep, and has `received` that much so far: for how long may the device
    /// not wake it?
    pub(super) fn before_sleep(&mut self, now: Instant, received: Received) -> Duration {
        if self.delay.is_zero() {
            return Duration::ZERO;
        }
        self.count_who_waited(received);
        let frames = received.frames;
        (self.sleeps, self.asked) = (self.sleeps + 1, self.asked + 1);
        let span_ns = self.span_ns(now);
        if span_ns >= STALE_NS {
            // Too few sleeps to be worth a delay, or none at all: a loaded worker does not sleep.
            self.phase = match self.phase {
                Phase::Resting { until, .. } if now < until => self.phase,
                Phase::Doubting(_) => {
                    // Nothing was found out, nor would it be by another doubt right after this.
                    self.doubted(now);
                    Phase::Watching
                }
                _ => Phase::Watching,
            };
            self.begin_span(now, frames);
        } else if span_ns >= self.least_span_ns(now) && self.sleeps >= SPAN_SLEEPS {
            let seconds = span_ns as f64 / 1e9;
            let received = frames.saturating_sub(self.frames) as f64;
            let flow = Flow {
                frames_per_second: received / seconds,
                frames_per_sleep: received / f64::from(self.sleeps),
            };
            let sleeps_per_second = f64::from(self.sleeps) / seconds;
            self.phase = self.next(flow, sleeps_per_second, now);
            self.begin_span(now, frames);
        }
        if self.delays() {
            self.delay
        } else {
            Duration::ZERO
        }
    }

    /// Whether a delay is known to hurt, or is not wanted: who sends waits for an answer, and is answered best at
    /// once. To be asked before a look, too: who looks well does not sleep.
    pub(super) fn does_not_help(&mut self, now: Instant, received: Received) -> bool {
        if self.delay.is_zero() {
            return true;
        }
        self.count_who_waited(received);
        self.asked += 1;
        self.doubt(now, received.frames);
        match self.phase {
            Phase::Trying(_) | Phase::Holding(_) | Phase::Doubting(_) => false,
            Phase::Resting { until, slower } if slower && now < until => true,
            Phase::Watching | Phase::Checking(_) | Phase::Resting { .. } => {
                self.waited && self.chance == 0
            }
        }
    }

    /// Whether most of those who send seem to wait, and it has not been found out lately whether they do.
    fn is_doubtful(&self, now: Instant) -> bool {
        self.waited && now >= self.believed_until
    }

    /// How long a span is at least.
    fn least_span_ns(&self, now: Instant) -> u64 {
        match self.phase {
            Phase::Doubting(_) => DOUBT_NS,
            Phase::Watching | Phase::Resting { .. } if self.is_doubtful(now) => DOUBT_NS,
            _ => SPAN_NS,
        }
    }

    /// Where that [is doubtful](Self::is_doubtful) a span with a delay begins, once there is one without to compare it
    /// with.
    fn doubt(&mut self, now: Instant, frames: u64) {
        let span_ns = self.span_ns(now);
        let is_stale = span_ns >= STALE_NS;
        let is_over = match self.phase {
            Phase::Watching => true,
            Phase::Checking(_) => is_stale,
            Phase::Resting { until, slower } => !slower || now >= until,
            Phase::Trying(_) | Phase::Holding(_) | Phase::Doubting(_) => false,
        };
        if !is_over || !self.is_doubtful(now) {
            return;
        }
        if is_stale {
            self.phase = Phase::Watching;
            self.begin_span(now, frames);
        } else if span_ns >= DOUBT_NS && self.asked >= SPAN_SLEEPS {
            let received = frames.saturating_sub(self.frames) as f64;
            self.phase = Phase::Doubting(received * 1e9 / span_ns as f64);
            self.begin_span(now, frames);
        }
    }

    fn span_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.since).as_nanos() as u64
    }

    fn delays(&self) -> bool {
        matches!(
            self.phase,
            Phase::Trying(_) | Phase::Holding(_) | Phase::Doubting(_)
        )
    }

    /// Finds out whether most of those who send wait for us. What was seen with a delay does not count: it
    /// comes late by the delay, whoever sent it.
    fn count_who_waited(&mut self, received: Received) {
        if self.delays() {
            (self.counted, self.waited) = (received, false);
            return;
        }
        let data = received.data.saturating_sub(self.counted.data);
        if data >= SEGMENTS {
            let prompt = received.prompt.saturating_sub(self.counted.prompt);
            (self.counted, self.waited) = (received, 2 * prompt >= data);
        } else if received.frames.saturating_sub(self.counted.frames) >= FRAMES {
            // Hardly anybody asks any more: what comes are acknowledgements of something large.
            (self.counted, self.waited) = (received, false);
        }
    }

    fn begin_span(&mut self, now: Instant, frames: u64) {
        self.since = now;
        self.frames = frames;
        (self.sleeps, self.asked) = (0, 0);
    }

    fn next(&mut self, flow: Flow, sleeps_per_second: f64, now: Instant) -> Phase {
        match self.phase {
            Phase::Watching if self.is_doubtful(now) => Phase::Doubting(flow.frames_per_second),
            Phase::Watching if self.waited => Phase::Watching,
            Phase::Watching if sleeps_per_second >= SLEEPS_PER_SECOND => Phase::Trying(flow),
            Phase::Watching => Phase::Watching,
            Phase::Trying(without) => {
                let keeps = flow.frames_per_second >= RATE_KEPT * without.frames_per_second;
                if keeps && flow.frames_per_sleep >= MERGED * without.frames_per_sleep {
                    Phase::Holding(HELD_SPANS)
                } else {
                    self.rest(now, !keeps)
                }
            }
            Phase::Holding(0) => Phase::Checking(flow),
            Phase::Holding(left) => Phase::Holding(left - 1),
            Phase::Checking(with) => {
                if with.frames_per_second >= RATE_KEPT * flow.frames_per_second {
                    self.rest_ns = REST_NS;
                    Phase::Holding(HELD_SPANS)
                } else {
                    self.rest(now, true)
                }
            }
            Phase::Doubting(without) => {
                let keeps = |part: f64| flow.frames_per_second >= part * without;
                self.chance = if keeps(RATE_KEPT_BY_CHANCE) {
                    2
                } else if keeps(RATE_KEPT_BY_WHO_WAITS) {
                    self.chance.saturating_sub(1)
                } else {
                    0
                };
                self.doubted(now);
                Phase::Watching
            }
            Phase::Resting { until, .. } if now < until => self.phase,
            Phase::Resting { .. } => Phase::Watching,
        }
    }

    /// What is believed of those who seem to wait is believed for a time. Chance or not, they come right after an answer:
    /// a delay is tried on those who do not.
    fn doubted(&mut self, now: Instant) {
        self.waited = true;
        self.believed_until = now + Duration::from_nanos(BELIEVED_NS);
    }

    fn rest(&mut self, now: Instant, slower: bool) -> Phase {
        let until = now + Duration::from_nanos(self.rest_ns);
        self.rest_ns = (self.rest_ns * 2).min(REST_MAX_NS);
        Phase::Resting { until, slower }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_micros(100);
    const MICROSECOND: u64 = 1_000;
    /// As the TCP counts: who answers within this had waited.
    const PROMPT_NS: u64 = 150 * MICROSECOND;

    /// A worker's sleeps under virtual time.
    struct World {
        moderation: Moderation,
        now_ns: u64,
        received: Received,
        /// Segments with data in each frame of an open loop.
        data_in_a_frame: u64,
        /// These come right after an answer, by chance.
        prompt: bool,
        delayed: u64,
        /// Where nobody is known not to wait, long looks keep the worker awake.
        looks: bool,
        /// Before how many sleeps it might have looked for long.
        licensed: u64,
        sleeps: u64,
    }

    impl World {
        fn new(delay: Duration) -> Self {
            Self {
                moderation: Moderation::new(delay),
                now_ns: 1,
                received: Received::default(),
                data_in_a_frame: 1,
                prompt: false,
                delayed: 0,
                looks: false,
                licensed: 0,
                sleeps: 0,
            }
        }

        /// Sleeps once, or looks; the delay, in nanoseconds.
        fn sleep(&mut self) -> u64 {
            let licensed = self.does_not_help();
            self.licensed += u64::from(licensed);
            if licensed && self.looks {
                self.sleeps += 1;
                return 0;
            }
            let now = Instant::from_nanos(self.now_ns);
            let delay = self.moderation.before_sleep(now, self.received).as_nanos() as u64;
            self.sleeps += 1;
            self.delayed += u64::from(delay > 0);
            delay
        }

        /// Frames that come every `interval_ns` whatever we do, for `span_ns`.
        fn open_loop(&mut self, interval_ns: u64, span_ns: u64) {
            self.frames_come(span_ns, || interval_ns);
        }

        /// Frames that come whatever we do and by chance, as a rule every `interval_ns`.
        fn poisson(&mut self, interval_ns: u64, span_ns: u64, seed: u64) {
            let mut random = seed;
            self.frames_come(span_ns, || {
                (-part(&mut random).ln() * interval_ns as f64) as u64
            });
        }

        /// Frames, each so long after the one before, whatever we do.
        fn frames_come(&mut self, span_ns: u64, mut interval_ns: impl FnMut() -> u64) {
            let end = self.now_ns + span_ns;
            let mut next = self.now_ns + interval_ns();
            while self.now_ns < end {
                let awake = next.max(self.now_ns + self.sleep());
                while next <= awake {
                    self.received.frames += 1;
                    self.received.data += self.data_in_a_frame;
                    self.received.prompt += u64::from(self.prompt) * self.data_in_a_frame;
                    next += interval_ns();
                }
                self.now_ns = awake + 5 * MICROSECOND;
            }
        }

        /// `clients` that each ask again `think_ns` after they were answered, for `span_ns`.
        fn closed_loop(&mut self, clients: u64, think_ns: u64, span_ns: u64) {
            let end = self.now_ns + span_ns;
            while self.now_ns < end {
                let gap = self.sleep().max(think_ns) + 5 * MICROSECOND;
                self.now_ns += gap;
                self.received.frames += clients;
                self.received.data += clients;
                self.received.prompt += if gap <= PROMPT_NS { clients } else { 0 };
            }
        }

        /// As [`closed_loop`](Self::closed_loop), of a program that takes about `answer_ns` for each answer, whose bell
        /// wakes at any time. The clients do not ask all at once.
        fn answered_late(&mut self, clients: u64, think_ns: u64, answer_ns: u64, span_ns: u64) {
            let (end, mut random) = (self.now_ns + span_ns, 1);
            let first = |client| self.now_ns + client * answer_ns / clients;
            let mut asks: Vec<(u64, u64)> = (0..clients).map(|it| (first(it), 0)).collect();
            let mut answers: Vec<u64> = Vec::new();
            while self.now_ns < end {
                let delayed = self.now_ns + self.sleep();
                let asked = asks.iter().map(|(at, _)| (*at).max(delayed)).min();
                let answered = answers.iter().copied().min();
                let next = asked.into_iter().chain(answered).min();
                let awake = next.expect("each asks or is answered").max(self.now_ns);
                let (now, later): (Vec<_>, Vec<_>) =
                    asks.into_iter().partition(|(at, _)| *at <= awake);
                asks = later;
                let (done, working): (Vec<u64>, Vec<u64>) =
                    answers.into_iter().partition(|at| *at <= awake);
                answers = working;
                asks.extend(done.iter().map(|_| (awake + think_ns, awake)));
                for (_, answered) in now {
                    self.received.frames += 1;
                    self.received.data += 1;
                    self.received.prompt += u64::from(awake - answered <= PROMPT_NS);
                    let takes = (0.75 + part(&mut random) / 2.0) * answer_ns as f64;
                    answers.push(awake + takes as u64);
                }
                self.now_ns = awake + 5 * MICROSECOND;
            }
        }

        fn does_not_help(&mut self) -> bool {
            let now = Instant::from_nanos(self.now_ns);
            self.moderation.does_not_help(now, self.received)
        }

        fn share_delayed(&mut self) -> f64 {
            let share = self.delayed as f64 / self.sleeps as f64;
            (self.delayed, self.licensed, self.sleeps) = (0, 0, 0);
            share
        }

        /// Before how many of the sleeps, as a part of all, it might have looked for long.
        fn share_licensed(&mut self) -> f64 {
            let share = self.licensed as f64 / self.sleeps as f64;
            (self.delayed, self.licensed, self.sleeps) = (0, 0, 0);
            share
        }
    }

    const SECOND: u64 = 1_000_000_000;

    /// A number above 0, up to 1, by chance.
    fn part(random: &mut u64) -> f64 {
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((*random >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn frames_that_come_anyway_are_gathered() {
        let mut world = World::new(DELAY);
        world.open_loop(30 * MICROSECOND, SECOND);
        world.share_delayed();
        let before = world.received.frames;
        world.open_loop(30 * MICROSECOND, 4 * SECOND);
        let frames_per_sleep = (world.received.frames - before) as f64 / world.sleeps as f64;
        assert!(world.share_delayed() > 0.8);
        assert!(frames_per_sleep > 2.5, "{frames_per_sleep}");
    }

    #[test]
    fn clients_that_are_seen_to_wait_are_hardly_ever_delayed() {
        for (clients, looks) in [(1, false), (4, false), (1, true), (4, true)] {
            let mut world = World::new(DELAY);
            world.looks = looks;
            world.closed_loop(clients, 20 * MICROSECOND, SECOND / 200);
            assert!(world.does_not_help(), "known before it is doubted");
            world.share_delayed();
            world.closed_loop(clients, 20 * MICROSECOND, 10 * SECOND);
            let licensed = world.licensed as f64 / world.sleeps as f64;
            let delayed = world.share_delayed();
            assert!(delayed < 0.005, "{clients} clients: {delayed}");
            assert!(licensed > 0.99, "{clients} clients: {licensed}");
            assert!(world.does_not_help());
        }
    }

    #[test]
    fn nobody_waits_where_a_delay_merely_gathers_nothing() {
        let mut world = World::new(DELAY);
        world.open_loop(300 * MICROSECOND, SECOND);
        assert!(!world.does_not_help());
        world.share_licensed();
        world.open_loop(300 * MICROSECOND, 10 * SECOND);
        assert_eq!(world.share_licensed(), 0.0);
    }

    #[test]
    fn who_asks_by_the_clock_is_not_taken_for_one_who_waits() {
        for looks in [false, true] {
            let mut world = World::new(DELAY);
            (world.prompt, world.looks) = (true, looks);
            world.open_loop(200 * MICROSECOND, SECOND / 10);
            assert!(!world.does_not_help(), "known within a tenth of a second");
            world.share_licensed();
            world.open_loop(200 * MICROSECOND, 20 * SECOND);
            let share = world.share_licensed();
            assert!(share < 0.05, "looks: {looks}, {share}");
        }
    }

    /// A delay hardly touches the rate of those who wait for long answers: to delay each request helps nobody.
    #[test]
    fn who_waits_for_a_slow_program_is_hardly_ever_delayed() {
        let mut world = World::new(Duration::from_micros(150));
        world.answered_late(8, 20 * MICROSECOND, 2_000 * MICROSECOND, 10 * SECOND);
        let share = world.share_delayed();
        assert!(share < 0.02, "{share}");
    }

    #[test]
    fn who_asks_by_chance_is_mostly_not_taken_for_one_who_waits() {
        let mut shares = Vec::new();
        for seed in 1..=4 {
            let mut world = World::new(DELAY);
            world.prompt = true;
            world.poisson(200 * MICROSECOND, 4 * SECOND, seed);
            world.share_licensed();
            world.poisson(200 * MICROSECOND, 200 * SECOND, seed + 100);
            shares.push(world.share_licensed());
        }
        assert!(shares.iter().sum::<f64>() / 4.0 < 0.1, "{shares:?}");
    }

    #[test]
    fn who_asks_too_seldom_for_a_verdict_is_not_doubted_all_the_time() {
        let mut world = World::new(DELAY);
        for _ in 0..300 {
            world.closed_loop(1, 20 * MICROSECOND, 250 * MICROSECOND);
            world.now_ns += 30_000 * MICROSECOND;
        }
        let share = world.share_delayed();
        assert!(share < 0.05, "{share}");
    }

    #[test]
    fn who_waits_after_one_who_asked_by_the_clock_is_known_soon() {
        let mut world = World::new(DELAY);
        world.prompt = true;
        world.open_loop(200 * MICROSECOND, 3 * SECOND);
        world.closed_loop(1, 20 * MICROSECOND, 2 * SECOND);
        world.share_licensed();
        world.closed_loop(1, 20 * MICROSECOND, 10 * SECOND);
        assert!(world.share_licensed() > 0.98);
    }

    #[test]
    fn who_has_paused_is_not_held_against_the_pause() {
        let mut world = World::new(DELAY);
        world.looks = true;
        for _ in 0..10 {
            world.closed_loop(1, 20 * MICROSECOND, SECOND);
            world.now_ns += 2 * SECOND;
        }
        assert!(world.share_licensed() > 0.98);
    }

    #[test]
    fn clients_that_wait_and_are_further_away_are_tried_and_left_alone() {
        for clients in [1, 4] {
            let mut world = World::new(Duration::from_micros(300));
            world.closed_loop(clients, 200 * MICROSECOND, 10 * SECOND);
            let share = world.share_delayed();
            assert!(share > 0.0 && share < 0.02, "{clients} clients: {share}");
        }
    }

    #[test]
    fn whether_they_wait_is_seen_without_sleeping() {
        let mut world = World::new(DELAY);
        world.closed_loop(1, 20 * MICROSECOND, SECOND);
        assert!(world.does_not_help());
        // A worker that looks for long does not sleep meanwhile.
        world.received.frames += SEGMENTS;
        world.received.data += SEGMENTS;
        assert!(!world.does_not_help());
    }

    #[test]
    fn acknowledgements_are_gathered_after_who_waits_has_gone() {
        let mut world = World::new(DELAY);
        world.closed_loop(1, 20 * MICROSECOND, SECOND);
        assert!(world.does_not_help());
        world.data_in_a_frame = 0;
        world.open_loop(30 * MICROSECOND, SECOND);
        world.share_delayed();
        world.open_loop(30 * MICROSECOND, 4 * SECOND);
        assert!(world.share_delayed() > 0.8);
    }

    #[test]
    fn few_who_wait_do_not_keep_the_others_from_being_gathered() {
        let mut world = World::new(DELAY);
        for _ in 0..1_000 {
            world.open_loop(30 * MICROSECOND, SECOND / 500);
            world.received.data += 10;
            world.received.prompt += 10;
        }
        assert!(world.share_delayed() > 0.8);
    }

    #[test]
    fn a_change_of_the_traffic_is_noticed() {
        let mut world = World::new(DELAY);
        world.open_loop(30 * MICROSECOND, 2 * SECOND);
        world.closed_loop(2, 20 * MICROSECOND, 2 * SECOND);
        world.share_delayed();
        world.closed_loop(2, 20 * MICROSECOND, 4 * SECOND);
        assert!(world.share_delayed() < 0.01);
        world.open_loop(30 * MICROSECOND, 4 * SECOND);
        world.share_delayed();
        world.open_loop(30 * MICROSECOND, SECOND);
        assert!(world.share_delayed() > 0.8);
    }

    #[test]
    fn rare_frames_are_never_delayed() {
        let mut world = World::new(DELAY);
        world.open_loop(SECOND / 1_000, 5 * SECOND);
        assert_eq!(world.share_delayed(), 0.0);
    }

    #[test]
    fn a_delay_of_zero_switches_it_off() {
        let mut world = World::new(Duration::ZERO);
        world.open_loop(30 * MICROSECOND, SECOND);
        assert_eq!(world.share_delayed(), 0.0);
    }
}
