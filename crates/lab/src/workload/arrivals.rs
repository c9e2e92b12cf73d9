//! Poisson arrivals: pauses between them are exponential.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp};
use std::time::Duration;

/// When each of the arrivals at a rate (a second) is due, from the beginning on, until `length`.
/// Nothing at a rate that is not above zero.
pub fn poisson(rate: f64, length: Duration, random: &mut ChaCha8Rng) -> Vec<Duration> {
    let Some(pauses) = Exp::new(rate).ok().filter(|_| rate > 0.0) else {
        return Vec::new();
    };
    let mut at = 0.0;
    let mut due = Vec::new();
    loop {
        at += pauses.sample(random);
        if at >= length.as_secs_f64() {
            return due;
        }
        due.push(Duration::from_secs_f64(at));
    }
}
