//! Bindings of `wit/policy.wit`, made at build time.
//!
//! The world `every-stage` is for the host alone: no guest exports all of it, so only each interface's
//! `GuestIndices` are used, never the world's own type.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    unsafe_code,
    reason = "generated code"
)]

wasmtime::component::bindgen!({
    world: "every-stage",
    path: "../wit",
    with: {
        "sluicegate:policy/view.request": super::host::RequestHandle,
        "sluicegate:policy/view.endpoints": super::host::EndpointsHandle,
        "sluicegate:policy/view.flows": super::host::FlowsHandle,
        "sluicegate:policy/view.events": super::host::EventsHandle,
    },
});
