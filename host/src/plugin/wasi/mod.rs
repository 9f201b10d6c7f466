//! `wasi = "stub"`: a WASI behind which there is nothing.
//!
//! The runtimes of some languages import WASI whether a policy uses it or not, and call some of it while they
//! start. Those calls get harmless answers ([`answers`]): no arguments, no environment, no directories, an input
//! that has ended, the clock and the random numbers of the contract. What is written to stdout and stderr goes
//! to the host's log, where a runtime's last words are worth reading. Every other function traps, and the error
//! names it. So a guest gets no authority that the contract does not give it.
//!
//! Only what a component imports is defined, under the very names that it imports, so any 0.2 release of WASI fits.

mod answers;
mod output;

pub(super) use output::Output;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, LinkerInstance, ResourceType};

use super::host::Guest;
use answers::Handle;

/// The releases of WASI that are answered.
const TRACK: &str = "0.2.";

/// Whether an import is one of WASI's, and so stubbed.
pub(super) fn is_wasi(import: &str) -> bool {
    import.starts_with("wasi:")
}

/// Defines all of WASI that the component imports.
///
/// # Errors
/// When the linker has some of it already.
pub(super) fn define(linker: &mut Linker<Guest>, component: &Component) -> wasmtime::Result<()> {
    let engine = linker.engine().clone();
    for (name, import) in component.component_type().imports(&engine).filter(|(name, _)| is_wasi(name)) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        let mut offered = linker.instance(name)?;
        for (item, export) in instance.exports(&engine) {
            match export.ty {
                ComponentItem::Resource(_) => {
                    offered.resource(item, ResourceType::host::<Handle>(), |_, _| Ok(()))?;
                }
                ComponentItem::ComponentFunc(_) => function(&mut offered, name, item)?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn function(offered: &mut LinkerInstance<'_, Guest>, interface: &str, item: &str) -> wasmtime::Result<()> {
    if let Some((known, version)) = interface.split_once('@')
        && version.starts_with(TRACK)
        && answers::define(offered, known, item)?
    {
        return Ok(());
    }
    let import = format!("{interface}#{item}");
    offered.func_new(item, move |_, _, _, _| {
        Err(wasmtime::Error::msg(format!(
            "it called `{import}`, which `wasi = \"stub\"` does not answer: a policy has no such access"
        )))
    })
}
