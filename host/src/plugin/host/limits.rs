//! How much of the machine one instance may take: memory, tables, and what crosses to the host in one call.
//!
//! A component may hold many core modules, each with a memory and tables of its own, so the caps are on
//! their sums. Growing beyond a cap fails inside the guest, as it does on a machine that is full; an
//! instance that needs more than its cap from the start is refused before anything is set up.

use wasmtime::component::Component;
use wasmtime::{ResourceLimiter, Store};

use super::Guest;

/// Elements of all tables: functions called by pointer. Large Python guests have some 20,000.
const MAX_ELEMENTS: usize = 100_000;
/// Core instances. A component that links many libraries has some dozens.
const MAX_INSTANCES: usize = 128;
/// Tables.
const MAX_TABLES: usize = 128;
/// Memories. Each reserves 4 GiB of addresses, though no memory.
const MAX_MEMORIES: usize = 8;

/// Bytes that cross to the host in one call, either as arguments of an import or as an answer. The largest that is
/// meant to are the answer of `save` and a value for `store`; 17,000 scores are 68 KB.
const MAX_TRANSFER: usize = 4 * 1024 * 1024;

/// The unit in which a memory grows.
const WASM_PAGE: u64 = 65_536;

/// What the memories and tables of one store hold.
#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) bytes: usize,
    elements: usize,
}

/// Puts a fresh store under the limits of its guest.
pub(in crate::plugin) fn bound(store: &mut Store<Guest>) {
    store.limiter(|guest| guest);
    store.set_hostcall_fuel(MAX_TRANSFER);
}

const MIB: usize = 1024 * 1024;

/// What a guest asked for and was not given.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(in crate::plugin) enum Refused {
    /// Memory.
    #[error(
        "it asked for {} MiB of memory and may have {}: set its `memory_mib` to {} or more",
        desired.div_ceil(MIB), cap / MIB, desired.div_ceil(MIB)
    )]
    Memory {
        /// Bytes of the memory that it wanted to grow.
        desired: usize,
        /// Bytes that all of its memories may have together.
        cap: usize,
    },
    /// Tables.
    #[error("it asked for a table of {desired} functions; {MAX_ELEMENTS} in all are the most")]
    Table {
        /// Elements of the table that it wanted to grow.
        desired: usize,
    },
}

/// More than an instance may have.
#[derive(Debug, thiserror::Error)]
pub enum Needs {
    /// Of memory.
    #[error(
        "it starts with {bytes} bytes of memory, more than its cap of {cap}; set `memory_mib` for it, or build it with a smaller initial memory"
    )]
    Memory {
        /// What it starts with.
        bytes: u64,
        /// What it may have.
        cap: usize,
    },
    /// Of tables.
    #[error("it starts with tables of {0} elements; up to {MAX_ELEMENTS} are given")]
    Elements(u64),
    /// Of memories.
    #[error("it has {0} memories; up to {MAX_MEMORIES} are given")]
    Memories(u32),
}

impl Needs {
    /// What a component would need more of than an instance with `cap` bytes of memory may have.
    pub(in crate::plugin) fn beyond(component: &Component, cap: usize) -> Option<Self> {
        // Not known of a component that takes core modules from outside, and such a one is not linked.
        let needed = component.resources_required()?;
        let bytes = needed.max_initial_memory_size.unwrap_or(0).saturating_mul(WASM_PAGE);
        let elements = needed.max_initial_table_size.unwrap_or(0);
        if bytes > u64::try_from(cap).unwrap_or(u64::MAX) {
            Some(Self::Memory { bytes, cap })
        } else if elements > u64::try_from(MAX_ELEMENTS).unwrap_or(u64::MAX) {
            Some(Self::Elements(elements))
        } else if usize::try_from(needed.num_memories).unwrap_or(usize::MAX) > MAX_MEMORIES {
            Some(Self::Memories(needed.num_memories))
        } else {
            None
        }
    }
}

/// What a sum becomes when one of its parts grows, if that is within the cap.
fn grown(sum: usize, current: usize, desired: usize, cap: usize) -> Option<usize> {
    let sum = sum.checked_add(desired.saturating_sub(current))?;
    (sum <= cap).then_some(sum)
}

impl ResourceLimiter for Guest {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let sum = grown(self.used.bytes, current, desired, self.shared.memory_bytes);
        match sum {
            Some(sum) => self.used.bytes = sum,
            None => self.refused = Some(Refused::Memory { desired, cap: self.shared.memory_bytes }),
        }
        Ok(sum.is_some())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let sum = grown(self.used.elements, current, desired, MAX_ELEMENTS);
        match sum {
            Some(sum) => self.used.elements = sum,
            None => self.refused = Some(Refused::Table { desired }),
        }
        Ok(sum.is_some())
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_is_on_the_sum() {
        assert_eq!(grown(0, 0, 60, 100), Some(60));
        assert_eq!(grown(60, 0, 41, 100), None, "a second memory counts with the first");
        assert_eq!(grown(60, 60, 100, 100), Some(100));
        assert_eq!(grown(usize::MAX, 0, 1, 100), None);
    }
}
