//! nginx, as the engines that everybody is measured in front of, and as the baseline.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A completion of a few tokens, as an engine answers it.
const COMPLETION: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"hello there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":300,"completion_tokens":4,"total_tokens":304,"prompt_tokens_details":{"cached_tokens":0}}}"#;
const MODELS: &str = r#"{"object":"list","data":[{"id":"tiny","object":"model","owned_by":"vllm"}]}"#;

fn page(inner: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "worker_processes 1;\ndaemon off;\npid {folder}/pid;\nerror_log stderr error;\nevents {{ worker_connections 4096; }}\n\
         http {{\n access_log off;\n client_body_buffer_size 1m;\n client_max_body_size 64m;\n keepalive_requests 100000000;\n\
         client_body_temp_path {folder}/body;\n proxy_temp_path {folder}/proxy;\n fastcgi_temp_path {folder}/f;\n\
         uwsgi_temp_path {folder}/u;\n scgi_temp_path {folder}/s;\n{inner}}}\n"
    )
}

fn write(folder: &Path, text: &str) -> Result<PathBuf, Error> {
    fs::create_dir_all(folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    let path = folder.join("nginx.conf");
    fs::write(&path, text).map_err(Error::io(format!("cannot write {}", path.display())))?;
    Ok(path)
}

/// Configuration of engines that answer at once, one a port.
pub(crate) fn engines(folder: &Path, ports: &[u16]) -> Result<PathBuf, Error> {
    let listen: String =
        ports.iter().map(|port| format!("  listen 127.0.0.1:{port} backlog=4096;\n")).collect();
    let inner = format!(
        " server {{\n{listen}  default_type application/json;\n  location = /v1/models {{ return 200 '{MODELS}'; }}\n\
           location = /metrics {{ default_type text/plain; return 200 'vllm:num_requests_running 0\\nvllm:num_requests_waiting 0\\nvllm:kv_cache_usage_perc 0.1\\n'; }}\n\
           location / {{ return 200 '{COMPLETION}'; }}\n }}\n"
    );
    write(folder, &page(&inner, folder))
}

/// Configuration of a plain reverse proxy, round robin.
pub(crate) fn round_robin(folder: &Path, port: u16, engines: &[u16]) -> Result<PathBuf, Error> {
    let servers: String = engines.iter().map(|port| format!("  server 127.0.0.1:{port};\n")).collect();
    let inner = format!(
        " upstream engines {{\n{servers}  keepalive 128;\n  keepalive_requests 100000000;\n }}\n server {{\n  listen 127.0.0.1:{port} backlog=4096;\n\
           location / {{ proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ''; }}\n }}\n"
    );
    write(folder, &page(&inner, folder))
}
