//! Names of columns, and what they resolve to.

use std::marker::PhantomData;

/// A column, and the value that stands where it is not known.
///
/// Copy it into the policy: it is valid for the life of the instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    id: u32,
    missing: f32,
}

impl Column {
    /// The same column with another value for what is not known. Without a call to this that is NaN, so
    /// that what is missing cannot be taken for a measurement.
    #[must_use]
    pub const fn or(self, missing: f32) -> Self {
        Self { missing, ..self }
    }

    /// The host's handle.
    #[must_use]
    pub const fn id(self) -> u32 {
        self.id
    }

    /// The value that stands where the column is not known.
    #[must_use]
    pub const fn missing(self) -> f32 {
        self.missing
    }

    /// A column of a handle that the host gave, for those who implement views of their own.
    #[must_use]
    pub const fn from_id(id: u32) -> Self {
        Self { id, missing: f32::NAN }
    }
}

/// A name that is no column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownColumn(
    /// What the host said; it names the nearest columns.
    pub String,
);

/// Turns names into columns. The host allows this only while a policy is configured, so only
/// [`Policy::configure`](crate::Policy::configure) is given one.
#[derive(Debug)]
pub struct Columns {
    here: PhantomData<*const ()>,
}

impl Columns {
    pub(crate) const fn new() -> Self {
        Self { here: PhantomData }
    }

    /// The column of this name. Names under `metric:` and `label:` always resolve.
    ///
    /// # Errors
    /// When there is none; the error names the nearest.
    pub fn resolve(&mut self, name: &str) -> Result<Column, UnknownColumn> {
        backend::resolve(name).map(Column::from_id).map_err(UnknownColumn)
    }

    /// The value that stands for this text in the column `label:KEY`.
    pub fn intern(&mut self, key: &str, text: &str) -> f32 {
        backend::intern(key, text)
    }
}

#[cfg(target_arch = "wasm32")]
use crate::wasm::imports::columns as backend;

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    pub(super) fn resolve(name: &str) -> Result<u32, String> {
        crate::fake::with(|host| host.columns.resolve(name))
    }

    pub(super) fn intern(key: &str, text: &str) -> f32 {
        crate::fake::with(|host| host.columns.intern(key, text))
    }
}
