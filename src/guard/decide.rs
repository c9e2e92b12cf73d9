//! When a server is to be reloaded: a function of what was measured and of the time, and of nothing
//! else.

use std::collections::VecDeque;

/// The longest wait between reloads that do not help.
const LONGEST_PAUSE_NS: u64 = 3_600_000_000_000;
/// How many measurements growth is told from.
const REMEMBERED: usize = 8;
/// Growth is not told from fewer.
const LEAST_REMEMBERED: usize = 3;
/// Below this nothing is foreseen: what has just been started grows.
const FORESEEN_FROM: f64 = 0.5;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Memory of the server's processes.
    Server,
    /// Memory of a cgroup that they are in.
    Cgroup,
    /// What the machine has left.
    Machine,
    /// How much waiting for memory there is.
    Pressure,
}

/// One measure at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    pub kind: Kind,
    /// 1 where the server is to be reloaded, more beyond it.
    pub level: f64,
    /// The level at which something is refused or killed, if there is one that growth leads to.
    pub limit: Option<f64>,
}

/// How to decide.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The least time between two reloads, nanoseconds.
    pub pause_ns: u64,
    /// How far below 1 every level has to fall for a reload to have helped, from 0 to 1.
    pub hysteresis: f64,
    /// How far ahead growth is followed to the limit, nanoseconds; 0 is not at all.
    pub ahead_ns: u64,
}

/// Why a server is reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Why {
    /// The measure that says so.
    pub measure: Kind,
    /// It has not come so far, but would at its growth.
    pub foreseen: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// Reload the server now.
    Reload {
        why: Why,
        /// Reloads just before this one that did not help.
        in_vain: u32,
    },
    /// It should be, but the last time is too short ago. Said once, until that changes.
    Held { why: Why, left_ns: u64 },
    /// All is low again, so long after the reload.
    Recovered { after_ns: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing was done about what is there now.
    Ready,
    /// It waits for the pause to end.
    Held,
    /// It was reloaded, and is not low again yet.
    Reloaded,
}

/// Decides, from one measurement to the next.
#[derive(Debug)]
pub struct Decider {
    rules: Rules,
    state: State,
    reloaded_at_ns: Option<u64>,
    in_vain: u32,
    /// When, and the levels of server and cgroup.
    recent: VecDeque<(u64, Vec<Measure>)>,
}

