//! The secrets that a configuration names.
//!
//! They change without the configuration: a mounted secret that is rotated is another file. So they are compared by their
//! hashes whenever the configuration is read again, and their files are looked at as its own is.

use std::path::Path;

use crate::config::{Config, KeyHash, PoolConfig, SecretSource};

/// What is wrong with them, each with the key that names it.
#[must_use]
pub fn problems(config: &Config) -> Vec<String> {
    let key_of = |pool: &PoolConfig| format!("pool `{}`: api_key", pool.name);
    let pools = config.pools.iter();
    let pools = pools.flat_map(|pool| of_pool(pool).map(move |key| (key_of(pool), key.bearer().err())));
    let of_admin = config.admin_tokens.iter().map(|admin| {
        let problem = SecretSource::token(&admin.token).err();
        (format!("admin_token `{}`", admin.name), problem)
    });
    let said = |(key, problem): (String, Option<_>)| Some(format!("{key}: {}", problem?));
    pools.chain(of_admin).filter_map(said).collect()
}

/// Hashes of what secrets were; none where one could not be read.
pub(super) type Hashes = Vec<Option<KeyHash>>;

/// Of all of them.
pub(super) fn hashes(config: &Config) -> Hashes {
    all(config).map(hash).collect()
}

/// Of those of a pool.
pub(super) fn hashes_of_pool(pool: &PoolConfig) -> Hashes {
    of_pool(pool).map(hash).collect()
}

/// The files in which they lie.
pub(super) fn files(config: &Config) -> impl Iterator<Item = &Path> {
    all(config).filter_map(|secret| match secret {
        SecretSource::File(path) => Some(path.as_path()),
        SecretSource::Env(_) => None,
    })
}

fn hash(secret: &SecretSource) -> Option<KeyHash> {
    secret.read().ok().map(|secret| KeyHash::of(&secret))
}

fn all(config: &Config) -> impl Iterator<Item = &SecretSource> {
    let of_admin = config.admin_tokens.iter().map(|admin| &admin.token);
    config.pools.iter().flat_map(of_pool).chain(of_admin)
}

fn of_pool(pool: &PoolConfig) -> impl Iterator<Item = &SecretSource> {
    let own = pool.endpoints.iter().map(|endpoint| &endpoint.api_key);
    std::iter::once(&pool.api_key).chain(own).flatten()
}
