//! Which KV blocks are free, which are shared, and what each cached block holds.
//!
//! The free blocks form one queue, the engine's only eviction order: allocation takes from the head; a freed block
//! with a hash goes to the tail (it may still serve a hit), one without goes to the head. Taking a hashed block drops
//! its hash. Block 0 is reserved; here it is the sentinel of the queue.

/// Index of a block; 0 is the null block.
pub type BlockId = u32;

/// In place of a hash: the block counts as cached, but nobody will ever ask for it.
const UNSOUGHT: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// Hash of the content; 0 where none.
    key: u64,
    references: u32,
    previous: BlockId,
    next: BlockId,
    /// The next hashed block of the same bucket, in the order they were hashed; 0 ends the list.
    chained: BlockId,
}

/// All blocks of one engine.
#[derive(Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    free: u32,
    /// First hashed block per bucket of keys; empty until a block is hashed. Blocks of equal content sit in one
    /// chain in the order they were hashed, so that the first of them serves hits.
    buckets: Vec<BlockId>,
    contents: usize,
    evictions: u64,
}

impl BlockPool {
    /// `count` blocks, block 0 reserved, the others free in order.
    pub fn new(count: u32) -> Self {
        let mut blocks = vec![Block::default(); count as usize];
        for id in 0..count {
            blocks[id as usize].previous = if id == 0 { count - 1 } else { id - 1 };
            blocks[id as usize].next = if id + 1 == count { 0 } else { id + 1 };
        }
        Self { blocks, free: count.saturating_sub(1), buckets: Vec::new(), contents: 0, evictions: 0 }
    }

    /// Blocks nobody references.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that can be used at all.
    pub fn usable(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// Distinct contents in the prefix cache.
    pub fn cached_contents(&self) -> usize {
        self.contents
    }

    /// Cached blocks whose hash was dropped to reuse the block.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    fn bucket(&self, key: u64) -> usize {
        key as usize & (self.buckets.len() - 1)
    }

