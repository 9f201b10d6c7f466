//! One shard: tries, and for each endpoint the list of what it holds.
//!
//! Two invariants carry everything. *Closed*: who holds a hash of a node holds all before it, in the node and
//! above. *Ordered*: in an endpoint's list a node stands behind (is older than) the nodes above it, because
//! whatever inserts a node inserts those above it after it. So the end of a list has nothing below it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::node::{Holder, NONE, Node};
use crate::types::EndpointId;

/// What an operation did to the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub added: usize,
    pub gone: usize,
    pub grown: usize,
    pub shrunk: usize,
}

/// The ends of an endpoint's list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    newest: u32,
    oldest: u32,
}

/// Bytes of a node and of its entry in the table. Twice, as slab and table double when they are full and
/// do not shrink.
pub(super) const NODE_BYTES: usize =
    2 * (size_of::<Node>() + size_of::<((u32, u64), u32)>() + 1 + size_of::<u32>());

/// Bytes of an endpoint's list, and its share of what the index keeps of an endpoint.
pub(super) const LIST_BYTES: usize = 2 * (size_of::<(EndpointId, List)>() + 1) + 64;

/// A part of the index.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) nodes: Vec<Node>,
    pub(super) free: Vec<u32>,
    /// The child of a node that begins with a hash; roots are children of [`NONE`].
    pub(super) children: HashMap<(u32, u64), u32, BuildHasherDefault<Mix>>,
    pub(super) lists: HashMap<EndpointId, List>,
    change: Change,
}

