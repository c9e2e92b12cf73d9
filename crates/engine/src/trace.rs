//! The course of sends: when the worker did what of the next sends of one connection, for people and the lab.
//!
//! A [`Trace`] is nearly always off: then each point on the way asks one question, as a
//! [capture](crate::capture) does. What it keeps it keeps in memory that was brought with the order, and when
//! that is full, or the sends are over, it is off again by itself.

use queue_pair::control::{Moment, Traced};
use tcp::{ConnId, Instant};
use wire::seq::SeqNumber;

use crate::clock::Clock;

/// The most sends that are followed at once.
pub const MAX_SENDS: u32 = 10_000;
/// Moments of a send that there is room for: twice as many as there are kinds, since data may leave in pieces.
const MOMENTS: usize = 16;

/// The moments of some sends.
#[derive(Debug)]
pub struct Course {
    moments: Vec<Traced>,
    /// Sends that are still to be taken.
    left: u32,
    /// Whose sends they are, once one was taken.
    conn: Option<ConnId>,
    /// What the connection had sent before them.
    before: u64,
    /// As far as segments with new data have been built.
    reached: SeqNumber,
    /// Bytes from there to the first of the sends.
    ahead: u64,
    /// Bytes of them by what was done last.
    taken: u64,
    built: u64,
    handed: u64,
    acknowledged: u64,
    told_left: u64,
    told_acknowledged: u64,
    /// When the worker woke, if it has taken nothing since.
    awake: Option<Instant>,
    /// It has told something and rung for nothing since.
    may_ring: bool,
}

impl Course {
    /// Room for this many sends.
    pub fn of(sends: u32) -> Self {
        let sends = sends.clamp(1, MAX_SENDS);
        Self {
            moments: Vec::with_capacity(sends as usize * MOMENTS),
            left: sends,
            conn: None,
            before: 0,
            reached: SeqNumber::default(),
            ahead: 0,
            taken: 0,
            built: 0,
            handed: 0,
            acknowledged: 0,
            told_left: 0,
            told_acknowledged: 0,
            awake: None,
            may_ring: false,
        }
    }

    /// What was kept, in its order.
    pub fn moments(&self) -> &[Traced] {
        &self.moments
    }

    /// Bytes of the sends, of so many of the connection's.
    fn of_them(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.before).min(self.taken)
    }
}

/// What a worker keeps of sends; nearly always nothing.
#[derive(Debug, Default)]
pub struct Trace {
    course: Option<Box<Course>>,
    is_on: bool,
    clock: Clock,
}

impl Trace {
    /// Whether anybody wants to know: the one question that is asked of every send.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Begins to keep, by this clock.
    ///
    /// # Errors
    /// Something is kept already, for somebody who has not asked for it. The room comes back.
    pub fn begin(&mut self, course: Box<Course>, clock: Clock) -> Result<(), Box<Course>> {
        if self.course.is_some() {
            return Err(course);
        }
        self.clock = clock;
        self.is_on = true;
        self.course = Some(course);
        Ok(())
    }

    /// Keeps no more. What was kept.
    pub fn end(&mut self) -> Option<Box<Course>> {
        self.is_on = false;
        self.course.take()
    }

    /// Whose sends they are, once one was taken.
    pub fn conn(&self) -> Option<ConnId> {
        self.course.as_ref()?.conn
    }

    /// The worker woke at this time.
    #[cold]
    pub fn awake(&mut self, at: Instant) {
        if let Some(course) = &mut self.course {
            course.awake = Some(at);
        }
    }

    /// A submission of `len` bytes was taken, with which the connection has sent so many. How many of them have left,
    /// and the number of the next, is asked for the first.
    #[cold]
    pub fn taken(
        &mut self,
        conn: ConnId,
        len: u32,
        sent: u64,
        left: impl FnOnce() -> (u64, SeqNumber),
    ) {
        let Some(course) = &mut self.course else {
            return;
        };
        if *course.conn.get_or_insert(conn) != conn {
            return;
        }
        if course.left == 0 {
            // That was the last of them, although its end was never told.
            self.is_on = false;
            return;
        }
        if course.taken == 0 {
            course.before = sent.saturating_sub(len.into());
            let (left, next) = left();
            course.reached = next;
            course.ahead = course.before.saturating_sub(left);
        }
        course.left -= 1;
        course.taken += u64::from(len);
        let (awake, taken) = (course.awake.take(), course.taken);
        if let Some(at) = awake {
            self.keep_at(at, Moment::Awake, taken);
        }
        self.keep(Moment::Taken, taken);
    }

