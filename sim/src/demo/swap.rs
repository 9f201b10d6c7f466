//! Swaps a policy of a running router, as an operator would: a file is renamed into the watched directory.

use crate::web::{self, Http};
use http::Method;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// The policy that is swapped.
pub(super) const POLICY: &str = "prefix-affinity";
/// How long the router may take to serve by the new file.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked.
const PAUSE: Duration = Duration::from_millis(10);

/// Why the policy was not swapped.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// The file could not be put in place.
    #[error("cannot put the policy in place: {0}")]
    File(#[from] std::io::Error),
    /// The router never said that it serves by the file.
    #[error("the router did not take the new policy within {PATIENCE:?}; GET /plugins said {said}")]
    NotTaken {
        /// Its last answer about the policy.
        said: String,
    },
}

/// Renames a copy of `file` into `directory` and returns how long it took from then until the router serves by it.
pub(super) async fn swap(
    http: &Http,
    admin: &str,
    file: &Path,
    directory: &Path,
) -> Result<Duration, SwapError> {
    let staged = directory.join(format!(".{POLICY}.staged"));
    std::fs::copy(file, &staged)?;
    let begin = Instant::now();
    std::fs::rename(&staged, directory.join(format!("{POLICY}.wasm")))?;
    let url = format!("{admin}/plugins");
    let mut said = String::from("nothing");
    while begin.elapsed() < PATIENCE {
        match web::json(http, Method::GET, &url, None, Duration::from_secs(5)).await {
            Ok((_, answer)) => match entry(&answer) {
                Some(plugin) if plugin.get("source").and_then(Value::as_str) == Some("file") => {
                    return Ok(begin.elapsed());
                }
                Some(plugin) => said = plugin.to_string(),
                None => said = answer.to_string(),
            },
            Err(error) => said = error.to_string(),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(SwapError::NotTaken { said })
}

fn entry(answer: &Value) -> Option<&Value> {
    let plugins = answer.get("plugins")?.as_array()?;
    plugins.iter().find(|plugin| plugin.get("name").and_then(Value::as_str) == Some(POLICY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_policy_is_found_by_name() {
        let answer = json!({"plugins": [{"name": "fairness"}, {"name": POLICY, "source": "builtin"}]});
        assert_eq!(entry(&answer).unwrap()["source"], "builtin");
        assert_eq!(entry(&json!({"plugins": []})), None);
    }
}
