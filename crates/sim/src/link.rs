//! One direction of a link: how long a frame takes, and what happens to it on the way.

mod config;
mod faults;

pub use config::{Burst, LinkConfig};

use core::time::Duration;

use tcp::Instant;

use crate::rng::Rng;
use faults::Bursts;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Passed,
    /// It arrives, later than some that were sent after it.
    Delayed,
    /// It arrives twice.
    Duplicated,
    /// It arrives with a bit turned over.
    Corrupted,
    /// It arrives, marked for the congestion that it met.
    Marked,
    /// It was lost at random.
    Lost,
    /// It was lost because the queue was full.
    Overflowed,
    /// It was lost because it was too large.
    TooBig,
    /// A test took it away.
    Taken,
    /// There is nobody at its destination.
    Unroutable,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    rng: Rng,
    /// When the last bit of what was sent so far leaves.
    free_at: Instant,
    /// When the last frame arrives that was not late.
    last_arrival: Instant,
    /// How long the way was for it.
    last_delay: Duration,
    bursts: Bursts,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, rng: Rng) -> Link {
        Link {
            last_delay: config.delay,
            config,
            rng,
            free_at: Instant::ZERO,
            last_arrival: Instant::ZERO,
            bursts: Bursts::default(),
        }
    }

    /// The MTU that the sender of a packet too large is told, if it is told.
    pub(crate) fn told_mtu(&self) -> Option<u32> {
        let mtu = u32::try_from(self.config.mtu).unwrap_or(u32::MAX);
        self.config.icmp.then_some(mtu)
    }

    pub(crate) fn config_mut(&mut self) -> &mut LinkConfig {
        &mut self.config
    }

    /// Sends a frame whose headers below IP take `link_header` bytes; `arrive` is called for each
    /// arrival.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        mut frame: Vec<u8>,
        link_header: usize,
        mut arrive: impl FnMut(Instant, Vec<u8>),
    ) -> Fate {
        let Link { config, rng, .. } = self;
        if frame.len() - link_header > config.mtu {
            return Fate::TooBig;
        }
        let mut passed = Fate::Passed;
        if let Some(bandwidth) = config.bandwidth {
            let bits_to_nanos = |bits: u64| bits * 1_000_000_000 / bandwidth.max(1);
            let waiting = self.free_at.saturating_duration_since(now).as_nanos() as u64;
            if waiting > bits_to_nanos(config.queue as u64 * 8) {
                return Fate::Overflowed;
            }
            let marks = |limit: usize| waiting > bits_to_nanos(limit as u64 * 8);
            if config.marking.is_some_and(marks) && faults::mark_congestion(&mut frame, link_header)
            {
                passed = Fate::Marked;
            }
            let sending = bits_to_nanos(frame.len() as u64 * 8);
            self.free_at = self.free_at.max(now) + Duration::from_nanos(sending);
        } else {
            self.free_at = now;
        }
        // Lost frames have taken their bandwidth.
        let loss = self.bursts.loss(now, config, rng);
        if rng.happens(loss) {
            return Fate::Lost;
        }
        if config.delay != self.last_delay {
            self.last_delay = config.delay;
            self.last_arrival = Instant::ZERO;
        }
        let on_time = self.free_at + config.delay + rng.span(config.jitter);
        let on_time = on_time.max(self.last_arrival);
        if rng.happens(config.corruption) {
            let bit = rng.below(frame.len() as u64 * 8);
            frame[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.last_arrival = on_time;
            arrive(on_time, frame);
            return Fate::Corrupted;
        }
        if rng.happens(config.reordering) {
            arrive(on_time + rng.span(config.lateness), frame);
            return Fate::Delayed;
        }
        self.last_arrival = on_time;
        if rng.happens(config.duplication) {
            arrive(on_time, frame.clone());
            arrive(on_time + rng.span(config.lateness), frame);
            return Fate::Duplicated;
        }
        arrive(on_time, frame);
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Chance;

    fn arrivals(link: &mut Link, now: Instant, len: usize) -> (Fate, Vec<u64>) {
        let mut times = Vec::new();
        let fate = link.send(now, vec![0; len], 14, |at, _| times.push(at.as_micros()));
        (fate, times)
    }

    fn link(config: LinkConfig) -> Link {
        Link::new(config, Rng::new(1))
    }

    #[test]
    fn bandwidth_delays_and_queues_overflow() {
        let mut link = link(LinkConfig {
            bandwidth: Some(8_000_000),
            queue: 2_500,
            ..LinkConfig::default()
        });
        // A byte a microsecond, and ten milliseconds on the way.
        for (sent, arrival) in [(0, 11_000), (0, 12_000), (500, 13_000)] {
            let got = arrivals(&mut link, Instant::from_micros(sent), 1_000);
            assert_eq!(got, (Fate::Passed, vec![arrival]));
        }
        assert_eq!(
            arrivals(&mut link, Instant::from_micros(499), 1_000).0,
            Fate::Overflowed
        );
        assert_eq!(
            arrivals(&mut link, Instant::from_micros(500), 1_000).0,
            Fate::Passed
        );
    }

    #[test]
    fn each_fault_does_what_it_says() {
        let always = Chance::ALWAYS;
        let faultless = LinkConfig::default;
        let lossy = LinkConfig {
            loss: always,
            ..faultless()
        };
        assert_eq!(
            arrivals(&mut link(lossy), Instant::ZERO, 100),
            (Fate::Lost, vec![])
        );
        let (fate, times) = arrivals(
            &mut link(LinkConfig {
                duplication: always,
                ..faultless()
            }),
            Instant::ZERO,
            100,
        );
        assert_eq!((fate, times.len()), (Fate::Duplicated, 2));
        let (fate, times) = arrivals(
            &mut link(LinkConfig {
                reordering: always,
                ..faultless()
            }),
            Instant::ZERO,
            100,
        );
        assert!(fate == Fate::Delayed && times[0] >= 10_000, "{times:?}");
        let small = LinkConfig {
            mtu: 1_500,
            ..faultless()
        };
        assert_eq!(
            arrivals(&mut link(small.clone()), Instant::ZERO, 1_514).0,
            Fate::Passed
        );
        assert_eq!(
            arrivals(&mut link(small), Instant::ZERO, 1_515).0,
            Fate::TooBig
        );
        let mut corrupted = Vec::new();
        link(LinkConfig {
            corruption: always,
            ..faultless()
        })
        .send(Instant::ZERO, vec![0; 100], 14, |_, frame| {
            corrupted = frame
        });
        assert_eq!(
            corrupted.iter().map(|byte| byte.count_ones()).sum::<u32>(),
            1
        );
    }

    #[test]
    fn jitter_keeps_the_order() {
        let mut link = link(LinkConfig {
            jitter: Duration::from_millis(5),
            ..LinkConfig::default()
        });
        let mut last = 0;
        for sent in 0..1_000 {
            let (_, times) = arrivals(&mut link, Instant::from_micros(sent * 10), 100);
            assert!(times[0] >= last);
            last = times[0];
        }
    }

    #[test]
    fn losses_come_in_bursts() {
        let burst = Burst {
            begin: Chance::percent(1),
            end: Chance::percent(25),
            loss: Chance::ALWAYS,
            longest: Duration::from_secs(1),
        };
        let mut link = link(LinkConfig {
            bursts: Some(burst),
            ..LinkConfig::default()
        });
        let fates: Vec<bool> = (0..100_000)
            .map(|_| arrivals(&mut link, Instant::ZERO, 100).0 == Fate::Lost)
            .collect();
        let lost = fates.iter().filter(|&&lost| lost).count();
        let runs = fates.windows(2).filter(|w| !w[0] && w[1]).count();
        // A burst in a hundred frames, of four on average.
        assert!((3_300..4_400).contains(&lost), "{lost}");
        assert!((3..=5).contains(&(lost / runs)), "{lost} in {runs}");
    }

    #[test]
    fn a_new_route_may_be_faster_than_what_is_under_way() {
        let mut link = link(LinkConfig::default());
        assert_eq!(arrivals(&mut link, Instant::ZERO, 100).1, [10_000]);
        link.config_mut().delay = Duration::from_millis(1);
        assert_eq!(arrivals(&mut link, Instant::ZERO, 100).1, [1_000]);
    }

    #[test]
    fn a_queue_that_grows_marks_who_understands_it() {
        let mut link = link(LinkConfig {
            bandwidth: Some(8_000_000),
            marking: Some(1_500),
            ..LinkConfig::default()
        });
        let mut ipv6 = vec![0; 1_000];
        (ipv6[0], ipv6[1]) = (0x60, 0x20);
        let mut ipv4 = vec![0; 1_000];
        (ipv4[0], ipv4[1]) = (0x45, 0x01);
        let mut unaware = ipv4.clone();
        unaware[1] = 0;
        let mut send = |frame: &Vec<u8>| {
            let mut arrived = Vec::new();
            let fate = link.send(Instant::ZERO, frame.clone(), 0, |_, frame| arrived = frame);
            (fate, arrived)
        };
        for _ in 0..2 {
            assert_eq!(send(&ipv4), (Fate::Passed, ipv4.clone()));
        }
        assert_eq!(send(&unaware), (Fate::Passed, unaware.clone()));
        let (fate, frame) = send(&ipv6);
        assert_eq!((fate, frame[1]), (Fate::Marked, 0x30));
        let (fate, frame) = send(&ipv4);
        assert_eq!((fate, frame[1]), (Fate::Marked, 0x03));
        assert!(wire::checksum::Sum::of(&frame[..20]).is_valid());
    }
}
