//! Which tokens a request holds, without holding them: runs of a keyed stream, and the chained hashes of its blocks.
//!
//! Two requests share a block exactly when all pieces up to and including it are equal: the hash of a block covers
//! its parent's hash and its own pieces.

/// `len` consecutive tokens of the stream `key`, from `start` on. Equal keys and positions mean equal tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Identity of the stream.
    pub key: u64,
    /// First position.
    pub start: u32,
    /// Tokens.
    pub len: u32,
}

/// The stream of a stop token.
const STOP_STREAM: u64 = u64::MAX;

/// Prompt pieces and the stream that the answer comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The prompt, in order.
    pub prompt: Vec<Segment>,
    /// The answer's stream: output token n is its position n.
    pub output_key: u64,
    /// No other request will ever hold these tokens: its blocks are hashed only if it is preempted.
    pub unshared: bool,
}

impl Content {
    /// Prompt tokens.
    pub fn prompt_len(&self) -> u32 {
        self.prompt.iter().map(|s| s.len).sum()
    }
}

/// Folds two words into one: 64 × 64 → 128 bit multiplication, halves xored.
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let wide = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xe703_7ed1_a0b4_28db);
    (wide >> 64) as u64 ^ wide as u64
}

/// Low bits of a key that say where a block lies: those of its group, and its place in it. Neighbours of a prompt then
/// lie side by side in a table of keys, where a random place would cost a cache miss a block.
const PLACE_BITS: u32 = 32;
/// Blocks of a group, and the bits that count them.
const GROUP_BITS: u32 = 4;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
const IN_GROUP: u64 = (1 << GROUP_BITS) - 1;

/// The key of block `number` of a chain whose hash is `hash`, after the key `parent` of the block before it: the upper
/// half of the hash, the group's part of the hash of its first block, and the place in the group.
fn placed(hash: u64, number: usize, parent: u64) -> u64 {
    let in_group = number as u64 & IN_GROUP;
    let group = if in_group == 0 { hash.wrapping_shl(GROUP_BITS) } else { parent };
    // 0 means "not hashed" in the pool.
    ((hash & !PLACE) | (group & PLACE & !IN_GROUP) | in_group).max(1)
}

/// The key of the same block in another group of layers; neighbours stay neighbours.
pub fn salted(key: u64, salt: u64) -> u64 {
    let group = mix(salt, PLACE) & PLACE & !IN_GROUP;
    ((mix(key, salt) & !PLACE) | ((key ^ group) & PLACE)).max(1)
}

/// The block hashes of one request, extended as its tokens become known.
#[derive(Debug, Clone, Default)]
pub struct HashChain {
    keys: Vec<u64>,
    /// Piece and offset where the next block starts, while that lies in the prompt.
    piece: usize,
    offset: u32,
}

impl HashChain {
    /// Hashes known so far, one per full block.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.piece = 0;
        self.offset = 0;
    }

    /// Hashes every block that `tokens` tokens fill, each together with `lookahead` tokens after it.
    ///
    /// `stop` is the output position that holds the stop token, if any.
    pub fn extend(
        &mut self,
        content: &Content,
        prompt_len: u32,
        tokens: u32,
        block_size: u32,
        lookahead: u32,
        stop: Option<u32>,
    ) {
        loop {
            let start = self.keys.len() as u32 * block_size;
            if start + block_size + lookahead > tokens {
                return;
            }
            let parent = self.keys.last().copied().unwrap_or(0x5eed);
            let key = self.hash(content, prompt_len, start, block_size + lookahead, stop, parent);
            self.keys.push(placed(key, self.keys.len(), parent));
            self.advance(content, block_size);
        }
    }

    fn hash(&self, content: &Content, prompt_len: u32, start: u32, len: u32, stop: Option<u32>, parent: u64) -> u64 {
        let mut hash = parent;
        let mut left = len;
        let (mut piece, mut offset) = (self.piece, self.offset);
        while left > 0 && piece < content.prompt.len() {
            let segment = content.prompt[piece];
            let take = (segment.len - offset).min(left);
            if take > 0 {
                hash = absorb(hash, segment.key, segment.start + offset, take);
            }
            left -= take;
            offset += take;
            if offset >= segment.len {
                piece += 1;
                offset = 0;
            }
        }
        if left > 0 {
            let from = (start + len - left).saturating_sub(prompt_len);
            match stop {
                Some(at) if (from..from + left).contains(&at) => {
                    let before = at - from;
                    if before > 0 {
                        hash = absorb(hash, content.output_key, from, before);
                    }
                    hash = absorb(hash, STOP_STREAM, 0, 1);
                }
                _ => hash = absorb(hash, content.output_key, from, left),
            }
        }
        hash
    }

    fn advance(&mut self, content: &Content, mut tokens: u32) {
        while tokens > 0 && self.piece < content.prompt.len() {
            let room = content.prompt[self.piece].len - self.offset;
            let take = room.min(tokens);
            tokens -= take;
            self.offset += take;
            if take == room {
                self.piece += 1;
                self.offset = 0;
            }
        }
    }
}

fn absorb(hash: u64, key: u64, start: u32, len: u32) -> u64 {
    mix(mix(hash, key), (u64::from(start) << 32) | u64::from(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(content: &Content, outputs: u32) -> Vec<u64> {
        let mut chain = HashChain::default();
        let prompt = content.prompt_len();
        chain.extend(content, prompt, prompt + outputs, 16, 0, None);
        chain.keys().to_vec()
    }

    #[test]
    fn a_prompt_that_repeats_an_answer_shares_its_blocks() {
        let first =
            Content { prompt: vec![Segment { key: 7, start: 0, len: 40 }], output_key: 99, ..Content::default() };
        let second = Content {
            prompt: vec![
                Segment { key: 7, start: 0, len: 40 },
                Segment { key: 99, start: 0, len: 24 },
                Segment { key: 5, start: 0, len: 16 },
            ],
            output_key: 100,
            ..Content::default()
        };
        let (a, b) = (chain(&first, 40), chain(&second, 0));
        assert_eq!(a.len(), 5);
        assert_eq!(a[..4], b[..4]);
        assert_ne!(a[4], b[4]);
    }

    #[test]
    fn the_same_tokens_at_another_place_are_another_block() {
        let here = chain(&Content { prompt: vec![Segment { key: 1, start: 0, len: 32 }], ..Content::default() }, 0);
        let there = Content {
            prompt: vec![Segment { key: 2, start: 0, len: 16 }, Segment { key: 1, start: 0, len: 32 }],
            ..Content::default()
        };
        assert!(chain(&there, 0).iter().all(|k| !here.contains(k)));
    }
}
