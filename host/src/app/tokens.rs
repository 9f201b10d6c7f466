//! The tokenizers that pools name.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{Config, PoolConfig};
use crate::proxy::Tokenizing;
use crate::tokens::{LoadError, Tokenizer, Workers};

/// Those that were loaded, and the threads that run them.
#[derive(Debug, Default)]
pub(super) struct Tokenizers {
    by_folder: HashMap<PathBuf, Option<Arc<Tokenizer>>>,
    workers: Option<Arc<Workers>>,
}

impl Tokenizers {
    /// With what a pool's requests are tokenized. A pool whose tokenizer cannot be loaded is served without it.
    pub(super) fn of(&mut self, pool: &PoolConfig) -> io::Result<Option<Tokenizing>> {
        let Some(folder) = &pool.tokenizer else { return Ok(None) };
        let tokenizer = self.by_folder.entry(folder.clone()).or_insert_with(|| {
            let loaded = Tokenizer::load(folder, pool.tokenizer_cache_bytes);
            let failed = |error: &LoadError| {
                tracing::error!(pool = %pool.name, "prompts are measured by their bytes: {error}");
            };
            loaded.inspect_err(failed).ok().map(Arc::new)
        });
        let Some(tokenizer) = tokenizer.clone() else { return Ok(None) };
        let workers = match &self.workers {
            Some(workers) => Arc::clone(workers),
            None => Arc::clone(self.workers.insert(Arc::new(Workers::start()?))),
        };
        Ok(Some(Tokenizing { tokenizer, workers, wait: pool.tokenize }))
    }
}

/// The same of those that another one does not name already.
pub(super) fn problems_beyond(before: &Config, config: &Config) -> Vec<String> {
    let known = |pool: &PoolConfig| before.pools.iter().any(|before| before.tokenizer == pool.tokenizer);
    let pools = config.pools.iter().filter(|pool| !known(pool)).cloned().collect();
    problems(&Config { pools, ..config.clone() })
}

/// What is wrong with the tokenizers that a configuration names, each with its pool.
#[must_use]
pub fn problems(config: &Config) -> Vec<String> {
    let load = |pool: &PoolConfig| {
        let error = Tokenizer::load(pool.tokenizer.as_deref()?, 0).err()?;
        Some(format!("pool `{}`: tokenizer: {error}", pool.name))
    };
    config.pools.iter().filter_map(load).collect()
}
