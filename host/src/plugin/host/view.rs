//! `view`: the request, the candidates, the flows and the events of the call under way.

use wasmtime::component::Resource;

use super::{EndpointsHandle, EventsHandle, FlowsHandle, Guest, RequestHandle};
use crate::clock::MILLI;
use crate::plugin::bindings::sluicegate::policy::view::{self, Api};
use crate::policy::{Builtin, Column, ColumnId, Request};
use crate::types;

impl view::Host for Guest {}

impl Guest {
    fn request<R: Default>(&self, read: impl FnOnce(&Request) -> R) -> R {
        self.subject.request.as_deref().map(read).unwrap_or_default()
    }

    fn builtin(&self, column: u32) -> Option<Builtin> {
        match self.shared.registry.get(ColumnId(column)) {
            Some(Column::Builtin(builtin)) => Some(builtin),
            _ => None,
        }
    }
}

impl view::HostRequest for Guest {
    fn id(&mut self, _: Resource<RequestHandle>) -> String {
        self.request(|request| request.id.to_string())
    }

    fn api(&mut self, _: Resource<RequestHandle>) -> Api {
        match self.subject.request.as_ref().map_or(types::Api::Other, |request| request.api) {
            types::Api::Chat => Api::Chat,
            types::Api::Completions => Api::Completions,
            types::Api::Responses => Api::Responses,
            types::Api::Messages => Api::Messages,
            types::Api::Embeddings => Api::Embeddings,
            types::Api::Generate => Api::Generate,
            types::Api::Other => Api::Other,
        }
    }

    fn path(&mut self, _: Resource<RequestHandle>) -> String {
        self.request(|request| request.path.to_string())
    }

    fn model(&mut self, _: Resource<RequestHandle>) -> String {
        self.request(|request| request.model.to_string())
    }

    fn adapter(&mut self, _: Resource<RequestHandle>) -> Option<String> {
        self.request(|request| request.adapter.as_deref().map(str::to_owned))
    }

    fn tenant(&mut self, _: Resource<RequestHandle>) -> Option<String> {
        self.request(|request| request.tenant.as_deref().map(str::to_owned))
    }

    fn flow(&mut self, _: Resource<RequestHandle>) -> String {
        self.request(|request| request.flow.to_string())
    }

    fn priority(&mut self, _: Resource<RequestHandle>) -> i32 {
        self.request(|request| request.priority)
    }

    fn session(&mut self, _: Resource<RequestHandle>) -> Option<String> {
        self.request(|request| request.session.as_deref().map(str::to_owned))
    }

    fn turn(&mut self, _: Resource<RequestHandle>) -> u32 {
        self.request(|request| request.turn)
    }

    fn prompt_tokens(&mut self, _: Resource<RequestHandle>) -> u32 {
        self.request(|request| request.prompt_tokens)
    }

    fn prompt_tokens_exact(&mut self, _: Resource<RequestHandle>) -> bool {
        self.request(|request| request.prompt_tokens_exact)
    }

