//! Where configuration comes from: a file, the command line, a file beside a plugin.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::callers::open_admin;
use super::error::{COMMAND_LINE, ConfigError, ConfigErrors};
use super::keys::{BESIDE, BESIDE_NEXT, ROOT, Section};
use super::model::{Config, EndpointConfig, Listen, Mode, PoolConfig, Resolve};
use super::read::{Source, Table};
use super::{DEFAULT, build};
use crate::types::{Role, Url};

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--backend`, each.
    pub backend: Vec<String>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--admin`
    pub admin: Option<String>,
    /// `--plugins`
    pub plugins: Option<PathBuf>,
    /// `--observe`
    pub observe: bool,
}

/// What the file beside a plugin says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Beside {
    /// Factor of the plugin's scores.
    pub weight: Option<f32>,
    /// The plugin's configuration.
    pub config: Option<serde_json::Value>,
    /// How a candidate is tried.
    pub mode: Option<Mode>,
}

/// What a file of settings lies beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTo {
    /// `NAME.wasm`
    Plugin,
    /// `NAME.next.wasm`
    Candidate,
}

/// Reads a file. Paths in it are relative to its directory.
///
/// # Errors
/// All that is wrong with it.
pub fn from_file(path: &Path) -> Result<Config, ConfigErrors> {
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|error| whole(&name, format!("cannot be read: {error}")))?;
    from_text(&name, &text, path.parent().unwrap_or(Path::new("")))
}

/// Reads a text that is called `name` in errors; paths in it are relative to `dir`.
///
/// # Errors
/// All that is wrong with it.
pub fn from_text(name: &str, text: &str, dir: &Path) -> Result<Config, ConfigErrors> {
    read(name, text, &ROOT, |root| build::config(root, dir))
}

/// Reads the file beside a plugin or candidate, when there is one.
///
/// # Errors
/// All that is wrong with it.
pub fn beside(wasm: &Path) -> Result<Option<Beside>, ConfigErrors> {
    let path = wasm.with_extension("toml");
    let name = path.display().to_string();
    let candidate =
        wasm.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some_and(|next| next == "next"));
    match std::fs::read(&path) {
        Ok(text) if candidate => beside_text(&path, &text, NextTo::Candidate).map(Some),
        Ok(text) => beside_text(&path, &text, NextTo::Plugin).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(whole(&name, format!("cannot be read: {error}"))),
    }
}

/// Reads what lay beside a plugin or candidate at `path`. For those who checked these very bytes.
///
/// # Errors
/// All that is wrong with it.
pub fn beside_text(path: &Path, text: &[u8], next_to: NextTo) -> Result<Beside, ConfigErrors> {
    let name = path.display().to_string();
    let text = std::str::from_utf8(text).map_err(|error| whole(&name, format!("is not text: {error}")))?;
    let build = |root: &Table<'_>| Beside {
        weight: root.number("weight"),
        config: root.json("config"),
        mode: (next_to == NextTo::Candidate).then(|| build::mode(root)).flatten(),
    };
    let section = if next_to == NextTo::Plugin { &BESIDE } else { &BESIDE_NEXT };
    read(&name, text, section, build)
}

/// Reads the file that the flags name, if any, and lets the flags override it. `--backend` alone makes
/// one pool; with a file of one pool it takes the place of that pool's endpoints.
///
/// # Errors
/// All that is wrong with either.
pub fn from_flags(flags: Flags) -> Result<Config, ConfigErrors> {
    let mut config = match &flags.config {
        Some(path) => from_file(path)?,
        None => from_text("", "", Path::new(""))?,
    };
    let mut errors = Vec::new();
    let mut wrong = |flag: &str, message: String| errors.push(error(flag, message));
    for (flag, given, place) in
        [("--listen", flags.listen, &mut config.listen), ("--admin", flags.admin, &mut config.admin)]
    {
        match given.map(|text| Listen::parse(&text)) {
            None => {}
            Some(Ok(listen)) => *place = listen,
            Some(Err(problem)) => wrong(flag, problem.to_owned()),
        }
    }
    if config.listen == config.admin && !config.listen.any_port() {
        wrong("--listen", format!("`{}` is also the admin address", config.listen));
    }
    if let Some(problem) = open_admin(&config.admin, &config.admin_tokens) {
        wrong("--admin", problem);
    }
    if let Some(dir) = flags.plugins {
        config.plugins_dir = Some(dir);
    }
    config.observe |= flags.observe;

    let mut endpoints: Vec<EndpointConfig> = Vec::new();
    for text in &flags.backend {
        match Url::parse(text) {
            Ok(url) if endpoints.iter().any(|known| known.url.name() == url.name()) => {
                wrong("--backend", format!("`{}` is named twice", url.name()));
            }
            Ok(url) => {
                let (role, weight, labels) = (Role::Both, 1.0, Vec::new());
                endpoints.push(EndpointConfig {
                    url,
                    resolve: Resolve::Off,
                    role,
                    weight,
                    labels,
                    api_key: None,
                    kv_events: None,
                    bootstrap_port: None,
                });
            }
            Err(error) => wrong("--backend", format!("`{text}`: {error}")),
        }
    }
    if flags.backend.is_empty() {
        if config.pools.is_empty() {
            wrong(
                flags.config.as_deref().map_or(COMMAND_LINE.into(), Path::to_string_lossy).as_ref(),
                "nothing to serve: name a [[pool]] in the configuration, or endpoints with --backend".into(),
            );
        }
    } else {
        match config.pools.as_mut_slice() {
            [] => {
                match default_pool(&config.chains.first().map_or(DEFAULT.into(), |chain| chain.name.clone()))
                {
                    Ok(pool) => config.pools.push(PoolConfig { endpoints, ..pool }),
                    Err(more) => errors.extend(more.0),
                }
            }
            [pool] => pool.endpoints = endpoints,
            _ => wrong(
                "--backend",
                "the configuration has several pools; put the endpoint into one of them".into(),
            ),
        }
    }
    ConfigErrors::unless_empty(errors, config)
}

/// A pool named [`DEFAULT`] with the defaults of every key.
fn default_pool(chain: &str) -> Result<PoolConfig, ConfigErrors> {
    let text = format!(
        "chain = [{{ name = \"{chain}\" }}]\npool = [{{ name = \"{DEFAULT}\", chain = \"{chain}\" }}]"
    );
    let config = from_text("--backend", &text, Path::new(""))?;
    config.pools.into_iter().next().ok_or_else(|| whole("--backend", "has no pool".into()))
}

fn read<T>(
    name: &str,
    text: &str,
    section: &'static Section,
    build: impl FnOnce(&Table<'_>) -> T,
) -> Result<T, ConfigErrors> {
    let source = Source::new(name, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // What follows a syntax error is guesswork: only the syntax is reported.
        for error in errors {
            source.note(error.span().as_ref(), "", error.message(), None);
        }
        return Err(ConfigErrors(source.into_errors()));
    }
    let value = build(&Table::root(&source, &table, section));
    ConfigErrors::unless_empty(source.into_errors(), value)
}

fn error(source: &str, message: String) -> ConfigError {
    ConfigError {
        source: source.into(),
        line: None,
        key: Box::default(),
        message: message.into(),
        nearest: None,
    }
}

fn whole(source: &str, message: String) -> ConfigErrors {
    ConfigErrors(vec![error(source, message)])
}
