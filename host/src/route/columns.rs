//! Values of candidates, column by column.

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
    read: Vec<ColumnId>,
}

impl Columns {
    /// Of `len` candidates.
    pub(super) fn of(len: usize) -> Self {
        Self { len, ..Self::default() }
    }

    /// A column that has been computed.
    pub(super) fn get(&self, id: ColumnId) -> Option<&[f32]> {
        self.blocks.iter().find_map(|block| {
            let position = block.ids.iter().position(|known| *known == id)?;
            block.values.get(position * self.len..(position + 1) * self.len)
        })
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
        Self { len: most.min(self.len), blocks: blocks.collect(), read: self.read.clone() }
    }

    /// The values at these positions, in this order.
    pub(super) fn subset(&self, positions: &[u32]) -> Self {
        let at = |column: &[f32], position: u32| {
            usize::try_from(position).ok().and_then(|index| column.get(index)).copied().unwrap_or(f32::NAN)
        };
        let blocks = self.blocks.iter().map(|block| {
            let columns = block.values.chunks(self.len.max(1));
            let values =
                columns.flat_map(|column| positions.iter().map(move |position| at(column, *position)));
            Block { ids: block.ids.clone(), values: values.collect() }
        });
        Self { len: positions.len(), blocks: blocks.collect(), read: self.read.clone() }
    }
}
