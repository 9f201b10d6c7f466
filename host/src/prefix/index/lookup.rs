//! Looking a chain up in a shard.

use std::cmp::Ordering;

use super::node::{Holder, NONE, Node};
use super::shard::Shard;
use crate::types::EndpointId;

impl Shard {
    /// Adds to `matched`, all zeros, how many blocks of the chain each of the sorted `endpoints` holds.
    pub(super) fn lookup(&self, hashes: &[u64], endpoints: &[EndpointId], matched: &mut [u32]) {
        let (mut path, mut at, mut parent) = (Vec::with_capacity(16), 0, NONE);
        while let Some(hash) = hashes.get(at) {
            let Some(id) = self.children.get(&(parent, *hash)) else { break };
            let Some(node) = self.node(*id) else { break };
            let common = node.common(hashes.get(at..).unwrap_or_default());
            path.push((node, at, common));
            at += common;
            if common < node.run.len() {
                break;
            }
            parent = *id;
        }
        // From the deepest: who holds it has been found, and as holders of a node hold all above it, one
        // with no more holders than the node below it has the very same.
        let mut below = 0;
        for (node, before, common) in path.into_iter().rev() {
            if node.holders.len() > below {
                below = node.holders.len();
                mark(node, before, common, endpoints, matched);
            }
        }
    }
}

/// Notes how far each endpoint holds the chain, where that is not known from a deeper node: `before` blocks
/// above the node, and of the node what both it and the chain have. Both lists are in the order of ids.
fn mark(node: &Node, before: usize, common: usize, endpoints: &[EndpointId], matched: &mut [u32]) {
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    let common = u32::try_from(common).unwrap_or(u32::MAX);
    let note = |holder: &Holder, matched: &mut u32| {
        if *matched == 0 {
            *matched = before + holder.held.min(common);
        }
    };
    if node.holders.len() * 8 < endpoints.len() {
        for holder in &node.holders {
            let first = endpoints.partition_point(|endpoint| *endpoint < holder.endpoint);
            let pairs = endpoints.iter().zip(matched.iter_mut()).skip(first);
            pairs
                .take_while(|(endpoint, _)| **endpoint == holder.endpoint)
                .for_each(|(_, matched)| note(holder, matched));
        }
        return;
    }
    if node.holders.len() > endpoints.len() * 8 {
        for (endpoint, matched) in endpoints.iter().zip(matched) {
            if let Some(holder) = node.holder(*endpoint) {
                note(holder, matched);
            }
        }
        return;
    }
    let mut pairs = endpoints.iter().zip(matched);
    let mut pair = pairs.next();
    for holder in &node.holders {
        // An endpoint that is asked for twice is answered twice.
        while let Some((endpoint, matched)) = &mut pair {
            match (**endpoint).cmp(&holder.endpoint) {
                Ordering::Greater => break,
                Ordering::Equal => note(holder, matched),
                Ordering::Less => {}
            }
            pair = pairs.next();
        }
    }
}
