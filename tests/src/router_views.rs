//! What the router says of itself: the admin API, for people and for tests.

use serde_json::Value;

use crate::answer::Answer;
use crate::request::{get, post};
use crate::router::Router;
use crate::wait;

impl Router {
    /// A page of the admin API.
    pub async fn admin(&self, path: &str) -> Answer {
        get(self.admin_url(path)).send().await
    }

    /// A page of the admin API that is JSON.
    pub async fn admin_json(&self, path: &str) -> Value {
        self.admin(path).await.expect(200).await.json().await
    }

    /// Does something through the admin API.
    pub async fn admin_post(&self, path: &str) -> Answer {
        post(self.admin_url(path), "").send().await
    }

    /// What `GET /plugins` says of one.
    pub async fn plugin(&self, name: &str) -> Option<Value> {
        let all = self.admin_json("/plugins").await;
        all["plugins"].as_array().expect("no list").iter().find(|plugin| plugin["name"] == name).cloned()
    }

    /// Waits until the first pool is known to be full.
    pub async fn is_full(&self) {
        wait::until("the pool is known to be full", async || {
            let pools = self.admin_json("/endpoints").await;
            pools["pools"][0]["queue"]["saturation"].as_f64().is_some_and(|saturation| saturation >= 1.0)
        })
        .await;
    }

    /// Waits until the configuration was applied for the `nth` time.
    pub async fn config_applied(&self, nth: u64) {
        wait::until(&format!("the configuration is applied {nth} times"), async || {
            self.admin_json("/config").await["reload"]["applied"] == nth
        })
        .await;
    }

    /// Waits until a change of the configuration is refused; says why.
    pub async fn config_refused(&self) -> String {
        wait::until_some("the configuration is refused", async || {
            let config = self.admin_json("/config").await;
            config["reload"]["problem"].as_str().map(str::to_owned)
        })
        .await
    }

    /// Waits until the version with this digest of a plugin is in force.
    pub async fn plugin_runs(&self, name: &str, digest: &str) -> Value {
        let what = format!("version {digest} of plugin {name} is in force");
        wait::until_some(&what, async || self.plugin(name).await.filter(|plugin| plugin["digest"] == digest))
            .await
    }

    /// Waits until a file of this digest was refused for a plugin; says what `GET /plugins` says of it.
    pub async fn plugin_refused(&self, name: &str, digest: &str) -> Value {
        let what = format!("file {digest} of plugin {name} is refused");
        let refused = async || self.plugin(name).await.filter(|plugin| plugin["refused"]["digest"] == digest);
        wait::until_some(&what, refused).await
    }

    /// What `GET /endpoints` says of one.
    ///
    /// # Panics
    /// When it does not know it.
    pub async fn endpoint(&self, id: &str) -> Value {
        let all = self.admin_json("/endpoints").await;
        let found =
            all["endpoints"].as_array().expect("no list").iter().find(|endpoint| endpoint["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {all}")).clone()
    }

    /// Why a request went where it went; it is known at the latest when its answer has been read.
    pub async fn decision(&self, request: &str) -> Value {
        self.admin_json(&format!("/decisions/{request}")).await
    }

    /// The sum of a metric over all series whose labels include these.
    ///
    /// # Panics
    /// When the page is no metrics page.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let page = self.admin("/metrics").await.expect(200).await.text().await;
        let series = page.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
        });
        series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}
