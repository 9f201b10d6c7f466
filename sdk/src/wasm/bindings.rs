//! Generated from the contract: one module a world, and one copy of the types of `view`.
//!
//! The custom section that announces a world's exports is part of its export macro, so what a plugin does
//! not export leaves no trace in it.
#![expect(
    missing_docs,
    clippy::pedantic,
    clippy::indexing_slicing,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

/// The base: imports, and the export `plugin`.
pub mod policy {
    wit_bindgen::generate!({
        world: "policy",
        path: "../wit/policy.wit",
        pub_export_macro: true,
        export_macro_name: "export_policy",
        generate_all,
    });
}

macro_rules! stage {
    ($module:ident, $world:literal, $export:literal $(, $view:literal => $types:path)?) => {
        pub mod $module {
            wit_bindgen::generate!({
                world: $world,
                path: "../wit/policy.wit",
                pub_export_macro: true,
                export_macro_name: $export,
                $(with: { $view: $types },)?
            });
        }
    };
}

macro_rules! stage_with_view {
    ($module:ident, $world:literal, $export:literal) => {
        stage!(
            $module,
            $world,
            $export,
            "sluicegate:policy/view@0.1.0" => crate::wasm::bindings::policy::sluicegate::policy::view
        );
    };
}

stage_with_view!(admission, "admission-policy", "export_admission");
stage_with_view!(filter, "filter-policy", "export_filter");
stage_with_view!(scorer, "scorer-policy", "export_scorer");
stage_with_view!(picker, "picker-policy", "export_picker");
stage_with_view!(disaggregation, "disaggregation-policy", "export_disaggregation");
stage_with_view!(flow_control, "flow-control-policy", "export_flow_control");
stage_with_view!(observer, "observer-policy", "export_observer");
stage!(handoff, "handoff-policy", "export_handoff");
