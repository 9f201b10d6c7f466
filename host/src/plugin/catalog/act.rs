//! What operators and the supervisor do to plugins: promote, roll back, off, on.

use std::time::Duration;

use super::entry::{Entry, Task};
use super::files::Place;
use super::version::Origin;
use super::{Catalog, State};
use crate::audit::Deed;
use crate::config::nearest;

/// How long an operator waits for what they asked for. It goes on all the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an operator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The candidate becomes the version in force.
    Promote,
    /// The candidate is dropped, or without one the version in force gives way to the one before it.
    RollBack,
    /// The plugin serves no more.
    Off,
    /// The plugin serves again, and versions that were rolled back may come again.
    On,
}

/// Why it cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    /// Nobody is called so.
    #[error("there is no plugin `{name}`{}", nearest.as_ref().map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default())]
    Unknown {
        /// The name asked for.
        name: String,
        /// One like it.
        nearest: Option<String>,
    },
    /// It has no candidate.
    #[error("`{0}` has no candidate: put one into the plugin directory as `{0}.next.wasm`")]
    NoCandidate(String),
    /// There is nothing to go back to.
    #[error("`{0}` has no candidate and no version before the one in force")]
    NothingBefore(String),
    /// It was tried and did not work.
    #[error("{0}")]
    Failed(String),
    /// It takes long.
    #[error("`{0}` is still being loaded; look at GET /plugins later")]
    StillLoading(String),
}

impl Catalog {
    /// Does what an operator asks for, and waits until it is done.
    ///
    /// # Errors
    /// When it cannot be done; then nothing has changed.
    pub fn act(&self, name: &str, action: Action) -> Result<(), ActError> {
        let mut state = self.state.lock();
        if !state.entries.contains_key(name) {
            return Err(unknown(&state, name));
        }
        let Some(entry) = state.entries.get_mut(name) else { return Ok(()) };
        match action {
            Action::Promote => {
                if entry.candidate.is_none() {
                    return Err(ActError::NoCandidate(name.into()));
                }
                entry.todo.push_back(Task::Promote);
            }
            Action::RollBack => {
                let (place, digest) =
                    turned_back(entry).ok_or_else(|| ActError::NothingBefore(name.into()))?;
                take_out(entry, name, place, &digest, "an operator asked for it");
            }
            Action::Off => entry.record.off = true,
            Action::On => turn_on(entry),
        }
        self.employ(&mut state, name);
        self.publish(&mut state);
        drop(state);
        self.remember(&[]);
        self.wait(|state| state.entries.get(name).is_none_or(|entry| !entry.working), PATIENCE);
        self.outcome(name, action)
    }

    /// Takes a version out of force or of trial because of what it did, if it is still there. The version
    /// before comes back, and the digest stays out.
    pub fn roll_back(&self, name: &str, digest: &str, why: &str) {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(name) else { return };
        if entry.record.refused.contains_key(digest) {
            // It is on its way out.
            return;
        }
        let tried = entry.candidate.as_ref().is_some_and(|candidate| candidate.version.digest() == digest);
        let in_force = entry.in_force.as_ref().is_some_and(|version| version.digest() == digest);
        let place = match (tried, in_force) {
            (true, _) => Place::Next,
            (false, true) if entry.previous.is_some() => Place::Main,
            _ => return,
        };
        take_out(entry, name, place, digest, why);
        if let Some(audit) = self.audit.get() {
            audit.note(&Deed::new("plugin.rollback", name, "router").version(digest).because(why));
        }
        self.employ(&mut state, name);
        self.publish(&mut state);
        drop(state);
        self.remember(&[]);
    }

    /// How it went.
    fn outcome(&self, name: &str, action: Action) -> Result<(), ActError> {
        let state = self.state.lock();
        let Some(entry) = state.entries.get(name) else { return Ok(()) };
        if entry.working {
            return Err(ActError::StillLoading(name.into()));
        }
        match (action, &entry.next.refused) {
            (Action::Promote, Some(refused)) if entry.record.promoted.is_none() => {
                Err(ActError::Failed(format!("the candidate cannot serve: {}", refused.reason)))
            }
            _ => Ok(()),
        }
    }
}

/// What an operator's rollback takes out.
fn turned_back(entry: &Entry) -> Option<(Place, Box<str>)> {
    if let Some(candidate) = &entry.candidate {
        return Some((Place::Next, candidate.version.digest().into()));
    }
    entry.previous.as_ref()?;
    let version = entry.in_force.as_ref().filter(|version| version.origin != Origin::Builtin)?;
    Some((Place::Main, version.digest().into()))
}

fn take_out(entry: &mut Entry, name: &str, place: Place, digest: &str, why: &str) {
    tracing::error!(plugin = name, digest = digest.get(..12), "rolled back: {why}");
    match place {
        Place::Next => {
            let shown = entry.candidate.take().map_or(place, |candidate| candidate.place);
            entry.keep_out(shown, digest, why);
        }
        Place::Main => {
            entry.keep_out(place, digest, why);
            entry.todo.push_back(Task::Return(digest.into()));
        }
    }
}

/// Everything may come again: files are read as if they were new.
fn turn_on(entry: &mut Entry) {
    entry.record.off = false;
    if entry.record.refused.is_empty() {
        return;
    }
    entry.record.refused.clear();
    entry.rolled_back = None;
    let files: Vec<_> = entry.seen.iter().map(|(place, file)| Task::Read(*place, file.clone())).collect();
    entry.todo.extend(files);
}

fn unknown(state: &State, name: &str) -> ActError {
    let nearest = nearest(name, state.entries.keys().map(|known| &**known)).map(Into::into);
    ActError::Unknown { name: name.into(), nearest }
}