    /// A segment was built, with data up to this number. What was sent before them, and what is sent again, is not of
    /// the sends.
    #[cold]
    pub fn built(&mut self, conn: Option<ConnId>, end: SeqNumber) {
        if let Some(course) = &mut self.course
            && course.conn.is_some()
            && course.conn == conn
            && end.after(course.reached)
        {
            let new = end.distance_from(course.reached).unsigned_abs().into();
            course.reached = end;
            let of_them = new - course.ahead.min(new);
            course.ahead -= new - of_them;
            let built = (course.built + of_them).min(course.taken);
            if built > course.built {
                course.built = built;
                self.keep(Moment::Built, built);
            }
        }
    }

    /// The device was told of what was built.
    #[cold]
    pub fn handed(&mut self) {
        if let Some(course) = &mut self.course
            && course.handed < course.built
        {
            course.handed = course.built;
            let handed = course.handed;
            self.keep(Moment::Handed, handed);
        }
    }

    /// So many of the connection's bytes are acknowledged.
    #[cold]
    pub fn acknowledged(&mut self, conn: ConnId, acked: u64) {
        let Some(course) = &mut self.course else {
            return;
        };
        let acked = course.of_them(acked);
        if course.conn == Some(conn) && acked > course.acknowledged {
            course.acknowledged = acked;
            // What it woke for was this.
            course.awake = None;
            self.keep(Moment::Acknowledged, acked);
        }
    }

    /// The host knows that so many of the connection's bytes have left, if it minds, and so many are acknowledged.
    #[cold]
    pub fn told(&mut self, left: Option<u64>, acknowledged: u64) {
        let Some(course) = &mut self.course else {
            return;
        };
        let left = left.map(|bytes| course.of_them(bytes));
        let left = left.filter(|bytes| *bytes > course.told_left);
        if let Some(bytes) = left {
            course.told_left = bytes;
            course.may_ring = true;
        }
        let acknowledged = course.of_them(acknowledged);
        let is_news = acknowledged > course.told_acknowledged;
        if is_news {
            course.told_acknowledged = acknowledged;
            course.may_ring = true;
        }
        if let Some(bytes) = left {
            self.keep(Moment::ToldLeft, bytes);
        }
        if is_news {
            self.keep(Moment::ToldAcknowledged, acknowledged);
        }
    }

    /// A doorbell was `rung`, or none: this was the moment for it, and there is no later one if `is_all`. With what
    /// the last of the sends was told it is over.
    #[cold]
    pub fn rings(&mut self, rung: bool, is_all: bool) {
        let Some(course) = &mut self.course else {
            return;
        };
        let told = course.told_acknowledged;
        let rang = course.may_ring && rung;
        course.may_ring &= !(rung || is_all);
        let is_over = course.left == 0 && told == course.taken && !course.may_ring;
        let bytes = told.max(course.told_left);
        if rang {
            self.keep(Moment::Rung, bytes);
        }
        if is_over {
            self.is_on = false;
        }
    }

    /// The connection is gone.
    #[cold]
    pub fn gone(&mut self) {
        self.is_on = false;
    }

    fn keep(&mut self, moment: Moment, bytes: u64) {
        self.keep_at(self.clock.now(), moment, bytes);
    }

