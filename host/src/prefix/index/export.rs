//! The index as a list of nodes, for whoever keeps it, and back.
//!
//! Only where chains end is written, since who holds a block holds all before it. Coming back they are inserted in
//! the order in which they were sent, so that what is older is forgotten earlier again.

use super::shard::Shard;
use super::{Index, MAX_BLOCKS};
use crate::types::EndpointId;

/// A run of blocks without a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its place in the list; it comes earlier.
    pub parent: Option<u32>,
    /// The hashes of its blocks.
    pub run: Vec<u64>,
    /// Who holds a chain that ends here: how much of the run, and since when in the order of all.
    pub ends: Vec<(EndpointId, u32, u64)>,
}

impl Index {
    /// What it holds, the youngest if that is more than `max_blocks` hashes.
    #[must_use]
    pub fn export(&self, max_blocks: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        let from = self.youngest(max_blocks);
        for shard in &self.shards {
            // One at a time: whoever inserts meanwhile waits for one only.
            shard.read().export(from, &mut nodes);
        }
        nodes
    }

    /// Takes in what [`Self::export`] gave; `max_blocks` bounds how many blocks are inserted.
    pub fn import(&self, nodes: &[Node], max_blocks: usize) {
        let ends = nodes.iter().enumerate().flat_map(|(place, node)| {
            node.ends.iter().map(move |(endpoint, held, stamp)| (*stamp, place, *endpoint, *held))
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        // The youngest, if there are too many.
        let mut left = max_blocks;
        let mut chains = Vec::new();
        for (_, place, endpoint, held) in ends.into_iter().rev() {
            let Some(chain) = chain(nodes, place, held) else { continue };
            let Some(rest) = left.checked_sub(chain.len()) else { break };
            left = rest;
            chains.push((endpoint, chain));
        }
        for (endpoint, chain) in chains.into_iter().rev() {
            self.insert(endpoint, &chain);
        }
    }

    /// The stamp from which on no more than `max_blocks` hashes are held.
    fn youngest(&self, max_blocks: usize) -> u64 {
        let mut sizes = Vec::new();
        for shard in &self.shards {
            shard.read().sizes(&mut sizes);
        }
        sizes.sort_unstable_by_key(|(stamp, _)| std::cmp::Reverse(*stamp));
        let mut left = max_blocks;
        for (stamp, size) in sizes {
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => return stamp + 1,
            }
        }
        0
    }
}

/// The hashes from a prompt's first block to the `held`th of a node; none when there is no such chain.
fn chain(nodes: &[Node], place: usize, held: u32) -> Option<Vec<u64>> {
    let last = nodes.get(place)?;
    let mut runs = vec![last.run.get(..usize::try_from(held).ok()?)?];
    let (mut parent, mut length) = (last.parent, runs.first()?.len());
    while let Some(place) = parent {
        let node = nodes.get(usize::try_from(place).ok()?)?;
        runs.push(&node.run);
        length += node.run.len();
        // An empty run would make the way endless.
        if length > MAX_BLOCKS || node.run.is_empty() {
            return None;
        }
        parent = node.parent;
    }
    let mut chain = Vec::with_capacity(length);
    runs.iter().rev().for_each(|run| chain.extend_from_slice(run));
    Some(chain)
}

impl Shard {
    /// When each run was sent last, and how long it is.
    fn sizes(&self, sizes: &mut Vec<(u64, usize)>) {
        let held = self.nodes.iter().filter(|node| !node.holders.is_empty());
        sizes.extend(held.map(|node| (youngest(node), node.run.len())));
    }

    /// Appends the nodes that were sent at `from` or later. What is above a node was sent no earlier than it.
    fn export(&self, from: u64, nodes: &mut Vec<Node>) {
        let mut todo: Vec<(u32, Option<u32>)> = self
            .children
            .iter()
            .filter(|((parent, _), _)| *parent == super::node::NONE)
            .map(|(_, root)| (*root, None))
            .collect();
        while let Some((id, parent)) = todo.pop() {
            let Some(node) = self.node(id).filter(|node| youngest(node) >= from) else { continue };
            let Ok(place) = u32::try_from(nodes.len()) else { return };
            let mut below = Vec::new();
            let mut child = node.child;
            while let Some(next) = self.node(child) {
                todo.push((child, Some(place)));
                below.extend(next.holders.iter().map(|holder| (holder.endpoint, holder.stamp)));
                child = next.next;
            }
            below.sort_unstable();
            let ends = node.holders.iter().filter(|holder| {
                holder.stamp >= from && below.binary_search(&(holder.endpoint, holder.stamp)).is_err()
            });
            let ends = ends.map(|holder| (holder.endpoint, holder.held, holder.stamp)).collect();
            nodes.push(Node { parent, run: node.run.clone(), ends });
        }
    }
}

fn youngest(node: &super::node::Node) -> u64 {
    node.holders.iter().map(|holder| holder.stamp).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(index: &Index, chain: &[u64]) -> Vec<u32> {
        let mut matched = Vec::new();
        index.lookup(chain, &[EndpointId(0), EndpointId(1), EndpointId(2)], &mut matched);
        matched
    }

    #[test]
    fn what_is_forgotten_first_stays_the_same() {
        let index = Index::new(1 << 20);
        let chains: Vec<Vec<u64>> = (1..=10).map(|n| vec![7, 8, n << 50 | 1, n << 50 | 2]).collect();
        for chain in &chains {
            index.insert(EndpointId(0), chain);
        }
        index.insert(EndpointId(0), &chains[0]);
        let back = Index::new(1 << 20);
        back.import(&index.export(usize::MAX), usize::MAX);
        for index in [&index, &back] {
            index.set_capacity(EndpointId(0), 6);
            assert_eq!((held(index, &chains[0])[0], held(index, &chains[9])[0]), (4, 4));
            assert_eq!(held(index, &chains[1])[0], 2);
        }
        let few = Index::new(1 << 20);
        few.import(&index.export(4), usize::MAX);
        assert!(few.blocks() <= 4 && few.blocks() > 0, "{}", few.blocks());
    }

    proptest! {
        #[test]
        fn what_goes_out_comes_back(
            sent in proptest::collection::vec((0..3_u32, proptest::collection::vec(0..4_u64, 1..8)), 0..60),
        ) {
            let chained = |path: &[u64]| {
                let mut last = 1;
                path.iter().map(|part| { last = super::super::super::seed(&[&part.to_le_bytes(), &u64::to_le_bytes(last)]); last }).collect::<Vec<_>>()
            };
            let index = Index::new(1 << 20);
            for (endpoint, path) in &sent {
                index.insert(EndpointId(*endpoint), &chained(path));
            }
            let back = Index::new(1 << 20);
            back.import(&index.export(usize::MAX), usize::MAX);
            prop_assert_eq!(back.blocks(), index.blocks());
            for (_, path) in &sent {
                let chain = chained(path);
                prop_assert_eq!(held(&back, &chain), held(&index, &chain));
            }
        }
    }
}
