//! An array in chunks that never move.

/// Items a chunk. A power of two, so that finding one is a shift and a mask.
const CHUNK: usize = 64;

/// An array that grows by chunks of 64 items; what is in it stays where it is.
#[derive(Clone, Debug)]
pub struct Chunks<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Chunks<T> {
    /// An empty array.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// How many items there are: a multiple of the chunk.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds a chunk; `make` is told the place of each new item.
    pub fn grow(&mut self, mut make: impl FnMut(u32) -> T) {
        let first = self.len();
        let items: Vec<T> = (first..first + CHUNK as u32).map(&mut make).collect();
        let Ok(chunk) = items.into_boxed_slice().try_into() else {
            unreachable!("a chunk has as many items as were made");
        };
        self.chunks.push(chunk);
    }

    /// Adds chunks until there is an item at `index`.
    #[inline]
    pub fn reach(&mut self, index: u32, mut make: impl FnMut(u32) -> T) {
        while index >= self.len() {
            self.grow(&mut make);
        }
    }

    /// The item at `index`, if there are so many.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        Some(&chunk[index as usize % CHUNK])
    }

    /// The item at `index`, if there are so many.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(index as usize / CHUNK)?;
        Some(&mut chunk[index as usize % CHUNK])
    }

    /// All items, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T> core::ops::Index<u32> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl<T> core::ops::IndexMut<u32> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_stays_where_it_is() {
        let mut chunks = Chunks::new();
        chunks.reach(0, |at| at);
        let first: *const u32 = &chunks[0];
        chunks.reach(100_000, |at| at);
        assert_eq!(first, &raw const chunks[0]);
        assert_eq!(chunks.len(), 100_032);
        assert!(chunks.iter().copied().eq(0..chunks.len()));
        assert_eq!(
            (chunks.get(100_031), chunks.get(100_032)),
            (Some(&100_031), None)
        );
        chunks[70] = 1;
        assert_eq!(chunks.get_mut(70), Some(&mut 1));
    }
}
