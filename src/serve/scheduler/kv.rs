//! The KV cache of one engine: prefix hits, allocation and release over one or several layer groups.
//!
//! All groups draw from one pool. A sliding-window group keeps only the blocks that its window still reaches; places
//! before it hold the null block. A prefix hit must hold in every group.

use super::blocks::{BlockId, BlockPool};
use super::config::SchedulerConfig;
use super::content::salted;
use super::host_tier::HostTier;
use super::request::Request;

#[derive(Debug, Clone, Copy)]
struct Group {
    window: Option<u32>,
    /// Most blocks one request of this group can hold at once, when it is admitted.
    most_blocks: Option<u32>,
    /// Distinguishes equal content of different groups.
    salt: u64,
}

/// Blocks found for a request about to be admitted.
#[derive(Debug, Default)]
pub(super) struct Hit {
    groups: Vec<Vec<BlockId>>,
    /// Blocks of the hit; the same in every group.
    pub blocks: u32,
    /// Blocks after those that the host tier holds.
    pub host_blocks: u32,
}

#[derive(Debug)]
pub(super) struct KvCache {
    pub pool: BlockPool,
    host: Option<HostTier>,
    groups: Vec<Group>,
    /// Groups in the order of a look-up: full attention first.
    lookup_order: Vec<usize>,
    block_size: u32,
    max_model_len: u32,
    lookahead: u32,
    hash_lookahead: u32,
    drop_last_hit_block: bool,
    reserve_full_prompt: bool,
    caching: bool,
    one_full_group: bool,
    pub hit: Hit,
    window_scratch: Vec<BlockId>,
}

impl KvCache {
    pub fn new(config: &SchedulerConfig) -> Self {
        let group = |(index, g): (usize, &super::config::KvGroup)| Group {
            window: g.window,
            most_blocks: g.window.map(|window| {
                let reach = (window - 1).saturating_add(config.max_in_flight_tokens).min(config.max_model_len);
                reach.div_ceil(config.block_size) + 1
            }),
            salt: index as u64,
        };
        let groups: Vec<Group> = config.groups.iter().enumerate().map(group).collect();
        let mut lookup_order: Vec<usize> = (0..groups.len()).collect();
        lookup_order.sort_by_key(|g| groups[*g].window.is_some());
        Self {
            pool: BlockPool::new(config.num_blocks),
            host: (config.host_blocks > 0).then(|| HostTier::new(config.host_blocks)),
            lookup_order,
            block_size: config.block_size,
            max_model_len: config.max_model_len,
            lookahead: config.lookahead_tokens,
            hash_lookahead: config.hash_lookahead_tokens,
            drop_last_hit_block: config.drop_last_hit_block,
            reserve_full_prompt: config.reserve_full_prompt,
            caching: config.enable_prefix_caching,
            one_full_group: groups.len() == 1 && groups[0].window.is_none(),
            hit: Hit { groups: vec![Vec::new(); groups.len()], ..Hit::default() },
            groups,
            window_scratch: Vec::new(),
        }
    }

    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    fn key(&self, group: usize, block_key: u64) -> u64 {
        match self.groups[group].salt {
            0 => block_key,
            salt => salted(block_key, salt),
        }
    }

    fn hash_known_tokens(&self, request: &mut Request) {
        let stop = request.stop_position();
        let tokens = request.tokens();
        request.chain.extend(&request.content, request.prompt_len, tokens, self.block_size, self.hash_lookahead, stop);
    }

    /// Finds the longest cached prefix, at most all tokens but one, and keeps it in `self.hit`.
    pub fn look_up(&mut self, request: &mut Request) {
        self.hit.groups.iter_mut().for_each(Vec::clear);
        (self.hit.blocks, self.hit.host_blocks) = (0, 0);
        let unsought = self.leaves_unhashed(request) && request.preemptions == 0;
        if !self.caching || unsought {
            return;
        }
        self.hash_known_tokens(request);
        let keys = request.chain.keys();
        let most = (((request.tokens() - 1) / self.block_size) as usize).min(keys.len());
        let mut limit = most;
        for order in 0..self.lookup_order.len() {
            let group = self.lookup_order[order];
            let mut found = std::mem::take(&mut self.hit.groups[group]);
            match self.groups[group].window {
                None => {
                    found.extend(keys[..limit].iter().map_while(|key| self.pool.find(self.key(group, *key))));
                    if self.drop_last_hit_block {
                        found.pop();
                    }
                }
                Some(window) => self.look_up_window(group, window, &keys[..limit], &mut found),
            }
            limit = found.len();
            self.hit.groups[group] = found;
        }
        self.hit.groups.iter_mut().for_each(|found| found.truncate(limit));
        self.hit.blocks = limit as u32;
        if let Some(host) = &self.host {
            self.hit.host_blocks = host.leading(&keys[limit..most]);
        }
    }

