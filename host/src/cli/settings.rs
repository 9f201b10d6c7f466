//! What a plugin's file is tried with: what lies beside it, and what flags say instead.

use std::path::Path;
use std::time::Duration;

use super::output::read;
use crate::config::{self, PluginConfig, Wasi};

/// What flags may say.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// JSON, or `@` and a file of it.
    pub(super) config: Option<String>,
    pub(super) wasi_stub: bool,
    pub(super) deadline_ms: Option<u64>,
}

impl Settings {
    /// The configuration of the plugin in `file`, named by it.
    ///
    /// # Errors
    /// What cannot be read, in words.
    pub(super) fn of(self, file: &Path) -> Result<PluginConfig, String> {
        let mut settings = PluginConfig::named(&name(file));
        if let Some(beside) = config::beside(file).map_err(|errors| errors.to_string())? {
            settings.weight = beside.weight;
            settings.config = beside.config.unwrap_or(settings.config);
        }
        if let Some(text) = self.config {
            settings.config = json(&text)?;
        }
        if self.wasi_stub {
            settings.wasi = Wasi::Stub;
        }
        if let Some(ms) = self.deadline_ms {
            settings.deadline = Duration::from_millis(ms);
        }
        Ok(settings)
    }
}

/// The name that a plugin has by its file.
pub(super) fn name(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    let text = match text.strip_prefix('@') {
        Some(file) => String::from_utf8_lossy(&read(Path::new(file))?).into_owned(),
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| format!("--config: is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_stand_above_what_lies_beside_the_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("mine.wasm");
        std::fs::write(folder.path().join("mine.toml"), "weight = 2.0\nconfig = { a = 1 }\n").unwrap();
        let beside = Settings::default().of(&file).unwrap();
        assert_eq!((&*beside.name, beside.weight), ("mine", Some(2.0)));
        assert_eq!(beside.config, serde_json::json!({"a": 1}));
        let config = folder.path().join("other.json");
        std::fs::write(&config, r#"{"a": 2}"#).unwrap();
        let flags = Settings { config: Some(format!("@{}", config.display())), ..Settings::default() };
        assert_eq!(flags.of(&file).unwrap().config, serde_json::json!({"a": 2}));
        let broken = Settings { config: Some("{".into()), ..Settings::default() };
        assert!(broken.of(&file).unwrap_err().contains("--config"));
    }
}