    fn keep_at(&mut self, at: Instant, moment: Moment, bytes: u64) {
        let Some(course) = &mut self.course else {
            return;
        };
        if course.moments.len() == course.moments.capacity() {
            self.is_on = false;
            return;
        }
        let at = self.clock.began_ns() + at.as_nanos();
        course.moments.push(Traced { moment, at, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::{Course, MAX_SENDS, MOMENTS, Trace};
    use crate::clock::Clock;
    use queue_pair::control::Moment;
    use tcp::{ConnId, Instant};
    use wire::seq::SeqNumber;

    fn conn(index: u32) -> ConnId {
        ConnId {
            index,
            generation: 1,
        }
    }

    fn kept(trace: &mut Trace) -> Vec<(Moment, u64)> {
        let course = trace.end().expect("something was kept");
        let moments = course.moments().iter();
        moments.map(|it| (it.moment, it.bytes)).collect()
    }

    fn begun(sends: u32) -> Trace {
        let mut trace = Trace::default();
        assert!(!trace.is_on());
        let begun = trace.begin(Box::new(Course::of(sends)), Clock::start());
        assert!(trace.is_on() && begun.is_ok());
        trace
    }

    /// All that was sent before has left.
    fn takes(trace: &mut Trace, conn: ConnId, len: u32, sent: u64) {
        let left = sent - u64::from(len);
        trace.taken(conn, len, sent, || (left, number(left)));
    }

    /// That of a byte of the connection.
    fn number(at: u64) -> SeqNumber {
        SeqNumber(u32::MAX - 1_030) + at as u32
    }

    #[test]
    fn the_connection_that_sends_first_is_followed_for_as_many_sends() {
        let mut trace = begun(1);
        trace.acknowledged(conn(7), 900);
        trace.built(None, number(64));
        trace.awake(Instant::ZERO);
        takes(&mut trace, conn(7), 64, 1_064);
        takes(&mut trace, conn(8), 10, 10);
        for who in [8, 7] {
            trace.built(Some(conn(who)), number(1_064));
            trace.handed();
        }
        // What was acknowledged is of before.
        trace.acknowledged(conn(7), 1_000);
        trace.acknowledged(conn(8), 1_064);
        trace.told(None, 1_000);
        trace.rings(true, false);
        trace.acknowledged(conn(7), 1_064);
        trace.told(Some(1_064), 1_064);
        trace.rings(false, false);
        assert!(trace.is_on(), "it may be rung for later");
        trace.rings(true, true);
        assert!(!trace.is_on(), "that was all");
        let moments = [
            Moment::Awake,
            Moment::Taken,
            Moment::Built,
            Moment::Handed,
            Moment::Acknowledged,
            Moment::ToldLeft,
            Moment::ToldAcknowledged,
            Moment::Rung,
        ];
        assert_eq!(kept(&mut trace), moments.map(|moment| (moment, 64)));
        assert!(trace.end().is_none());
    }

    #[test]
    fn who_was_awake_is_not_said_to_wake_and_who_hears_is_not_rung() {
        let mut trace = begun(2);
        takes(&mut trace, conn(7), 64, 64);
        trace.awake(Instant::ZERO);
        trace.acknowledged(conn(7), 64);
        trace.told(None, 64);
        // Later is never.
        trace.rings(false, true);
        trace.rings(true, false);
        takes(&mut trace, conn(7), 64, 128);
        assert!(trace.is_on());
        // One more ends it, also if the end of the last was never told.
        takes(&mut trace, conn(7), 64, 192);
        assert!(!trace.is_on());
        let expected = [
            (Moment::Taken, 64),
            (Moment::Acknowledged, 64),
            (Moment::ToldAcknowledged, 64),
            (Moment::Taken, 128),
        ];
        assert_eq!(kept(&mut trace), expected);
    }

    #[test]
    fn what_was_sent_before_and_what_is_sent_again_is_not_of_them() {
        let mut trace = begun(2);
        // Of a thousand bytes before them a hundred have not left.
        trace.taken(conn(7), 64, 1_064, || (900, number(900)));
        takes(&mut trace, conn(7), 64, 1_128);
        for end in [800, 1_000, 700, 1_040, 1_040, 980, 1_128, 1_064] {
            trace.built(Some(conn(7)), number(end));
            trace.handed();
        }
        // What follows them is not theirs either.
        trace.built(Some(conn(7)), number(1_400));
        trace.handed();
        let expected = [
            (Moment::Taken, 64),
            (Moment::Taken, 128),
            (Moment::Built, 40),
            (Moment::Handed, 40),
            (Moment::Built, 128),
            (Moment::Handed, 128),
        ];
        assert_eq!(kept(&mut trace), expected);
    }

    #[test]
    fn what_nobody_has_asked_for_yet_is_not_dropped_for_another() {
        let mut trace = begun(1);
        takes(&mut trace, conn(7), 64, 64);
        let second = trace.begin(Box::new(Course::of(5)), Clock::start());
        assert_eq!(second.expect_err("the room comes back").left, 5);
        assert_eq!(kept(&mut trace), [(Moment::Taken, 64)]);
        let third = trace.begin(Box::new(Course::of(5)), Clock::start());
        assert!(third.is_ok());
    }

    #[test]
    fn what_there_is_no_room_for_ends_it() {
        let mut trace = begun(1);
        takes(&mut trace, conn(7), 64, 64);
        let mut sent = 0;
        for _ in 0..MOMENTS {
            assert!(trace.is_on());
            sent += 1;
            trace.built(Some(conn(7)), number(sent));
        }
        assert!(!trace.is_on());
        assert_eq!(kept(&mut trace).len(), MOMENTS);
        let most = Course::of(u32::MAX).moments.capacity();
        assert_eq!(most, MAX_SENDS as usize * MOMENTS);
    }

    /// A host's times stand in one line with these.
    #[test]
    fn times_are_those_of_the_machine() {
        let now = || Clock::default().now().as_nanos();
        let before = now();
        let mut trace = begun(1);
        takes(&mut trace, conn(7), 64, 64);
        let at = trace.end().unwrap().moments()[0].at;
        assert!((before..=now()).contains(&at), "{before} {at}");
    }
}