    /// The rightmost run of cached blocks that fills the window; without one, the run that starts the prompt.
    fn look_up_window(&self, group: usize, window: u32, keys: &[u64], found: &mut Vec<BlockId>) {
        let wanted = (window - 1).div_ceil(self.block_size) as usize;
        found.resize(keys.len(), 0);
        let mut run = 0;
        for at in (0..keys.len()).rev() {
            found[at] = self.pool.find(self.key(group, keys[at])).unwrap_or(0);
            run = if found[at] == 0 { 0 } else { run + 1 };
            if run == wanted {
                found.truncate(at + run);
                found[..at].fill(0);
                return;
            }
        }
        found.truncate(run);
    }

    /// Whole blocks of a group that no later token looks at, once `computed` tokens exist.
    fn out_of_window(&self, group: usize, computed: u32) -> u32 {
        match self.groups[group].window {
            Some(window) => (computed + 1).saturating_sub(window) / self.block_size,
            None => 0,
        }
    }

    /// Free blocks that holding `tokens` tokens takes; `capped` counts a window group's most at once.
    fn blocks_needed(&self, request: &Request, computed: u32, tokens: u32, with_hit: bool, capped: bool) -> u32 {
        let mut needed = 0;
        for (index, group) in self.groups.iter().enumerate() {
            let mut total = tokens.div_ceil(self.block_size);
            if let (true, Some(most)) = (capped, group.most_blocks) {
                total = total.min(most);
            }
            let hit: &[BlockId] = if with_hit { &self.hit.groups[index] } else { &[] };
            let passed = if hit.is_empty() { 0 } else { self.out_of_window(index, computed) };
            let held = request.tables[index].blocks.len() as u32 + hit.len() as u32;
            needed += total.saturating_sub(held.max(passed));
            let reused = hit.get(passed as usize..).unwrap_or_default();
            needed += reused.iter().filter(|b| **b != 0 && self.pool.is_idle(**b)).count() as u32;
        }
        needed
    }

    /// Makes room for `new_tokens` more tokens of a running request; false where the pool lacks the blocks.
    #[inline]
    pub fn extend(&mut self, request: &mut Request, new_tokens: u32, told: Option<&mut Vec<Vec<BlockId>>>) -> bool {
        let end = request.computed + new_tokens;
        if self.one_full_group && told.is_none() {
            let slots = (end + self.lookahead).min(self.max_model_len);
            if slots as usize <= request.tables[0].blocks.len() * self.block_size as usize {
                self.record(request, end.min(request.tokens()));
                return true;
            }
        }
        self.allocate(request, request.computed, new_tokens, false, None, told)
    }

    /// Admits a request with the hit just looked up; `external` tokens after it come from elsewhere.
    pub fn admit(
        &mut self,
        request: &mut Request,
        external: u32,
        new_tokens: u32,
        watermark: u32,
        told: Option<&mut Vec<Vec<BlockId>>>,
    ) -> bool {
        let computed = request.computed + self.hit.blocks * self.block_size + external;
        self.allocate(request, computed, new_tokens, true, Some(watermark), told)
    }

    fn allocate(
        &mut self,
        request: &mut Request,
        computed: u32,
        new_tokens: u32,
        with_hit: bool,
        watermark: Option<u32>,
        told: Option<&mut Vec<Vec<BlockId>>>,
    ) -> bool {
        let reserve = watermark.unwrap_or(0);
        if watermark.is_some() && self.reserve_full_prompt {
            let whole = request.tokens().min(self.max_model_len);
            if self.blocks_needed(request, computed, whole, with_hit, true) + reserve > self.pool.free() {
                return false;
            }
        }
        self.release_passed(request, computed);
        let slots = (computed.min(self.max_model_len) + new_tokens + self.lookahead).min(self.max_model_len);
        if self.blocks_needed(request, computed, slots, with_hit, false) + reserve > self.pool.free() {
            return false;
        }
        if with_hit {
            self.attach_hit(request, computed);
        }
        let admitted = watermark.is_some();
        let mut told = told;
        for table in &mut request.tables {
            let before = table.blocks.len();
            let wanted = slots.div_ceil(self.block_size) as usize;
            table.blocks.extend((before..wanted).map(|_| self.pool.take()));
            if let Some(told) = told.as_deref_mut() {
                told.push(table.blocks[if admitted { 0 } else { before }..].to_vec());
            }
        }
        self.record(request, (computed + new_tokens).min(request.tokens()));
        true
    }

