//! KV blocks kept in host memory: written when a block fills, found again when the device has evicted it, LRU.

use super::blocks::BlockPool;

/// The host's copy of hashed blocks.
#[derive(Debug)]
pub(super) struct HostTier {
    /// Nobody references a block here: the free queue is the LRU order.
    blocks: BlockPool,
}

impl HostTier {
    pub fn new(blocks: u32) -> Self {
        Self { blocks: BlockPool::new(blocks.saturating_add(1)) }
    }

    /// Keeps a content, as the most recently used.
    pub fn store(&mut self, key: u64) {
        let id = match self.blocks.find(key) {
            Some(id) => {
                self.blocks.touch(id);
                id
            }
            None => {
                let id = self.blocks.take();
                self.blocks.put(id, key);
                id
            }
        };
        self.blocks.release(std::iter::once(id));
    }

    /// How many of these contents, from the first on, are held.
    pub fn leading(&self, keys: &[u64]) -> u32 {
        keys.iter().take_while(|key| self.blocks.find(**key).is_some()).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::HostTier;

    #[test]
    fn the_least_recently_stored_goes_first() {
        let mut host = HostTier::new(2);
        [1, 2, 1, 3].into_iter().for_each(|key| host.store(key));
        let held = [&[1][..], &[2], &[3], &[1, 3, 2]].map(|keys| host.leading(keys));
        assert_eq!(held, [1, 0, 1, 2]);
    }
}
