//! `GET /tenants`, and their metrics.

use serde_json::{Value, json};

use super::Admin;
use super::answer::{Answer, ok};
use super::router::Call;
use crate::clock::Nanos;
use crate::telemetry::Page;
use crate::tenants::{Limit, Tenant, Tenants};

/// What each tenant has used, and what is left.
pub(super) fn tenants(admin: &Admin, _: &Call) -> Answer {
    let now = admin.clock.now();
    let all: Vec<_> = admin.tenants.all().iter().map(|tenant| shown(tenant, now)).collect();
    ok(&json!({"tenants": all}))
}

fn shown(Tenant { config, account }: &Tenant, now: Nanos) -> Value {
    let standing = account.standing(config, now);
    let (prompt_tokens, output_tokens) = account.tokens();
    let refused = Limit::ALL.map(|limit| (limit.as_str().to_owned(), account.exceeded(limit).into()));
    json!({
        "name": config.name,
        "running": standing.running,
        "requests_left": standing.requests_left.map(f64::floor),
        "tokens_left": standing.tokens_left.map(f64::floor),
        "requests": account.entered(),
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "refused": Value::Object(refused.into_iter().collect()),
    })
}

pub(super) fn metrics(page: &mut Page, tenants: &Tenants, now: Nanos) {
    for tenant in tenants.all() {
        let Tenant { config, account } = &*tenant;
        let name = ("tenant", &*config.name);
        page.counter("tenant_requests", "Requests that a tenant's limits let in")
            .add(&[name], account.entered());
        let mut refused = page.counter("tenant_refused", "Requests that they did not");
        for limit in Limit::ALL {
            refused.add(&[name, ("limit", limit.as_str())], account.exceeded(limit));
        }
        let (prompt, output) = account.tokens();
        let mut tokens = page.counter("tenant_tokens", "Tokens that count against a tenant's limits");
        tokens.add(&[name, ("kind", "prompt")], prompt);
        tokens.add(&[name, ("kind", "output")], output);
        let standing = account.standing(config, now);
        page.gauge("tenant_running_requests", "Requests of a tenant that run or wait")
            .set(&[name], standing.running.into());
        if let Some(left) = standing.tokens_left {
            page.gauge("tenant_tokens_left", "Tokens that may come at once, below 0 while there is a debt")
                .set(&[name], left.floor());
        }
    }
}