    /// Gives back what fell out of the window; this happens even if the request then has to wait.
    fn release_passed(&mut self, request: &mut Request, computed: u32) {
        if self.one_full_group {
            return;
        }
        let settled = computed.saturating_sub(request.inflight);
        for group in 0..self.groups.len() {
            let passed = self.out_of_window(group, settled) as usize;
            let blocks = &mut request.tables[group].blocks;
            let passed = passed.min(blocks.len());
            self.window_scratch.clear();
            for place in blocks[..passed].iter_mut().rev() {
                if *place == 0 {
                    break;
                }
                self.window_scratch.push(std::mem::take(place));
            }
            self.pool.release(self.window_scratch.iter().copied());
        }
    }

    fn attach_hit(&mut self, request: &mut Request, computed: u32) {
        for group in 0..self.groups.len() {
            if self.hit.groups[group].is_empty() {
                continue;
            }
            let passed = (self.out_of_window(group, computed) as usize).min(self.hit.groups[group].len());
            let table = &mut request.tables[group];
            for (at, block) in self.hit.groups[group].iter().enumerate() {
                let block = if at < passed { 0 } else { *block };
                if block != 0 {
                    self.pool.touch(block);
                }
                table.blocks.push(block);
            }
            table.hashed = table.blocks.len() as u32;
        }
    }

    /// Hashes the blocks that the first `tokens` tokens fill.
    #[inline]
    pub fn record(&mut self, request: &mut Request, tokens: u32) {
        if !self.caching || request.tables.iter().all(|t| (t.hashed + 1) * self.block_size > tokens) {
            return;
        }
        if self.leaves_unhashed(request) {
            self.record_unsought(request, tokens / self.block_size);
            return;
        }
        self.hash_known_tokens(request);
        let full = (tokens / self.block_size).min(request.chain.keys().len() as u32);
        for group in 0..self.groups.len() {
            for at in request.tables[group].hashed..full {
                let block = request.tables[group].blocks[at as usize];
                if block != 0 {
                    let key = self.key(group, request.chain.keys()[at as usize]);
                    self.pool.put(block, key);
                    if let (Some(host), 0) = (&mut self.host, group) {
                        host.store(key);
                    }
                }
            }
            request.tables[group].hashed = request.tables[group].hashed.max(full);
        }
    }

    /// Hashing the request's blocks would serve nobody but itself after a preemption.
    fn leaves_unhashed(&self, request: &Request) -> bool {
        request.content.unshared && self.host.is_none()
    }

    fn record_unsought(&mut self, request: &mut Request, full: u32) {
        for table in &mut request.tables {
            for block in table.blocks.iter().take(full as usize).skip(table.hashed as usize) {
                if *block != 0 {
                    self.pool.put_unsought(*block);
                }
            }
            table.hashed = table.hashed.max(full);
        }
    }

    /// The request is about to be preempted: it will look for its own blocks.
    pub fn seek_own(&mut self, request: &mut Request) {
        if !self.caching || !self.leaves_unhashed(request) {
            return;
        }
        self.hash_known_tokens(request);
        for group in 0..self.groups.len() {
            let table = &request.tables[group];
            let hashed = (table.hashed as usize).min(request.chain.keys().len());
            for (block, key) in table.blocks[..hashed].iter().zip(request.chain.keys()) {
                if *block != 0 {
                    self.pool.seek(*block, self.key(group, *key));
                }
            }
        }
    }

    /// Gives back everything a request holds.
    pub fn drop_tables(&mut self, request: &mut Request) {
        for table in &mut request.tables {
            self.pool.release(table.blocks.iter().rev().copied());
            table.blocks.clear();
            table.hashed = 0;
        }
    }
}
