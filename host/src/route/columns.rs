//! Values of candidates, column by column.

use std::sync::Arc;

use crate::policy::ColumnId;

/// Columns that were computed together, each `len` values long.
#[derive(Debug)]
struct Block {
    ids: Vec<ColumnId>,
    values: Vec<f32>,
}

/// What has been computed of a set of candidates, and what of it was read. NaN stands for a value that is not known.
#[derive(Debug, Default)]
pub(super) struct Columns {
    len: usize,
    blocks: Vec<Block>,
    /// Blocks that others hold too.
    frozen: Vec<Arc<Vec<Block>>>,
    read: Vec<ColumnId>,
}

impl Columns {
    /// Of `len` candidates.
    pub(super) fn of(len: usize) -> Self {
        Self { len, ..Self::default() }
    }

    /// A column that has been computed.
    pub(super) fn get(&self, id: ColumnId) -> Option<&[f32]> {
        self.blocks().find_map(|block| {
            let position = block.ids.iter().position(|known| *known == id)?;
            block.values.get(position * self.len..(position + 1) * self.len)
        })
    }

    /// What has been computed so far, for others to keep. Nothing is copied.
    pub(super) fn freeze(&mut self) -> Self {
        if !self.blocks.is_empty() {
            self.frozen.push(Arc::new(std::mem::take(&mut self.blocks)));
        }
        Self { len: self.len, blocks: Vec::new(), frozen: self.frozen.clone(), read: Vec::new() }
    }

    /// Bytes of all values.
    pub(super) fn bytes(&self) -> usize {
        self.blocks().map(|block| size_of_val(&*block.values)).sum()
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.frozen.iter().flat_map(|blocks| blocks.iter()).chain(&self.blocks)
    }

    /// The same for a policy: what it read is shown in the explanation.
    pub(super) fn read(&mut self, id: ColumnId) -> Option<&[f32]> {
        if !self.read.contains(&id) {
            self.read.push(id);
        }
        self.get(id)
    }

    /// Adds columns that were computed together: `values` holds them one after the other.
    pub(super) fn add(&mut self, ids: Vec<ColumnId>, values: Vec<f32>) {
        self.blocks.push(Block { ids, values });
    }

    /// The columns that were read.
    pub(super) fn ids_read(&self) -> Vec<ColumnId> {
        self.read.clone()
    }

    /// The columns that were read, with their values.
    pub(super) fn shown(&self) -> impl Iterator<Item = (ColumnId, &[f32])> {
        self.read.iter().filter_map(|id| Some((*id, self.get(*id)?)))
    }

    /// What was read, of the first `most` candidates alone.
    pub(super) fn shortened(&self, most: usize) -> Self {
        let blocks = self
            .shown()
            .map(|(id, values)| Block { ids: vec![id], values: values.iter().take(most).copied().collect() });
        let blocks = blocks.collect();
        Self { len: most.min(self.len), blocks, frozen: Vec::new(), read: self.read.clone() }
    }

    /// The values at these positions, in this order.
    pub(super) fn subset(&self, positions: &[u32]) -> Self {
        let at = |column: &[f32], position: u32| {
            usize::try_from(position).ok().and_then(|index| column.get(index)).copied().unwrap_or(f32::NAN)
        };
        let blocks = self.blocks().map(|block| {
            let columns = block.values.chunks(self.len.max(1));
            let values =
                columns.flat_map(|column| positions.iter().map(move |position| at(column, *position)));
            Block { ids: block.ids.clone(), values: values.collect() }
        });
        let blocks = blocks.collect();
        Self { len: positions.len(), blocks, frozen: Vec::new(), read: self.read.clone() }
    }
}
