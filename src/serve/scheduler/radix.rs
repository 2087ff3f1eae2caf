//! SGLang's prefix cache: a radix tree over token runs, in whole pages, whose unused leaves go in LRU order.

use super::content::Segment;
use std::collections::BTreeSet;

/// A node of the tree; 0 is the root.
pub(super) type Node = u32;

#[derive(Debug, Clone, Default)]
struct Entry {
    parent: Node,
    /// Tokens from the parent to here.
    label: Vec<Segment>,
    len: u32,
    children: Vec<Node>,
    /// Requests that use this node or one below it.
    locks: u32,
    last_use: u64,
}

/// The tree. Sizes are in tokens.
#[derive(Debug)]
pub(super) struct RadixTree {
    nodes: Vec<Entry>,
    vacant: Vec<Node>,
    /// Leaves without locks, least recently used first.
    evictable_leaves: BTreeSet<(u64, Node)>,
    size: u64,
    evictable: u64,
    uses: u64,
    page: u32,
    evicted: u64,
}

/// Tokens two runs have in common from their starts.
fn common(a: &[Segment], b: &[Segment]) -> u32 {
    let (mut i, mut j, mut a_off, mut b_off, mut len) = (0, 0, 0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        if x.key != y.key || x.start + a_off != y.start + b_off {
            break;
        }
        let take = (x.len - a_off).min(y.len - b_off);
        len += take;
        a_off += take;
        b_off += take;
        if a_off == x.len {
            (i, a_off) = (i + 1, 0);
        }
        if b_off == y.len {
            (j, b_off) = (j + 1, 0);
        }
    }
    len
}

/// The part of a run from token `from` on.
fn tail(run: &[Segment], mut from: u32) -> Vec<Segment> {
    let mut out = Vec::new();
    for segment in run {
        if from >= segment.len {
            from -= segment.len;
        } else {
            out.push(Segment { start: segment.start + from, len: segment.len - from, ..*segment });
            from = 0;
        }
    }
    out
}

/// The first `len` tokens of a run.
pub(super) fn head(run: &[Segment], mut len: u32) -> Vec<Segment> {
    let mut out = Vec::new();
    for segment in run {
        let take = segment.len.min(len);
        if take == 0 {
            break;
        }
        out.push(Segment { len: take, ..*segment });
        len -= take;
    }
    out
}

impl RadixTree {
    pub fn new(page: u32) -> Self {
        Self {
            nodes: vec![Entry::default()],
            vacant: Vec::new(),
            evictable_leaves: BTreeSet::new(),
            size: 0,
            evictable: 0,
            uses: 0,
            page,
            evicted: 0,
        }
    }

    /// Tokens in the tree.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Of them, tokens no request uses.
    pub fn evictable(&self) -> u64 {
        self.evictable
    }

    /// Tokens evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Length of the longest cached prefix, in whole pages.
    pub fn peek(&self, run: &[Segment]) -> u32 {
        let (mut at, mut found, mut rest) = (0, 0, run.to_vec());
        while let Some((child, len)) = self.child_of(at, &rest) {
            found += len;
            if len < self.nodes[child as usize].len {
                break;
            }
            rest = tail(&rest, len);
            at = child;
        }
        found
    }

    fn child_of(&self, node: Node, rest: &[Segment]) -> Option<(Node, u32)> {
        self.nodes[node as usize].children.iter().find_map(|child| {
            let len = common(&self.nodes[*child as usize].label, rest) / self.page * self.page;
            (len > 0).then_some((*child, len))
        })
    }

    /// The longest cached prefix: its last node (split where needed) and its length.
    pub fn find(&mut self, run: &[Segment]) -> (Node, u32) {
        self.uses += 1;
        let (mut at, mut found, mut rest) = (0, 0, run.to_vec());
        while let Some((child, len)) = self.child_of(at, &rest) {
            let child = if len < self.nodes[child as usize].len { self.split(child, len) } else { child };
            self.touch(child);
            found += len;
            rest = tail(&rest, len);
            at = child;
        }
        (at, found)
    }

