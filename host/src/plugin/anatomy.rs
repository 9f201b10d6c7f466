//! What a file is made of, read from its bytes alone: also of one that would be refused.

use wasmparser::component_types::ComponentEntityType;
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

/// Bytes of a page of memory.
const PAGE: u64 = 65_536;

/// A named interface and those of its functions that the component uses or offers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Interface {
    /// `PACKAGE/NAME@VERSION`.
    pub name: String,
    /// Names as in the contract; `[method]request.model` is the method `model` of `request`.
    pub functions: Vec<String>,
}

/// A memory of one of its modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// Bytes that every instance begins with.
    pub initial_bytes: u64,
    /// Bytes that it may grow to by itself; none leaves that to the configuration.
    pub maximum_bytes: Option<u64>,
}

/// What a component is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anatomy {
    /// What it uses.
    pub imports: Vec<Interface>,
    /// What it offers.
    pub exports: Vec<Interface>,
    /// Its memories.
    pub memories: Vec<Memory>,
}

impl Anatomy {
    /// Of a component; what cannot be read is not there.
    #[must_use]
    pub fn of(component: &[u8]) -> Self {
        let mut anatomy = Self::default();
        let Ok(types) = Validator::new_with_features(WasmFeatures::all()).validate_all(component) else {
            return anatomy;
        };
        let types = types.as_ref();
        let interface = |name: &str, ty: Option<&ComponentEntityType>| {
            let functions = match ty {
                Some(ComponentEntityType::Instance(id)) => types
                    .get(*id)
                    .into_iter()
                    .flat_map(|instance| &instance.exports)
                    .filter(|(_, item)| matches!(item.ty, ComponentEntityType::Func(_)))
                    .map(|(name, _)| name.clone())
                    .collect(),
                _ => Vec::new(),
            };
            Interface { name: name.into(), functions }
        };
        // Modules and components lie in one another; only what the outermost names is the file's own.
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
            match payload {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::MemorySection(memories) => {
                    anatomy.memories.extend(memories.into_iter().flatten().map(|memory| Memory {
                        initial_bytes: memory.initial.saturating_mul(PAGE),
                        maximum_bytes: memory.maximum.map(|pages| pages.saturating_mul(PAGE)),
                    }));
                }
                Payload::ComponentImportSection(imports) if depth == 1 => {
                    anatomy.imports.extend(imports.into_iter().flatten().map(|import| {
                        let name = import.name.name;
                        interface(name, types.component_item_for_import(name).map(|item| &item.ty))
                    }));
                }
                Payload::ComponentExportSection(exports) if depth == 1 => {
                    anatomy.exports.extend(exports.into_iter().flatten().map(|export| {
                        let name = export.name.name;
                        interface(name, types.component_item_for_export(name).map(|item| &item.ty))
                    }));
                }
                _ => {}
            }
        }
        anatomy
    }

    /// The versions of the contract that it names, each once.
    #[must_use]
    pub fn contract(&self) -> Vec<&str> {
        let interfaces = self.imports.iter().chain(&self.exports);
        let ours = interfaces.filter(|interface| interface.name.starts_with(super::component::PACKAGE));
        let mut versions: Vec<&str> =
            ours.filter_map(|interface| Some(interface.name.split_once('@')?.1)).collect();
        versions.sort_unstable();
        versions.dedup();
        versions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_component_has_no_parts() {
        assert_eq!(Anatomy::of(b"no plugin"), Anatomy::default());
    }
}
