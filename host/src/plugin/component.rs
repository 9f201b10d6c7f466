//! A compiled and linked component: which stages it exports, and why it cannot be used if it cannot.
//!
//! The errors here are read by plugin authors, so each says which interface, what was found, what is
//! offered, and what to do.

use std::sync::OnceLock;

use wasmtime::component::{Component, InstancePre};

use super::artifact::Artifact;
use super::bindings::exports::sluicegate::policy as stage;
use super::compile::CompileError;
use super::engine::Runtime;
use super::host::{Guest, Needs};
use super::instance::Generation;
use super::wasi;
use crate::config::Wasi;
use crate::policy::Source;

/// The package and the track (major version, or minor below 1.0) that this host speaks.
pub(super) const PACKAGE: &str = "sluicegate:policy/";
pub(super) const VERSION: &str = "0.1.0";
const TRACK: &str = "0.1.";

/// Why a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// There is no code of it.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Needs more than an instance may have.
    #[error(transparent)]
    Needs(#[from] Needs),
    /// Built for another track of the contract.
    #[error(
        "{side} `{name}`, but this host speaks sluicegate:policy@{VERSION}: rebuild with sluicegate-sdk {VERSION} or the WIT of that version"
    )]
    Version {
        /// `imports` or `exports`.
        side: &'static str,
        /// The name found.
        name: String,
    },
    /// Wants something that is not offered.
    #[error("it imports `{name}`, which policies are not given: {hint}")]
    Import {
        /// The name found.
        name: String,
        /// What to do.
        hint: &'static str,
    },
    /// Exports nothing of the contract.
    #[error(
        "it does not export `{PACKAGE}plugin@{VERSION}`; it exports {found}. A policy exports `plugin` and at least one stage"
    )]
    NoPlugin {
        /// What it does export.
        found: String,
    },
    /// Exports `plugin` but no stage.
    #[error("it exports `plugin` but no stage; a policy exports at least one of {STAGES:?}")]
    NoStage,
    /// A function of an interface is missing or has another signature.
    #[error("its `{interface}` does not fit {PACKAGE}{interface}@{VERSION}: {problem}")]
    Signature {
        /// The interface.
        interface: &'static str,
        /// Function, expected and found signature.
        problem: String,
    },
}

/// The stages of the contract, in the order in which a request meets them.
pub(super) const STAGES: [&str; 8] =
    ["admission", "flow-control", "filter", "scorer", "picker", "disaggregation", "observer", "handoff"];

/// Where each exported interface lies in the component.
pub(super) struct Indices {
    pub(super) plugin: stage::plugin::GuestIndices,
    pub(super) admission: Option<stage::admission::GuestIndices>,
    pub(super) filter: Option<stage::filter::GuestIndices>,
    pub(super) scorer: Option<stage::scorer::GuestIndices>,
    pub(super) picker: Option<stage::picker::GuestIndices>,
    pub(super) disaggregation: Option<stage::disaggregation::GuestIndices>,
    pub(super) flow_control: Option<stage::flow_control::GuestIndices>,
    pub(super) observer: Option<stage::observer::GuestIndices>,
    pub(super) handoff: Option<stage::handoff::GuestIndices>,
}

/// A component that can be instantiated.
pub(super) struct Linked {
    pub(super) pre: InstancePre<Guest>,
    pub(super) indices: Indices,
    pub(super) stages: Vec<&'static str>,
    /// Set when it is first instantiated, which is when it is known whose version it is.
    pub(super) alive: OnceLock<Generation>,
}

impl Linked {
    /// Compiles, links and looks for the stages. An instance will have `memory_bytes`.
    pub(super) fn new(
        runtime: &Runtime,
        artifact: &Artifact,
        source: Source,
        memory_bytes: usize,
        wasi: Wasi,
    ) -> Result<Self, ComponentError> {
        let component = runtime.compiler().component(artifact, source)?;
        if let Some(needs) = Needs::beyond(&component, memory_bytes) {
            return Err(ComponentError::Needs(needs));
        }
        check_names(runtime, &component, wasi)?;
        let mut linker = runtime.linker().clone();
        if wasi == Wasi::Stub {
            wasi::define(&mut linker, &component).map_err(signature("imports"))?;
        }
        let pre = linker.instantiate_pre(&component).map_err(signature("imports"))?;
        let stages: Vec<_> = STAGES.into_iter().filter(|stage| exports(&component, stage)).collect();
        if !stages.iter().any(|stage| !matches!(*stage, "handoff")) {
            return Err(ComponentError::NoStage);
        }
        let indices = Indices::find(&pre, &stages)?;
        Ok(Self { pre, indices, stages, alive: OnceLock::new() })
    }
}

fn exports(component: &Component, interface: &str) -> bool {
    component.get_export_index(None, format!("{PACKAGE}{interface}@{VERSION}")).is_some()
}

fn signature(interface: &'static str) -> impl FnOnce(wasmtime::Error) -> ComponentError {
    move |error| ComponentError::Signature { interface, problem: format!("{error:#}") }
}

fn check_names(runtime: &Runtime, component: &Component, wasi: Wasi) -> Result<(), ComponentError> {
    let engine = runtime.engine();
    let component_type = component.component_type();
    let other_track = |name: &str| name.starts_with(PACKAGE) && !name.contains(&format!("@{TRACK}"));
    for (name, _) in component_type.imports(engine) {
        if other_track(name) {
            return Err(ComponentError::Version { side: "it imports", name: name.into() });
        }
        let hint = match (wasi::is_wasi(name), wasi) {
            _ if name.starts_with(PACKAGE) => continue,
            (true, Wasi::Stub) => continue,
            (true, Wasi::None) => {
                "no WASI is linked; build without it, or set `wasi = \"stub\"` for this plugin"
            }
            (false, _) => "only the interfaces of sluicegate:policy are",
        };
        return Err(ComponentError::Import { name: name.into(), hint });
    }
    let mut found = Vec::new();
    for (name, _) in component_type.exports(engine) {
        if other_track(name) {
            return Err(ComponentError::Version { side: "it exports", name: name.into() });
        }
        found.push(format!("`{name}`"));
    }
    if exports(component, "plugin") {
        Ok(())
    } else {
        /// Names that an error lists.
        const SHOWN: usize = 16;
        let more = found.len().saturating_sub(SHOWN);
        found.truncate(SHOWN);
        let mut found = if found.is_empty() { "nothing".into() } else { found.join(", ") };
        if more > 0 {
            found = format!("{found} and {more} more");
        }
        Err(ComponentError::NoPlugin { found })
    }
}

impl Indices {
    fn find(pre: &InstancePre<Guest>, stages: &[&str]) -> Result<Self, ComponentError> {
        macro_rules! find {
            ($module:ident, $name:literal) => {
                if stages.contains(&$name) {
                    Some(stage::$module::GuestIndices::new(pre).map_err(signature($name))?)
                } else {
                    None
                }
            };
        }
        Ok(Self {
            plugin: stage::plugin::GuestIndices::new(pre).map_err(signature("plugin"))?,
            admission: find!(admission, "admission"),
            filter: find!(filter, "filter"),
            scorer: find!(scorer, "scorer"),
            picker: find!(picker, "picker"),
            disaggregation: find!(disaggregation, "disaggregation"),
            flow_control: find!(flow_control, "flow-control"),
            observer: find!(observer, "observer"),
            handoff: find!(handoff, "handoff"),
        })
    }
}
