//! Lines in the host's log, headed by the plugin's name. Long lines are cut, floods are thinned out.

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Something is wrong.
    Error,
    /// Something may be wrong.
    Warn,
    /// Worth knowing.
    Info,
    /// For the author of the policy.
    Debug,
}

/// Writes one line.
pub fn write(level: Level, message: &str) {
    backend::write(level, message);
}

/// Writes one line that says that something is wrong.
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// Writes one line that says that something may be wrong.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Writes one line that is worth knowing.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Writes one line for the author of the policy.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

#[cfg(target_arch = "wasm32")]
mod backend {
    use crate::wasm::imports::log;

    pub(super) fn write(level: super::Level, message: &str) {
        let level = match level {
            super::Level::Error => log::Level::Error,
            super::Level::Warn => log::Level::Warn,
            super::Level::Info => log::Level::Info,
            super::Level::Debug => log::Level::Debug,
        };
        log::write(level, message);
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    pub(super) fn write(level: super::Level, message: &str) {
        crate::fake::with(|host| host.logs.push((level, message.into())));
    }
}
