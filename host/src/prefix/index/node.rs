//! The nodes of a trie and who holds them.

use crate::types::EndpointId;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// An endpoint that holds the beginning of a node's run, and its place in the list of what that endpoint
/// holds in the shard, from the block inserted last to the one inserted first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    pub endpoint: EndpointId,
    /// How many hashes of the run, at least one. Who holds less than all holds nothing below.
    pub held: u32,
    /// When it was inserted last.
    pub stamp: u64,
    /// The node before and after in that list.
    pub newer: u32,
    pub older: u32,
}

/// A run of hashes without a branch. At least one endpoint holds all of it.
#[derive(Debug)]
pub(super) struct Node {
    pub run: Vec<u64>,
    /// In the order of their ids.
    pub holders: Vec<Holder>,
    pub parent: u32,
    pub child: u32,
    pub next: u32,
    pub prev: u32,
}

impl Node {
    pub(super) fn new(parent: u32, run: Vec<u64>) -> Self {
        Self { run, holders: Vec::new(), parent, child: NONE, next: NONE, prev: NONE }
    }

    /// How many hashes the run and `hashes` have in common from the first.
    pub(super) fn common(&self, hashes: &[u64]) -> usize {
        // Most often all; comparing slices is the fastest way to see it.
        if hashes.get(..self.run.len()) == Some(self.run.as_slice()) {
            return self.run.len();
        }
        self.run.iter().zip(hashes).take_while(|(ours, theirs)| ours == theirs).count()
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.run.len()).unwrap_or(u32::MAX)
    }

    fn place(&self, endpoint: EndpointId) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&endpoint, |holder| holder.endpoint)
    }

    pub(super) fn holder(&self, endpoint: EndpointId) -> Option<&Holder> {
        self.holders.get(self.place(endpoint).ok()?)
    }

    pub(super) fn holder_mut(&mut self, endpoint: EndpointId) -> Option<&mut Holder> {
        let place = self.place(endpoint).ok()?;
        self.holders.get_mut(place)
    }

    /// The holder of that id, a new one that holds nothing if there was none.
    pub(super) fn holder_or_new(&mut self, endpoint: EndpointId) -> Option<&mut Holder> {
        let place = self.place(endpoint).unwrap_or_else(|place| {
            let holder = Holder { endpoint, held: 0, stamp: 0, newer: NONE, older: NONE };
            self.holders.insert(place, holder);
            place
        });
        self.holders.get_mut(place)
    }

    pub(super) fn remove_holder(&mut self, endpoint: EndpointId) {
        if let Ok(place) = self.place(endpoint) {
            self.holders.remove(place);
            if self.holders.capacity() > self.holders.len() * 4 {
                self.holders.shrink_to(self.holders.len() * 2);
            }
        }
    }

    /// Drops the end of the run that nobody holds any more.
    pub(super) fn trim(&mut self) {
        let held = self.holders.iter().map(|holder| holder.held).max().unwrap_or_default();
        if held < self.len() {
            self.run.truncate(usize::try_from(held).unwrap_or(usize::MAX));
            self.run.shrink_to_fit();
        }
    }

    /// Bytes beside the node itself.
    pub(super) fn heap(&self) -> usize {
        self.run.capacity() * size_of::<u64>() + self.holders.capacity() * size_of::<Holder>()
    }
}
