//! How many flows there are on each local port, so that nobody has to look at all of them to learn
//! whether one is left.

/// Ports a block: a block exists once any of its ports has been used.
const BLOCK: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct PortCounts {
    blocks: Vec<Option<Box<[u32; BLOCK]>>>,
}

impl PortCounts {
    pub(crate) fn get(&self, port: u16) -> u32 {
        let (block, at) = place(port);
        let block = self.blocks.get(block).and_then(Option::as_ref);
        block.map_or(0, |block| block[at])
    }

    pub(crate) fn add(&mut self, port: u16) {
        let (block, at) = place(port);
        if block >= self.blocks.len() {
            self.blocks.resize(block + 1, None);
        }
        let block = self.blocks[block].get_or_insert_with(|| Box::new([0; BLOCK]));
        block[at] += 1;
    }

    pub(crate) fn subtract(&mut self, port: u16) {
        let (block, at) = place(port);
        if let Some(Some(block)) = self.blocks.get_mut(block) {
            debug_assert!(block[at] > 0, "nothing was counted on port {port}");
            block[at] = block[at].saturating_sub(1);
        }
    }
}

fn place(port: u16) -> (usize, usize) {
    (usize::from(port) / BLOCK, usize::from(port) % BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_counted_by_itself() {
        let mut counts = PortCounts::default();
        for port in [0, 80, 80, 81, u16::MAX] {
            counts.add(port);
        }
        counts.subtract(81);
        counts.subtract(80);
        let of = |port| counts.get(port);
        assert_eq!(
            [of(0), of(80), of(81), of(443), of(u16::MAX)],
            [1, 1, 0, 0, 1]
        );
    }
}