/// Keys are hashes already: it is enough to mix the node in.
#[derive(Debug, Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(26) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Shard {
    pub(super) fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(usize::try_from(id).ok()?)
    }

    fn node_mut(&mut self, id: u32) -> Option<&mut Node> {
        self.nodes.get_mut(usize::try_from(id).ok()?)
    }

    /// Changes a node and counts what that did to its size.
    fn with<T>(&mut self, id: u32, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let node = self.nodes.get_mut(usize::try_from(id).ok()?)?;
        let before = node.heap();
        let result = change(node);
        let after = node.heap();
        self.change.grown += after.saturating_sub(before);
        self.change.shrunk += before.saturating_sub(after);
        Some(result)
    }

    /// The stamp of the oldest that an endpoint holds here.
    pub(super) fn oldest(&self, endpoint: EndpointId) -> Option<u64> {
        let list = self.lists.get(&endpoint)?;
        Some(self.node(list.oldest)?.holder(endpoint)?.stamp)
    }

    pub(super) fn insert(&mut self, endpoint: EndpointId, hashes: &[u64], stamp: u64) -> Change {
        self.change = Change::default();
        // The nodes along the chain, and how many hashes of the last one it has.
        let (path, last) = self.walk(endpoint, hashes);
        let mut held = Some(last);
        for id in path.into_iter().rev() {
            let all = self.node(id).map_or(0, Node::len);
            self.touch(id, endpoint, held.take().unwrap_or(all), stamp);
        }
        self.change
    }

    /// Finds or makes the nodes along a chain.
    fn walk(&mut self, endpoint: EndpointId, hashes: &[u64]) -> (Vec<u32>, u32) {
        let (mut path, mut at, mut parent) = (Vec::with_capacity(16), 0, NONE);
        while let Some(hash) = hashes.get(at) {
            let rest = hashes.get(at..).unwrap_or_default();
            let Some(id) = self.children.get(&(parent, *hash)).copied() else {
                return self.grow(path, parent, rest);
            };
            let Some(node) = self.node(id) else { break };
            let common = node.common(rest);
            let cut = u32::try_from(common).unwrap_or(u32::MAX);
            let held = node.holder(endpoint).map_or(0, |holder| holder.held);
            if common == node.run.len() {
                path.push(id);
                parent = id;
            } else if common == rest.len() && held <= cut {
                path.push(id);
                return (path, cut);
            } else {
                // The chain leaves the run here, or renews only a part of what the endpoint holds of it.
                let upper = self.split(id, common);
                path.push(upper);
                parent = upper;
            }
            at += common;
        }
        let last = path.last().and_then(|id| self.node(*id)).map_or(0, Node::len);
        (path, last)
    }

    /// Adds the rest of a chain below `parent`: to its run where nothing branches off, else as a node.
    fn grow(&mut self, mut path: Vec<u32>, parent: u32, rest: &[u64]) -> (Vec<u32>, u32) {
        if self.node(parent).is_some_and(|node| node.child == NONE) {
            let len = self.with(parent, |node| {
                node.run.reserve_exact(rest.len());
                node.run.extend_from_slice(rest);
                node.len()
            });
            return (path, len.unwrap_or_default());
        }
        let id = self.add(parent, rest.to_vec());
        path.push(id);
        (path, u32::try_from(rest.len()).unwrap_or(u32::MAX))
    }

    fn add(&mut self, parent: u32, run: Vec<u64>) -> u32 {
        let first = run.first().copied().unwrap_or_default();
        let node = Node::new(parent, run);
        self.change.grown += NODE_BYTES + node.heap();
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(place) = self.node_mut(id) {
                    *place = node;
                }
                id
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
            }
        };
        self.children.insert((parent, first), id);
        self.adopt(parent, id);
        id
    }

    /// Makes a node the first child of its parent.
    fn adopt(&mut self, parent: u32, id: u32) {
        let Some(second) = self.node_mut(parent).map(|node| std::mem::replace(&mut node.child, id)) else {
            return;
        };
        if let Some(node) = self.node_mut(id) {
            node.next = second;
        }
        if let Some(node) = self.node_mut(second) {
            node.prev = id;
        }
    }

    /// Takes a node out of its parent's children.
    fn orphan(&mut self, id: u32) {
        let Some(node) = self.node_mut(id) else { return };
        let (parent, prev, next) = (node.parent, node.prev, node.next);
        (node.prev, node.next) = (NONE, NONE);
        if let Some(node) = self.node_mut(prev) {
            node.next = next;
        } else if let Some(node) = self.node_mut(parent) {
            node.child = next;
        }
        if let Some(node) = self.node_mut(next) {
            node.prev = prev;
        }
    }

    /// Cuts a node after `at` hashes and returns the new upper part. The lower one keeps its id, so that
    /// what is below it need not be told.
    fn split(&mut self, id: u32, at: usize) -> u32 {
        let Some(node) = self.node(id) else { return NONE };
        let parent = node.parent;
        let (head, tail) = node.run.split_at(at.min(node.run.len()));
        let (head, tail) = (head.to_vec(), tail.to_vec());
        let (cut, below) = (u32::try_from(at).unwrap_or(u32::MAX), tail.first().copied().unwrap_or_default());
        self.orphan(id);
        // Takes the place of the lower part in the table.
        let upper = self.add(parent, head);
        let holders = self.with(id, |node| {
            node.run = tail;
            node.parent = upper;
            let mut lower = Vec::with_capacity(node.holders.len());
            for holder in &node.holders {
                if holder.held > cut {
                    lower.push(Holder { held: holder.held - cut, ..*holder });
                }
            }
            std::mem::replace(&mut node.holders, lower)
        });
        self.children.insert((upper, below), id);
        self.adopt(upper, id);
        let mut holders = holders.unwrap_or_default();
        for holder in &mut holders {
            if holder.held > cut {
                // Both parts: the upper one is the newer, right before the lower one.
                self.relink(holder.endpoint, holder.newer, upper, id);
                if let Some(lower) = self.holder_mut(id, holder.endpoint) {
                    lower.newer = upper;
                }
                (holder.held, holder.older) = (cut, id);
            } else {
                self.relink(holder.endpoint, holder.newer, upper, id);
                self.relink_older(holder.endpoint, holder.older, upper, id);
            }
        }
        holders.shrink_to_fit();
        self.with(upper, |node| node.holders = holders);
        upper
    }

    fn holder_mut(&mut self, id: u32, endpoint: EndpointId) -> Option<&mut Holder> {
        self.node_mut(id)?.holder_mut(endpoint)
    }

    /// What stood before `old` in an endpoint's list now stands before `new`.
    fn relink(&mut self, endpoint: EndpointId, newer: u32, new: u32, old: u32) {
        if let Some(holder) = self.holder_mut(newer, endpoint) {
            holder.older = new;
        } else if let Some(list) = self.lists.get_mut(&endpoint)
            && list.newest == old
        {
            list.newest = new;
        }
    }

    /// What stood after `old` in an endpoint's list now stands after `new`.
    fn relink_older(&mut self, endpoint: EndpointId, older: u32, new: u32, old: u32) {
        if let Some(holder) = self.holder_mut(older, endpoint) {
            holder.newer = new;
        } else if let Some(list) = self.lists.get_mut(&endpoint)
            && list.oldest == old
        {
            list.oldest = new;
        }
    }

    /// An endpoint holds `held` hashes of a node as of now.
    fn touch(&mut self, id: u32, endpoint: EndpointId, held: u32, stamp: u64) {
        self.unlink(id, endpoint);
        let change = &mut self.change;
        let list = self.lists.entry(endpoint).or_insert_with(|| {
            change.grown += LIST_BYTES;
            List { newest: NONE, oldest: NONE }
        });
        let second = std::mem::replace(&mut list.newest, id);
        if list.oldest == NONE {
            list.oldest = id;
        }
        let added = self.with(id, |node| {
            let Some(holder) = node.holder_or_new(endpoint) else { return 0 };
            let added = held.saturating_sub(holder.held);
            holder.held = held.max(holder.held);
            holder.stamp = stamp;
            (holder.newer, holder.older) = (NONE, second);
            added
        });
        self.change.added += usize::try_from(added.unwrap_or_default()).unwrap_or_default();
        if let Some(holder) = self.holder_mut(second, endpoint) {
            holder.newer = id;
        }
    }

    /// Takes a node out of an endpoint's list, if it is in it.
    fn unlink(&mut self, id: u32, endpoint: EndpointId) {
        let Some(holder) = self.holder_mut(id, endpoint) else { return };
        let (newer, older) = (holder.newer, holder.older);
        (holder.newer, holder.older) = (NONE, NONE);
        self.relink(endpoint, newer, older, id);
        self.relink_older(endpoint, older, newer, id);
    }

    /// Forgets up to `count` of the blocks that an endpoint has not been sent for longest.
    pub(super) fn evict(&mut self, endpoint: EndpointId, count: usize) -> Change {
        self.change = Change::default();
        self.drop_oldest(endpoint, count);
        self.change
    }

    /// Forgets the oldest node of an endpoint, if it was inserted no later than `limit`.
    pub(super) fn evict_older(&mut self, endpoint: EndpointId, limit: u64) -> Change {
        self.change = Change::default();
        if self.oldest(endpoint).is_some_and(|stamp| stamp <= limit) {
            self.drop_oldest(endpoint, usize::MAX);
        }
        self.change
    }

    /// Forgets all of an endpoint.
    pub(super) fn remove(&mut self, endpoint: EndpointId) -> Change {
        self.change = Change::default();
        while self.lists.contains_key(&endpoint) && self.drop_oldest(endpoint, usize::MAX) {}
        self.change
    }

    /// Forgets blocks at the end of the oldest node; whether there was one.
    fn drop_oldest(&mut self, endpoint: EndpointId, count: usize) -> bool {
        let Some(list) = self.lists.get(&endpoint) else { return false };
        let id = list.oldest;
        let Some(holder) = self.node(id).and_then(|node| node.holder(endpoint)) else { return false };
        let kept = usize::try_from(holder.held).unwrap_or_default().saturating_sub(count);
        self.shorten(id, endpoint, u32::try_from(kept).unwrap_or_default());
        true
    }

    /// Leaves an endpoint `kept` hashes of a node below which it holds nothing.
    fn shorten(&mut self, id: u32, endpoint: EndpointId, kept: u32) {
        let Some(held) = self.node(id).and_then(|node| node.holder(endpoint)).map(|holder| holder.held)
        else {
            return;
        };
        if kept >= held {
            return;
        }
        self.change.gone += usize::try_from(held - kept).unwrap_or_default();
        if kept == 0 {
            self.unlink(id, endpoint);
            if self.lists.get(&endpoint).is_some_and(|list| list.oldest == NONE) {
                self.lists.remove(&endpoint);
                self.change.shrunk += LIST_BYTES;
            }
        }
        let empty = self.with(id, |node| {
            let whole = held == node.len();
            match node.holder_mut(endpoint) {
                Some(holder) if kept > 0 => holder.held = kept,
                _ => node.remove_holder(endpoint),
            }
            if whole && !node.holders.is_empty() {
                node.trim();
            }
            node.holders.is_empty()
        });
        if empty == Some(true) {
            self.release(id);
        }
    }

    /// Frees a node that nobody holds, and below which there can be none.
    fn release(&mut self, id: u32) {
        self.orphan(id);
        let Some(node) = self.node_mut(id) else { return };
        let node = std::mem::replace(node, Node::new(NONE, Vec::new()));
        self.change.shrunk += NODE_BYTES + node.heap();
        self.children.remove(&(node.parent, node.run.first().copied().unwrap_or_default()));
        self.free.push(id);
    }

    /// Leaves an endpoint the first `held` blocks of a chain and nothing beyond them.
    pub(super) fn truncate(&mut self, endpoint: EndpointId, hashes: &[u64], held: usize) -> Change {
        self.change = Change::default();
        let (mut at, mut parent) = (0, NONE);
        while let Some(hash) = hashes.get(at) {
            let Some(id) = self.children.get(&(parent, *hash)).copied() else { break };
            let Some(node) = self.node(id) else { break };
            let common = node.common(hashes.get(at..).unwrap_or_default());
            if held < at + common {
                self.prune(id, endpoint);
                self.shorten(id, endpoint, u32::try_from(held - at).unwrap_or(u32::MAX));
                break;
            }
            if common < node.run.len() {
                break;
            }
            at += common;
            parent = id;
            if at >= held && at >= hashes.len() {
                break;
            }
        }
        self.change
    }

    /// Forgets what an endpoint holds below a node, the deepest first.
    fn prune(&mut self, top: u32, endpoint: EndpointId) {
        let children = |shard: &Self, id: u32, out: &mut Vec<u32>| {
            let mut child = shard.node(id).map_or(NONE, |node| node.child);
            while let Some(node) = shard.node(child) {
                if node.holder(endpoint).is_some() {
                    out.push(child);
                }
                child = node.next;
            }
        };
        let mut below = Vec::new();
        children(self, top, &mut below);
        let mut next = 0;
        while let Some(id) = below.get(next).copied() {
            next += 1;
            children(self, id, &mut below);
        }
        for id in below.into_iter().rev() {
            self.shorten(id, endpoint, 0);
        }
    }
}