    fn prefix_keys(&mut self, _: Resource<RequestHandle>, max: u32) -> Vec<u64> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        self.request(|request| request.prefix_hashes().iter().take(max).copied().collect())
    }

    fn max_output_tokens(&mut self, _: Resource<RequestHandle>) -> Option<u32> {
        self.request(|request| request.max_output_tokens)
    }

    fn streaming(&mut self, _: Resource<RequestHandle>) -> bool {
        self.request(|request| request.streaming)
    }

    fn ttft_target(&mut self, _: Resource<RequestHandle>) -> Option<f32> {
        self.request(|request| request.ttft_target_ms)
    }

    fn ttl(&mut self, _: Resource<RequestHandle>) -> Option<u32> {
        self.request(|request| request.ttl_ms)
    }

    fn tpot_target(&mut self, _: Resource<RequestHandle>) -> Option<f32> {
        self.request(|request| request.tpot_target_ms)
    }

    fn age(&mut self, _: Resource<RequestHandle>) -> u32 {
        let now = self.now;
        self.request(|request| u32::try_from(now.saturating_sub(request.arrived) / MILLI).unwrap_or(u32::MAX))
    }

    fn header(&mut self, _: Resource<RequestHandle>, name: String) -> Option<String> {
        let name = name.to_ascii_lowercase();
        if !self.shared.grants.headers.iter().any(|granted| **granted == *name) {
            return None;
        }
        self.request(|request| {
            request.headers.get(&name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
    }

    fn body(&mut self, _: Resource<RequestHandle>) -> Option<Vec<u8>> {
        let granted = self.shared.grants.body;
        self.request(|request| granted.then(|| request.body.to_vec()))
    }

    fn drop(&mut self, _: Resource<RequestHandle>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl view::HostEndpoints for Guest {
    fn len(&mut self, _: Resource<EndpointsHandle>) -> u32 {
        self.subject.endpoints.as_ref().map_or(0, |view| u32::try_from(view.len()).unwrap_or(u32::MAX))
    }

    fn profile(&mut self, _: Resource<EndpointsHandle>) -> String {
        self.subject.endpoints.as_ref().map_or(types::Profile::Decode, |view| view.profile()).as_str().into()
    }

    fn ids(&mut self, _: Resource<EndpointsHandle>) -> Vec<u32> {
        self.subject.endpoints.as_ref().map(|view| view.ids()).unwrap_or_default()
    }

    fn keys(&mut self, _: Resource<EndpointsHandle>) -> Vec<u64> {
        self.subject.endpoints.as_ref().map(|view| view.keys()).unwrap_or_default()
    }

    fn column(&mut self, _: Resource<EndpointsHandle>, column: u32, missing: f32) -> Vec<f32> {
        let Some(view) = &self.subject.endpoints else { return Vec::new() };
        view.column(ColumnId(column), missing).unwrap_or_else(|| vec![missing; view.len()])
    }

    fn columns(&mut self, _: Resource<EndpointsHandle>, columns: Vec<(u32, f32)>) -> Vec<f32> {
        /// More columns than exist, so that a guest cannot make the host allocate without bound.
        const MOST: usize = 256;
        let Some(view) = &self.subject.endpoints else { return Vec::new() };
        let columns: Vec<_> =
            columns.into_iter().take(MOST).map(|(id, missing)| (ColumnId(id), missing)).collect();
        view.columns(&columns)
    }

    fn label(&mut self, _: Resource<EndpointsHandle>, position: u32, key: String) -> Option<String> {
        let view = self.subject.endpoints.as_ref()?;
        view.label(usize::try_from(position).ok()?, &key)
    }

    fn drop(&mut self, _: Resource<EndpointsHandle>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl view::HostFlows for Guest {
    fn len(&mut self, _: Resource<FlowsHandle>) -> u32 {
        self.subject.flows.as_ref().map_or(0, |flows| u32::try_from(flows.rows.len()).unwrap_or(u32::MAX))
    }

    fn ids(&mut self, _: Resource<FlowsHandle>) -> Vec<u32> {
        self.subject.flows.iter().flat_map(|flows| &flows.rows).map(|row| row.id).collect()
    }

    fn name(&mut self, _: Resource<FlowsHandle>, position: u32) -> String {
        let row =
            self.subject.flows.as_ref().and_then(|flows| flows.rows.get(usize::try_from(position).ok()?));
        row.map(|row| row.name.to_string()).unwrap_or_default()
    }

    fn column(&mut self, _: Resource<FlowsHandle>, column: u32, missing: f32) -> Vec<f32> {
        let column = self.builtin(column);
        let rows = self.subject.flows.iter().flat_map(|flows| &flows.rows);
        rows.map(|row| column.and_then(|column| row.value(column)).unwrap_or(missing)).collect()
    }

    fn drop(&mut self, _: Resource<FlowsHandle>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl view::HostEvents for Guest {
    fn len(&mut self, _: Resource<EventsHandle>) -> u32 {
        self.subject.events.as_ref().map_or(0, |events| u32::try_from(events.len()).unwrap_or(u32::MAX))
    }

    fn column(&mut self, _: Resource<EventsHandle>, column: u32, missing: f32) -> Vec<f32> {
        let column = self.builtin(column);
        let events = self.subject.events.iter().flat_map(|events| events.iter());
        events.map(|event| column.and_then(|column| event.value(column)).unwrap_or(missing)).collect()
    }

    fn request(&mut self, _: Resource<EventsHandle>, position: u32) -> String {
        let event =
            self.subject.events.as_ref().and_then(|events| events.get(usize::try_from(position).ok()?));
        event.map(|event| event.request.to_string()).unwrap_or_default()
    }

    fn drop(&mut self, _: Resource<EventsHandle>) -> wasmtime::Result<()> {
        Ok(())
    }
}
