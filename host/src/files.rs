//! Files of the router's own.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Reads a document of this format, or its default where there is none. One that cannot be understood is set aside
/// under another name, with an error in the log that says what is not known then.
#[must_use]
pub fn read_document<T: DeserializeOwned + Default>(path: &Path, format: u32, unknown: &str) -> T {
    parsed(path, format).unwrap_or_else(|error| {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".unreadable");
        let what_became = match std::fs::rename(path, &aside) {
            Ok(()) => format!("the file was renamed to {}", aside.display()),
            Err(error) => format!("and the file cannot be renamed: {error}"),
        };
        tracing::error!(file = %path.display(), %error, "{unknown}: {what_became}");
        T::default()
    })
}

fn parsed<T: DeserializeOwned + Default>(path: &Path, format: u32) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error.to_string()),
    };
    let head: Head = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if head.format != format {
        return Err(format!("it has format {}, and this version reads {format}", head.format));
    }
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// Writes a file whole or not at all, for this user alone: it may hold what clients sent. Its folder is made where it
/// is not there.
///
/// # Errors
/// When it cannot be written; what was there before is there still.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    std::fs::create_dir_all(folder)?;
    let part = folder.join(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&part).and_then(|mut file| file.write_all(bytes));
    let replaced = written.and_then(|()| std::fs::rename(&part, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    replaced
}