    /// The block that serves a hit on this content.
    #[inline]
    pub fn find(&self, key: u64) -> Option<BlockId> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.buckets[self.bucket(key)];
        while at != 0 && self.blocks[at as usize].key != key {
            at = self.blocks[at as usize].chained;
        }
        (at != 0).then_some(at)
    }

    /// Nobody references the block: it sits in the free queue.
    #[inline]
    pub fn is_idle(&self, id: BlockId) -> bool {
        self.blocks[id as usize].references == 0
    }

    /// Takes the head of the free queue. The caller has checked that there is one.
    pub fn take(&mut self) -> BlockId {
        let id = self.blocks[0].next;
        debug_assert!(id != 0, "no free block");
        self.unlink(id);
        if self.blocks[id as usize].key != 0 {
            self.forget(id);
        }
        self.blocks[id as usize].references = 1;
        id
    }

    /// One more request uses a cached block.
    pub fn touch(&mut self, id: BlockId) {
        if self.blocks[id as usize].references == 0 {
            self.unlink(id);
        }
        self.blocks[id as usize].references += 1;
    }

    /// Gives blocks back, in the order given (a table is walked from its tail). Null blocks are ignored.
    pub fn release(&mut self, ids: impl Iterator<Item = BlockId>) {
        let mut head = 0; // the last block put at the head, so that the batch keeps its order
        for id in ids {
            if id == 0 {
                continue;
            }
            let block = &mut self.blocks[id as usize];
            block.references -= 1;
            if block.references > 0 {
                continue;
            }
            if block.key != 0 {
                let last = self.blocks[0].previous;
                self.link_after(last, id);
            } else {
                self.link_after(head, id);
                head = id;
            }
        }
    }

    /// The block is full of tokens that nobody will ask for: it waits for eviction like any cached one.
    pub fn put_unsought(&mut self, id: BlockId) {
        self.blocks[id as usize].key = UNSOUGHT;
    }

    /// Somebody may ask for such a block after all. Blocks with a hash keep it.
    pub fn seek(&mut self, id: BlockId, key: u64) {
        if self.blocks[id as usize].key == UNSOUGHT {
            self.blocks[id as usize].key = 0;
            self.put(id, key);
        }
    }

    /// Records what a block holds.
    pub fn put(&mut self, id: BlockId, key: u64) {
        debug_assert!(self.blocks[id as usize].key == 0, "block hashed twice");
        if self.buckets.is_empty() {
            // Few blocks share a bucket: a walk along a chain costs a cache miss a block.
            self.buckets = vec![0; 4 * self.blocks.len().next_power_of_two()];
        }
        self.blocks[id as usize].key = key;
        self.blocks[id as usize].chained = 0;
        let bucket = self.bucket(key);
        let mut at = self.buckets[bucket];
        if at == 0 {
            self.buckets[bucket] = id;
            self.contents += 1;
            return;
        }
        let mut new = true;
        loop {
            let Block { key: other, chained, .. } = self.blocks[at as usize];
            new &= other != key;
            if chained == 0 {
                break;
            }
            at = chained;
        }
        self.blocks[at as usize].chained = id;
        self.contents += usize::from(new);
    }

    fn forget(&mut self, id: BlockId) {
        self.evictions += 1;
        let key = std::mem::take(&mut self.blocks[id as usize].key);
        let after = std::mem::take(&mut self.blocks[id as usize].chained);
        if key == UNSOUGHT {
            return;
        }
        let bucket = self.bucket(key);
        if self.buckets[bucket] == id {
            self.buckets[bucket] = after;
            if after == 0 {
                self.contents -= 1;
                return;
            }
        } else {
            let mut at = self.buckets[bucket];
            while self.blocks[at as usize].chained != id {
                at = self.blocks[at as usize].chained;
            }
            self.blocks[at as usize].chained = after;
        }
        self.contents -= usize::from(self.find(key).is_none());
    }

    fn unlink(&mut self, id: BlockId) {
        let Block { previous, next, .. } = self.blocks[id as usize];
        self.blocks[previous as usize].next = next;
        self.blocks[next as usize].previous = previous;
        self.free -= 1;
    }

    fn link_after(&mut self, place: BlockId, id: BlockId) {
        let next = self.blocks[place as usize].next;
        self.blocks[id as usize].previous = place;
        self.blocks[id as usize].next = next;
        self.blocks[place as usize].next = id;
        self.blocks[next as usize].previous = id;
        self.free += 1;
    }

    /// Blocks in the free queue, counted by walking it, and the sum of references: for conservation checks.
    pub fn audit(&self) -> (u32, u64) {
        let mut walked = 0;
        let mut at = self.blocks[0].next;
        while at != 0 && walked <= self.free {
            walked += 1;
            at = self.blocks[at as usize].next;
        }
        (walked, self.blocks[1..].iter().map(|b| u64::from(b.references)).sum())
    }

    /// Blocks that at least one request references.
    pub fn referenced(&self) -> u32 {
        self.blocks[1..].iter().filter(|b| b.references > 0).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_return_in_the_engines_order() {
        // Six usable blocks; a table of 1, 2, 3 with 1 hashed: 3 and 2 go to the head (3 first), 1 to the tail.
        let mut pool = BlockPool::new(7);
        let table: Vec<_> = (0..3).map(|_| pool.take()).collect();
        assert_eq!(table, [1, 2, 3]);
        pool.put(1, 77);
        pool.release(table.iter().rev().copied());
        let order: Vec<_> = (0..6).map(|_| pool.take()).collect();
        assert_eq!(order, [3, 2, 4, 5, 6, 1]);
        assert_eq!((pool.find(77), pool.evictions(), pool.free()), (None, 1, 0));
    }

    #[test]
    fn a_second_block_of_the_same_content_serves_when_the_first_is_evicted() {
        let mut pool = BlockPool::new(4);
        let (a, b) = (pool.take(), pool.take());
        pool.put(a, 9);
        pool.put(b, 9);
        assert_eq!((pool.find(9), pool.cached_contents()), (Some(a), 1));
        pool.release([a].into_iter());
        assert_eq!([pool.take(), pool.take()], [3, a]);
        assert_eq!(pool.find(9), Some(b));
    }
}
