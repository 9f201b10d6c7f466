//! How the proxy is reached, and how endpoints are reached and judged.

use std::path::Path;

use super::super::model::{HealthConfig, PoolTls, TlsConfig};
use super::super::read::Table;

pub(super) fn tls(table: &Table<'_>, dir: &Path) -> Option<TlsConfig> {
    let path = |name| dir.join(&*table.text(name));
    table.is_there().then(|| TlsConfig {
        cert: path("cert"),
        key: path("key"),
        client_ca: table.text_option("client_ca").map(|path| dir.join(&*path)),
    })
}

pub(super) fn pool_tls(table: &Table<'_>, dir: &Path) -> PoolTls {
    let path = |name| table.text_option(name).map(|path| dir.join(&*path));
    if table.has("cert") != table.has("key") {
        table.error("", "expected both cert and key, or neither", None);
    }
    PoolTls {
        ca: path("ca"),
        cert: path("cert"),
        key: path("key"),
        server_name: table.text_option("server_name"),
        verify: table.flag("verify"),
    }
}

pub(super) fn health(table: &Table<'_>) -> HealthConfig {
    let path = table.with("path", |item| {
        let path = item.text()?;
        let valid = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        if !valid {
            item.error("a path begins with a slash and holds no character that must be escaped");
        }
        valid.then(|| path.into())
    });
    HealthConfig {
        path,
        interval: table.millis("interval_ms"),
        eject_after: table.u32("eject_after"),
        eject: table.millis("eject_ms"),
        max_eject: table.millis("max_eject_ms"),
        max_ejected_percent: table.u32("max_ejected_percent"),
        slow_start: table.millis("slow_start_ms"),
    }
}
