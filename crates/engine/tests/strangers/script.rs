//! The bytes of a script, one after the other.

/// What is left of it.
pub struct Script<'a>(pub &'a [u8]);

impl<'a> Script<'a> {
    /// The next byte, while there is one.
    pub fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A byte; zero when there are no more.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// One in two.
    pub fn bit(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Less than `count`, which is not zero.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// A small number, or one of those where arithmetic ends.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            at @ ..=199 => at.into(),
            at @ 200..=239 => 1 << (at - 200),
            240..=243 => u64::MAX,
            244..=247 => u32::MAX.into(),
            248..=251 => i64::MAX as u64,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// The next bytes, at most so many.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        match all.len() {
            0 => None,
            count => Some(all[self.below(count)]),
        }
    }
}
