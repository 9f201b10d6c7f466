//! The macro that makes a component of a policy.

/// Exports a policy with the stages it serves, and no other:
///
/// ```ignore
/// sluicegate_sdk::export!(MyPolicy: scorer, flow_control, observer);
/// ```
///
/// The stages are `admission`, `filter`, `scorer`, `picker`, `disaggregation`, `flow_control`, `observer` and
/// `handoff`; the policy implements the trait of each. Natively this checks just that.
#[macro_export]
macro_rules! export {
    ($policy:ty: $($stage:ident),+ $(,)?) => {
        const _: () = {
            $( $crate::__check_stage!($policy, $stage); )+
        };

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Exported;

            ::std::thread_local! {
                static INSTANCE: $crate::wasm::Instance<$policy> = const { $crate::wasm::Instance::new() };
            }

            impl $crate::wasm::Exported for Exported {
                type Policy = $policy;
                fn instance() -> &'static ::std::thread::LocalKey<$crate::wasm::Instance<$policy>> {
                    &INSTANCE
                }
            }

            $crate::wasm::bindings::policy::export_policy!(
                Exported with_types_in $crate::wasm::bindings::policy
            );
            $( $crate::__export_stage!(Exported, $stage); )+
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __check_stage {
    ($policy:ty, admission) => { $crate::__check_stage!(@ $policy, $crate::Admission); };
    ($policy:ty, filter) => { $crate::__check_stage!(@ $policy, $crate::Filter); };
    ($policy:ty, scorer) => { $crate::__check_stage!(@ $policy, $crate::Scorer); };
    ($policy:ty, picker) => { $crate::__check_stage!(@ $policy, $crate::Picker); };
    ($policy:ty, disaggregation) => { $crate::__check_stage!(@ $policy, $crate::Disaggregation); };
    ($policy:ty, flow_control) => { $crate::__check_stage!(@ $policy, $crate::FlowControl); };
    ($policy:ty, observer) => { $crate::__check_stage!(@ $policy, $crate::Observer); };
    ($policy:ty, handoff) => { $crate::__check_stage!(@ $policy, $crate::Handoff); };
    (@ $policy:ty, $trait:path) => {
        const _: () = {
            const fn serves<P: $trait>() {}
            serves::<$policy>();
        };
    };
    ($policy:ty, $other:ident) => {
        ::core::compile_error!(::core::concat!(
            "no stage is named `", ::core::stringify!($other), "`; there are admission, filter, scorer, ",
            "picker, disaggregation, flow_control, observer and handoff"
        ));
    };
}

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[macro_export]
macro_rules! __export_stage {
    ($exported:ident, admission) => { $crate::__export_stage!(@ $exported, admission, export_admission); };
    ($exported:ident, filter) => { $crate::__export_stage!(@ $exported, filter, export_filter); };
    ($exported:ident, scorer) => { $crate::__export_stage!(@ $exported, scorer, export_scorer); };
    ($exported:ident, picker) => { $crate::__export_stage!(@ $exported, picker, export_picker); };
    ($exported:ident, disaggregation) => {
        $crate::__export_stage!(@ $exported, disaggregation, export_disaggregation);
    };
    ($exported:ident, flow_control) => { $crate::__export_stage!(@ $exported, flow_control, export_flow_control); };
    ($exported:ident, observer) => { $crate::__export_stage!(@ $exported, observer, export_observer); };
    ($exported:ident, handoff) => { $crate::__export_stage!(@ $exported, handoff, export_handoff); };
    (@ $exported:ident, $module:ident, $macro:ident) => {
        $crate::wasm::bindings::$module::$macro!($exported with_types_in $crate::wasm::bindings::$module);
    };
    ($exported:ident, $other:ident) => {};
}
