//! How it was some time back.

use super::sample::Between;
use std::collections::VecDeque;

/// Moments that are kept: as many as the widest terminal shows.
const LONG: usize = 512;

/// A figure over time.
#[derive(Debug, Default)]
pub struct Line(VecDeque<f64>);

/// The figures that are followed.
#[derive(Debug, Default)]
pub struct History {
    /// Bytes a second, both ways.
    pub bytes: Line,
    /// Requests and their answers, a second.
    pub exchanges: Line,
    /// Cores that the engine uses.
    pub cpu: Line,
}

impl History {
    /// Adds the latest.
    pub fn add(&mut self, between: &Between) {
        self.bytes.add(between.bytes_in + between.bytes_out);
        self.exchanges.add(between.exchanges);
        self.cpu.add(between.cpu);
    }
}

impl Line {
    fn add(&mut self, value: f64) {
        if self.0.len() == LONG {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The last of them, the latest last.
    pub fn last(&self, count: usize) -> impl Iterator<Item = f64> {
        self.0
            .iter()
            .skip(self.0.len().saturating_sub(count))
            .copied()
    }

    /// The greatest of the last of them.
    pub fn most(&self, count: usize) -> f64 {
        self.last(count).fold(0.0, f64::max)
    }
}
