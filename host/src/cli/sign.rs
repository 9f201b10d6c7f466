//! `sluicegate plugin keygen` and `sluicegate plugin sign`

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::output::{bad, good};
use crate::plugin::directory::is_name;
use crate::plugin::supply::{Files, KeyError, SecretKey};

/// Makes a key.
#[derive(Debug, Args)]
pub(super) struct Keygen {
    /// Where the secret key goes; only its owner can read it.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// What the key is called in configurations and signatures. [default: the file's name without extension]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Signs a file.
#[derive(Debug, Args)]
pub(super) struct Sign {
    /// The plugin. `NAME.toml` beside `NAME.wasm` is signed with it.
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The secret key that `keygen` wrote.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Its version: a whole number that grows with each release.
    #[arg(long, value_name = "N")]
    version: u64,
    /// The name under which it will lie in the directory. [default: the file's, without `.wasm` and `.next.wasm`]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// What stands in the way.
#[derive(Debug, thiserror::Error)]
enum SignError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{}: is there already; a key is not written over", .0.display())]
    Exists(PathBuf),
    #[error("{}: others than its owner may read or write it; `chmod 600` it, and make a new key if somebody did", .0.display())]
    Open(PathBuf),
    #[error("{}: {error}", path.display())]
    Key { path: PathBuf, error: KeyError },
    #[error("`{0}` cannot name a plugin: a name is made of A-Z a-z 0-9 - _; give another with --name")]
    Name(String),
}

/// Writes the secret key, prints the public one.
pub(super) fn keygen(keygen: &Keygen) -> ExitCode {
    match make(keygen) {
        Ok(text) => good(&text),
        Err(error) => bad(&error),
    }
}

fn make(Keygen { out, name }: &Keygen) -> Result<String, SignError> {
    let wrong = |error| SignError::Key { path: out.clone(), error };
    let stem = out.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let key = SecretKey::generate(&name.clone().or(stem).unwrap_or_default()).map_err(wrong)?;
    let public = key.public().map_err(wrong)?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(out).map_err(|error| {
            if error.kind() == ErrorKind::AlreadyExists {
                SignError::Exists(out.clone())
            } else {
                io(out)(error)
            }
        })?;
    file.write_all(key.to_text().as_bytes()).map_err(io(out))?;
    Ok(format!("{public}\n"))
}

/// Writes the signature beside the file.
pub(super) fn sign(sign: &Sign) -> ExitCode {
    match signed(sign) {
        Ok(text) => good(&text),
        Err(error) => bad(&error),
    }
}

fn signed(Sign { file, key, version, name }: &Sign) -> Result<String, SignError> {
    let name = name.clone().unwrap_or_else(|| plugin_name(file));
    if !is_name(&name) {
        return Err(SignError::Name(name));
    }
    let wrong = |error| SignError::Key { path: key.clone(), error };
    let secret = SecretKey::parse(&secret_text(key)?).map_err(wrong)?;
    let wasm = fs::read(file).map_err(io(file))?;
    let beside = file.with_extension("toml");
    let settings = match fs::read(&beside) {
        Ok(settings) => Some(settings),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(io(&beside)(error)),
    };
    let files = Files { name: &name, wasm: &wasm, settings: settings.as_deref(), signature: None };
    let signature = secret.sign(&files, *version).map_err(wrong)?;
    let out = file.with_extension("wasm.sig");
    // Whole or not at all: the directory may be watched. Names that begin with a dot are not looked at.
    let part = out.with_file_name(format!(".{name}.wasm.sig.part"));
    fs::write(&part, signature.to_string()).map_err(io(&part))?;
    fs::rename(&part, &out).map_err(io(&out))?;
    let with = if settings.is_some() { format!(" with {}", beside.display()) } else { String::new() };
    Ok(format!("{}: `{name}` version {version}{with}, signed by `{}`\n", out.display(), signature.key))
}

fn plugin_name(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    stem.strip_suffix(".next").unwrap_or(&stem).to_owned()
}

fn secret_text(path: &Path) -> Result<String, SignError> {
    let mut file = File::open(path).map_err(io(path))?;
    let mode = file.metadata().map_err(io(path))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(SignError::Open(path.into()));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(io(path))?;
    Ok(text)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SignError {
    let path = path.to_owned();
    move |error| SignError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_signed_under_the_name_it_is_for() {
        for (file, name) in [("a/mine.wasm", "mine"), ("mine.next.wasm", "mine"), ("next.wasm", "next")] {
            assert_eq!(plugin_name(Path::new(file)), name);
        }
    }
}
