//! Which path is answered by which function.

use std::net::SocketAddr;

use http::request::Parts;
use http::{Method, StatusCode};

use super::answer::{Answer, error, wrong_method};
use super::{Admin, additions, cases, config, decisions, endpoints, health, metrics, page, plugins, tenants};
use crate::api::path::decoded;
use crate::audit::Deed;
use crate::config::Right;

/// A request, as far as handlers look at it.
pub(super) struct Call {
    /// What stands in the place of the first `*` of its route, decoded.
    pub(super) name: String,
    /// The same of the second.
    pub(super) item: String,
    /// The query, not decoded.
    pub(super) query: String,
    /// The `accept` header.
    pub(super) accept: String,
}

type Handler = fn(&Admin, &Call) -> Answer;

enum Route {
    /// For everybody.
    Open(&'static str, Handler),
    Read(&'static str, Handler),
    /// With what the audit calls it.
    Write(&'static str, Handler, &'static str),
}

/// A `*` stands for one segment.
const ROUTES: &[Route] = &[
    Route::Read("/", page::page),
    Route::Open("/healthz", health::healthz),
    Route::Open("/readyz", health::readyz),
    Route::Read("/metrics", metrics::metrics),
    Route::Read("/plugins", plugins::plugins),
    Route::Read("/plugins/*", plugins::plugin),
    Route::Write("/plugins/*/promote", plugins::promote, "plugin.promote"),
    Route::Write("/plugins/*/rollback", plugins::rollback, "plugin.rollback"),
    Route::Write("/plugins/*/off", plugins::off, "plugin.off"),
    Route::Write("/plugins/*/on", plugins::on, "plugin.on"),
    Route::Read("/plugins/*/cases", cases::cases),
    Route::Read("/plugins/*/cases/*", cases::case),
    Route::Read("/endpoints", endpoints::endpoints),
    Route::Write("/endpoints", additions::add, "endpoint.add"),
    Route::Write("/endpoints/*/remove", additions::remove, "endpoint.remove"),
    Route::Write("/endpoints/*/drain", endpoints::drain, "endpoint.drain"),
    Route::Write("/endpoints/*/undrain", endpoints::undrain, "endpoint.undrain"),
    Route::Read("/decisions", decisions::decisions),
    Route::Read("/decisions/*", decisions::decision),
    Route::Read("/tenants", tenants::tenants),
    Route::Read("/config", config::config),
    Route::Write("/config/reload", config::reload, "config.reload"),
];

/// Answers one request from this address.
pub(super) fn answer(admin: &Admin, head: &Parts, peer: SocketAddr) -> Answer {
    let found = route_of(&head.method, head.uri.path());
    // What is not there is told to those who may read.
    let right = match &found {
        Some((Route::Open(..), _)) => None,
        Some((Route::Write(..), _)) if head.method == Method::POST => Some(Right::Operate),
        _ => Some(Right::Read),
    };
    let who = match right.map(|right| admin.access.who(&head.headers, right)).transpose() {
        Ok(who) => who.unwrap_or_default(),
        Err(denied) => return denied.answer(),
    };
    let Some((route, stars)) = found else {
        return error(StatusCode::NOT_FOUND, "nothing is here; `/` shows what there is");
    };
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut stars = stars.into_iter();
    let call = Call {
        name: stars.next().unwrap_or_default(),
        item: stars.next().unwrap_or_default(),
        query: head.uri.query().unwrap_or_default().into(),
        accept: header(http::header::ACCEPT).into(),
    };
    match route {
        Route::Open(_, handler) | Route::Read(_, handler)
            if matches!(head.method, Method::GET | Method::HEAD) =>
        {
            handler(admin, &call)
        }
        Route::Open(..) | Route::Read(..)
            if route_of(&Method::POST, head.uri.path()).is_some_and(|found| writes(&found)) =>
        {
            wrong_method("GET, HEAD, POST")
        }
        Route::Open(..) | Route::Read(..) => wrong_method("GET, HEAD"),
        Route::Write(_, handler, what) if head.method == Method::POST => {
            let answer = handler(admin, &call);
            let on = if call.name.is_empty() { decoded(&call.query) } else { call.name };
            let deed = Deed::new(what, &on, &who).from(&peer.to_string());
            admin.audit.note(&if answer.status().is_success() { deed } else { deed.failed() });
            // What was done is on the disk before somebody relies on it.
            admin.audit.flush();
            answer
        }
        Route::Write(..) => wrong_method("POST"),
    }
}

/// The route of a path, one that answers this method if there is one.
fn route_of(method: &Method, path: &str) -> Option<(&'static Route, Vec<String>)> {
    let of_path = || {
        ROUTES.iter().filter_map(|route| {
            let (Route::Open(pattern, _) | Route::Read(pattern, _) | Route::Write(pattern, ..)) = route;
            Some((route, matched(pattern, path)?))
        })
    };
    of_path().find(|found| writes(found) == (method == Method::POST)).or_else(|| of_path().next())
}

const fn writes((route, _): &(&Route, Vec<String>)) -> bool {
    matches!(route, Route::Write(..))
}

/// What stands in the places of the pattern's `*`, when the path is of this pattern.
fn matched(pattern: &str, path: &str) -> Option<Vec<String>> {
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    let mut stars = Vec::new();
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        let segment = segments.next()?;
        match expected {
            "*" if segment.is_empty() => return None,
            "*" => stars.push(decoded(segment)),
            _ if expected != segment => return None,
            _ => {}
        }
    }
    segments.next().is_none().then_some(stars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_patterns() {
        for (pattern, path, stars) in [
            ("/", "/", Some(&[][..])),
            ("/plugins", "/plugins/", Some(&[])),
            ("/plugins", "/plugins/x", None),
            ("/decisions/*", "/decisions/a%2Fb", Some(&["a/b"])),
            ("/decisions/*", "/decisions/", None),
            ("/plugins/*/cases/*", "/plugins/mine/cases/7", Some(&["mine", "7"])),
            ("/endpoints/*/drain", "/endpoints/%5b::1%5D:80/drain", Some(&["[::1]:80"])),
            ("/endpoints/*/drain", "/endpoints/a:1/undrain", None),
            ("/endpoints/*/drain", "/endpoints/a/b/drain", None),
        ] {
            let stars = stars.map(|stars| stars.iter().map(|star| (*star).to_owned()).collect());
            assert_eq!(matched(pattern, path), stars, "{path}");
        }
    }
}