impl Decider {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Ready,
            reloaded_at_ns: None,
            in_vain: 0,
            recent: VecDeque::new(),
        }
    }

    /// What to do, given what is measured at this moment. Moments do not go back.
    pub fn decide(&mut self, now_ns: u64, measures: &[Measure]) -> Verdict {
        let why = self.why(now_ns, measures);
        self.remember(now_ns, measures);
        let since_ns = self
            .reloaded_at_ns
            .map(|at_ns| now_ns.saturating_sub(at_ns));
        if self.state == State::Reloaded && self.is_low(measures) {
            self.state = State::Ready;
            self.in_vain = 0;
            // Growth may be too fast for the pause: that is said next time.
            return Verdict::Recovered {
                after_ns: since_ns.unwrap_or(0),
            };
        }
        let Some(why) = why else {
            if self.state == State::Held {
                self.state = State::Ready;
            }
            return Verdict::Nothing;
        };
        let left_ns = since_ns.map_or(0, |since| self.pause_ns().saturating_sub(since));
        if left_ns > 0 {
            // After a reload it takes its time until the old workers have ended.
            if self.state != State::Ready {
                return Verdict::Nothing;
            }
            self.state = State::Held;
            return Verdict::Held { why, left_ns };
        }
        if self.state == State::Reloaded {
            self.in_vain = self.in_vain.saturating_add(1);
        }
        self.state = State::Reloaded;
        self.reloaded_at_ns = Some(now_ns);
        self.recent.clear();
        Verdict::Reload {
            why,
            in_vain: self.in_vain,
        }
    }

    /// How long to leave between reloads: twice as long after each that did not help.
    fn pause_ns(&self) -> u64 {
        let longest = LONGEST_PAUSE_NS.max(self.rules.pause_ns);
        let doubled = 1u64.checked_shl(self.in_vain).unwrap_or(u64::MAX);
        self.rules.pause_ns.saturating_mul(doubled).min(longest)
    }

    fn is_low(&self, measures: &[Measure]) -> bool {
        let low = 1.0 - self.rules.hysteresis;
        measures.iter().all(|measure| measure.level < low)
    }

    fn why(&self, now_ns: u64, measures: &[Measure]) -> Option<Why> {
        let high = measures.iter().find(|measure| measure.level >= 1.0);
        let foreseen = || measures.iter().find(|one| self.leads_beyond(now_ns, one));
        let (measure, foreseen) = match high {
            Some(measure) => (measure, false),
            None => (foreseen()?, true),
        };
        Some(Why {
            measure: measure.kind,
            foreseen,
        })
    }

    /// Whether a measure reaches its limit soon, if it goes on as it did.
    fn leads_beyond(&self, now_ns: u64, measure: &Measure) -> bool {
        let (Some(limit), Some((first_ns, first))) = (measure.limit, self.recent.front()) else {
            return false;
        };
        let passed_ns = now_ns.saturating_sub(*first_ns);
        let same = first.iter().find(|one| one.kind == measure.kind);
        let (Some(same), 1..) = (same, passed_ns) else {
            return false;
        };
        if measure.level < FORESEEN_FROM || self.recent.len() + 1 < LEAST_REMEMBERED {
            return false;
        }
        let growth = (measure.level - same.level) / passed_ns as f64;
        measure.level + growth * self.rules.ahead_ns as f64 >= limit
    }

    fn remember(&mut self, now_ns: u64, measures: &[Measure]) {
        self.recent.push_back((now_ns, measures.to_vec()));
        if self.recent.len() >= REMEMBERED {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const RULES: Rules = Rules {
        pause_ns: 30 * SECOND_NS,
        hysteresis: 0.1,
        ahead_ns: 0,
    };

    fn server(level: f64) -> [Measure; 1] {
        [Measure {
            kind: Kind::Server,
            level,
            limit: Some(1.25),
        }]
    }

    fn reload(kind: Kind, foreseen: bool, in_vain: u32) -> Verdict {
        let measure = kind;
        Verdict::Reload {
            why: Why { measure, foreseen },
            in_vain,
        }
    }

    /// A server that leaks 4,053 bytes a request under a load of a thousand a second, for an hour of virtual
    /// time, measured each second: it stays under its limit, and is reloaded once per fill.
    #[test]
    fn a_leak_is_kept_under_its_limit_for_an_hour() {
        let (limit, mark) = (200e6, 160e6);
        let mut decider = Decider::new(RULES);
        let (mut new, mut old, mut reloads, mut most) = (10e6, 0.0, 0, 0.0f64);
        for second in 1..=3_600u64 {
            new += 4_053.0 * 1_000.0;
            // Old workers take three seconds to end.
            old *= 0.3;
            most = most.max(new + old);
            let measures = server((new + old) / mark);
            if let Verdict::Reload { in_vain, .. } = decider.decide(second * SECOND_NS, &measures) {
                assert_eq!(in_vain, 0);
                reloads += 1;
                (old, new) = (new, 10e6);
            }
        }
        assert!(most < limit, "{most}");
        // 150 MB at 4.05 MB/s: 37 seconds and what the old ones are counted for.
        assert!((90..=98).contains(&reloads), "{reloads}");
    }

    #[test]
    fn what_is_level_but_not_low_is_left_alone() {
        let mut decider = Decider::new(RULES);
        assert_eq!(decider.decide(0, &server(0.999)), Verdict::Nothing);
        assert_eq!(
            decider.decide(1, &server(1.0)),
            reload(Kind::Server, false, 0)
        );
        // The old workers end; it is said when all is low, and once.
        assert_eq!(decider.decide(2, &server(1.4)), Verdict::Nothing);
        assert_eq!(decider.decide(3, &server(0.9)), Verdict::Nothing);
        let recovered = Verdict::Recovered { after_ns: 3 };
        assert_eq!(decider.decide(4, &server(0.899)), recovered);
        assert_eq!(decider.decide(5, &server(0.5)), Verdict::Nothing);
    }

    #[test]
    fn reloads_have_a_pause_between_them() {
        let mut decider = Decider::new(RULES);
        assert_eq!(
            decider.decide(0, &server(1.0)),
            reload(Kind::Server, false, 0)
        );
        decider.decide(SECOND_NS, &server(0.1));
        let why = Why {
            measure: Kind::Server,
            foreseen: false,
        };
        let held = Verdict::Held {
            why,
            left_ns: 20 * SECOND_NS,
        };
        assert_eq!(decider.decide(10 * SECOND_NS, &server(2.0)), held);
        // Said once; and again if it was low between.
        assert_eq!(
            decider.decide(11 * SECOND_NS, &server(2.0)),
            Verdict::Nothing
        );
        decider.decide(12 * SECOND_NS, &server(0.5));
        assert!(matches!(
            decider.decide(13 * SECOND_NS, &server(2.0)),
            Verdict::Held { .. }
        ));
        let end = RULES.pause_ns;
        assert_eq!(decider.decide(end - 1, &server(2.0)), Verdict::Nothing);
        assert_eq!(
            decider.decide(end, &server(2.0)),
            reload(Kind::Server, false, 0)
        );
    }

    /// Somebody else's memory: a reload each half minute would be of no use.
    #[test]
    fn reloads_that_do_not_help_become_rare() {
        let mut decider = Decider::new(RULES);
        let machine = [Measure {
            kind: Kind::Machine,
            level: 3.0,
            limit: None,
        }];
        let mut at = Vec::new();
        for second in 0..20_000 {
            let verdict = decider.decide(second * SECOND_NS, &machine);
            if let Verdict::Reload { in_vain, .. } = verdict {
                assert_eq!(in_vain as usize, at.len());
                at.push(second);
            }
        }
        assert_eq!(at[..6], [0, 30, 90, 210, 450, 930]);
        let longest = at.windows(2).map(|two| two[1] - two[0]).max();
        assert_eq!(longest, Some(3_600));
        // One that helps makes the pause short again.
        decider.decide(20_000 * SECOND_NS, &[]);
        assert_eq!(decider.pause_ns(), RULES.pause_ns);
    }

    #[test]
    fn any_measure_may_ask_and_all_must_be_low() {
        let mut decider = Decider::new(RULES);
        let both = |server: f64, pressure: f64| {
            let of = |kind, level| Measure {
                kind,
                level,
                limit: None,
            };
            [of(Kind::Cgroup, server), of(Kind::Pressure, pressure)]
        };
        assert_eq!(
            decider.decide(0, &both(0.2, 1.5)),
            reload(Kind::Pressure, false, 0)
        );
        assert_eq!(decider.decide(1, &both(0.95, 0.1)), Verdict::Nothing);
        assert_eq!(decider.decide(2, &both(0.2, 0.95)), Verdict::Nothing);
        assert!(matches!(
            decider.decide(3, &both(0.2, 0.2)),
            Verdict::Recovered { .. }
        ));
    }

    #[test]
    fn growth_is_followed_to_the_limit() {
        let rules = Rules {
            ahead_ns: 5 * SECOND_NS,
            ..RULES
        };
        // 0.1 a second: at 0.75 there are five seconds to the limit at 1.25.
        let mut decider = Decider::new(rules);
        let level = |tenths: u64| server(tenths as f64 / 10.0 + 0.05);
        for tenths in 0..7 {
            let verdict = decider.decide(tenths * SECOND_NS, &level(tenths));
            assert_eq!(verdict, Verdict::Nothing, "{tenths}");
        }
        assert_eq!(
            decider.decide(7 * SECOND_NS, &level(7)),
            reload(Kind::Server, true, 0)
        );
        // Without looking ahead it waits for the mark.
        let mut blind = Decider::new(RULES);
        for tenths in 0..=9 {
            let verdict = blind.decide(tenths * SECOND_NS, &level(tenths));
            assert_eq!(verdict, Verdict::Nothing, "{tenths}");
        }
    }

    #[test]
    fn a_start_is_no_leak() {
        let rules = Rules {
            ahead_ns: 60 * SECOND_NS,
            ..RULES
        };
        let mut decider = Decider::new(rules);
        for tenth in 0..5 {
            let measures = server(tenth as f64 / 10.0);
            assert_eq!(
                decider.decide(tenth * SECOND_NS, &measures),
                Verdict::Nothing
            );
        }
        // And two measurements do not tell of growth.
        let mut decider = Decider::new(rules);
        assert_eq!(decider.decide(0, &server(0.1)), Verdict::Nothing);
        assert_eq!(decider.decide(SECOND_NS, &server(0.9)), Verdict::Nothing);
        assert_eq!(
            decider.decide(2 * SECOND_NS, &server(0.95)),
            reload(Kind::Server, true, 0)
        );
    }

    #[test]
    fn growth_is_that_of_late_and_of_one_measure() {
        let rules = Rules {
            ahead_ns: 5 * SECOND_NS,
            ..RULES
        };
        // A jump long ago is no growth.
        let mut decider = Decider::new(Rules {
            ahead_ns: 60 * SECOND_NS,
            ..RULES
        });
        decider.decide(0, &server(0.0));
        for second in 1..=30 {
            let level = if second <= 10 { 0.49 } else { 0.5 };
            let verdict = decider.decide(second * SECOND_NS, &server(level));
            assert_eq!(verdict, Verdict::Nothing, "{second}");
        }
        // What was there before a reload says nothing of the server that is there now.
        let mut decider = Decider::new(Rules {
            pause_ns: 0,
            ..rules
        });
        decider.decide(0, &server(0.95));
        decider.decide(SECOND_NS, &server(1.0));
        decider.decide(2 * SECOND_NS, &server(0.6));
        decider.decide(3 * SECOND_NS, &server(0.75));
        assert_eq!(
            decider.decide(4 * SECOND_NS, &server(0.9)),
            reload(Kind::Server, true, 0)
        );
        // Each measure has its own growth.
        let mut decider = Decider::new(rules);
        let two = |level: f64| {
            let cgroup = Measure {
                kind: Kind::Cgroup,
                ..server(level)[0]
            };
            [server(0.1)[0], cgroup]
        };
        for second in 0..5 {
            let verdict = decider.decide(second * SECOND_NS, &two(0.9));
            assert_eq!(verdict, Verdict::Nothing, "{second}");
        }
    }

    #[test]
    fn the_same_moment_twice_is_no_growth() {
        let rules = Rules {
            ahead_ns: SECOND_NS,
            ..RULES
        };
        let mut decider = Decider::new(rules);
        for level in [0.5, 0.6, 0.7, 0.8] {
            assert_eq!(decider.decide(7, &server(level)), Verdict::Nothing);
        }
    }
}