    /// Adds a run, in whole pages; gives its last node and how many of its tokens were there already.
    pub fn insert(&mut self, run: &[Segment]) -> (Node, u32) {
        let total: u32 = run.iter().map(|s| s.len).sum::<u32>() / self.page * self.page;
        let run = head(run, total);
        let (at, found) = self.find(&run);
        if found == total {
            return (at, found);
        }
        let node = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(Entry::default());
            self.nodes.len() as Node - 1
        });
        let len = total - found;
        self.unlist(at);
        self.nodes[node as usize] =
            Entry { parent: at, label: tail(&run, found), len, last_use: self.uses, ..Entry::default() };
        self.nodes[at as usize].children.push(node);
        self.size += u64::from(len);
        self.evictable += u64::from(len);
        self.list(node);
        (node, found)
    }

    /// Cuts a node after `len` tokens; gives the upper part.
    fn split(&mut self, node: Node, len: u32) -> Node {
        let upper = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(Entry::default());
            self.nodes.len() as Node - 1
        });
        let Entry { parent, label, locks, last_use, .. } = self.nodes[node as usize].clone();
        self.nodes[upper as usize] =
            Entry { parent, label: head(&label, len), len, children: vec![node], locks, last_use };
        let lower = &mut self.nodes[node as usize];
        lower.parent = upper;
        lower.label = tail(&label, len);
        lower.len -= len;
        for child in &mut self.nodes[parent as usize].children {
            if *child == node {
                *child = upper;
            }
        }
        upper
    }

    fn touch(&mut self, node: Node) {
        self.unlist(node);
        self.nodes[node as usize].last_use = self.uses;
        self.list(node);
    }

    fn unlist(&mut self, node: Node) {
        self.evictable_leaves.remove(&(self.nodes[node as usize].last_use, node));
    }

    fn list(&mut self, node: Node) {
        let entry = &self.nodes[node as usize];
        if node != 0 && entry.locks == 0 && entry.children.is_empty() {
            self.evictable_leaves.insert((entry.last_use, node));
        }
    }

    /// A request uses this node and all above it.
    pub fn lock(&mut self, mut node: Node) {
        while node != 0 {
            self.unlist(node);
            let entry = &mut self.nodes[node as usize];
            if entry.locks == 0 {
                self.evictable -= u64::from(entry.len);
            }
            entry.locks += 1;
            node = entry.parent;
        }
    }

    /// It does so no more.
    pub fn unlock(&mut self, mut node: Node) {
        while node != 0 {
            let entry = &mut self.nodes[node as usize];
            entry.locks -= 1;
            let (locks, len, parent) = (entry.locks, entry.len, entry.parent);
            if locks == 0 {
                self.evictable += u64::from(len);
                self.list(node);
            }
            node = parent;
        }
    }

    /// Evicts least recently used leaves until `tokens` tokens are gone or nothing is left to evict.
    pub fn evict(&mut self, tokens: u64) {
        let mut gone = 0;
        while gone < tokens {
            let Some((_, node)) = self.evictable_leaves.pop_first() else { break };
            let Entry { parent, len, .. } = std::mem::take(&mut self.nodes[node as usize]);
            self.nodes[parent as usize].children.retain(|child| *child != node);
            self.vacant.push(node);
            self.list(parent);
            gone += u64::from(len);
        }
        self.size -= gone;
        self.evictable -= gone;
        self.evicted += gone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parts: &[(u64, u32)]) -> Vec<Segment> {
        parts.iter().map(|(key, len)| Segment { key: *key, start: 0, len: *len }).collect()
    }

    #[test]
    fn runs_share_their_common_start() {
        let mut tree = RadixTree::new(1);
        assert_eq!(tree.insert(&run(&[(1, 10), (2, 5)])).1, 0);
        assert_eq!(tree.insert(&run(&[(1, 10), (3, 7)])).1, 10);
        assert_eq!((tree.size(), tree.evictable()), (22, 22));
        assert_eq!(tree.peek(&run(&[(1, 6), (9, 1)])), 6);
    }

    #[test]
    fn locked_nodes_stay_and_the_oldest_leaf_goes_first() {
        let mut tree = RadixTree::new(1);
        let (old, _) = tree.insert(&run(&[(1, 10), (2, 5)]));
        tree.insert(&run(&[(1, 10), (3, 7)]));
        tree.lock(old);
        assert_eq!(tree.evictable(), 7);
        tree.evict(100);
        assert_eq!((tree.size(), tree.evictable()), (15, 0));
        tree.unlock(old);
        tree.evict(1);
        assert_eq!(tree.size(), 10); // the leaf of 5 goes whole, its parent becomes a leaf
    }

    #[test]
    fn matches_end_on_whole_pages() {
        let mut tree = RadixTree::new(4);
        tree.insert(&run(&[(1, 10)]));
        assert_eq!((tree.size(), tree.peek(&run(&[(1, 7)]))), (8, 4));
    }
}
