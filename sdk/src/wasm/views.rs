//! The views over the host's handles.

use super::imports::view::{self, Endpoints, Events, Flows, Request};
use crate::{Api, Column, EndpointsView, EventsView, FlowsView, Profile, RequestView, Table};

fn position(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

impl RequestView for Request {
    fn id(&self) -> String {
        Self::id(self)
    }
    fn api(&self) -> Api {
        match Self::api(self) {
            view::Api::Chat => Api::Chat,
            view::Api::Completions => Api::Completions,
            view::Api::Responses => Api::Responses,
            view::Api::Messages => Api::Messages,
            view::Api::Embeddings => Api::Embeddings,
            view::Api::Generate => Api::Generate,
            view::Api::Other => Api::Other,
        }
    }
    fn path(&self) -> String {
        Self::path(self)
    }
    fn model(&self) -> String {
        Self::model(self)
    }
    fn adapter(&self) -> Option<String> {
        Self::adapter(self)
    }
    fn tenant(&self) -> Option<String> {
        Self::tenant(self)
    }
    fn flow(&self) -> String {
        Self::flow(self)
    }
    fn priority(&self) -> i32 {
        Self::priority(self)
    }
    fn session(&self) -> Option<String> {
        Self::session(self)
    }
    fn turn(&self) -> u32 {
        Self::turn(self)
    }
    fn prompt_tokens(&self) -> u32 {
        Self::prompt_tokens(self)
    }
    fn prompt_tokens_exact(&self) -> bool {
        Self::prompt_tokens_exact(self)
    }
    fn prefix_keys(&self, max: u32) -> Vec<u64> {
        Self::prefix_keys(self, max)
    }
    fn max_output_tokens(&self) -> Option<u32> {
        Self::max_output_tokens(self)
    }
    fn streaming(&self) -> bool {
        Self::streaming(self)
    }
    fn ttft_target(&self) -> Option<f32> {
        Self::ttft_target(self)
    }
    fn ttl_ms(&self) -> Option<u32> {
        Self::ttl(self)
    }
    fn tpot_target(&self) -> Option<f32> {
        Self::tpot_target(self)
    }
    fn age_ms(&self) -> u32 {
        Self::age(self)
    }
    fn header(&self, name: &str) -> Option<String> {
        Self::header(self, name)
    }
    fn body(&self) -> Option<Vec<u8>> {
        Self::body(self)
    }
}

impl EndpointsView for Endpoints {
    fn len(&self) -> usize {
        Self::len(self) as usize
    }
    fn profile(&self) -> Profile {
        Profile::from_name(&Self::profile(self))
    }
    fn ids(&self) -> Vec<u32> {
        Self::ids(self)
    }
    fn keys(&self) -> Vec<u64> {
        Self::keys(self)
    }
    fn column(&self, column: Column) -> Vec<f32> {
        Self::column(self, column.id(), column.missing())
    }
    fn columns(&self, columns: &[Column]) -> Table {
        let columns: Vec<_> = columns.iter().map(|column| (column.id(), column.missing())).collect();
        Table::new(EndpointsView::len(self), Self::columns(self, &columns))
    }
    fn label(&self, at: usize, key: &str) -> Option<String> {
        Self::label(self, position(at), key)
    }
}

impl FlowsView for Flows {
    fn len(&self) -> usize {
        Self::len(self) as usize
    }
    fn ids(&self) -> Vec<u32> {
        Self::ids(self)
    }
    fn name(&self, at: usize) -> String {
        Self::name(self, position(at))
    }
    fn column(&self, column: Column) -> Vec<f32> {
        Self::column(self, column.id(), column.missing())
    }
}

impl EventsView for Events {
    fn len(&self) -> usize {
        Self::len(self) as usize
    }
    fn column(&self, column: Column) -> Vec<f32> {
        Self::column(self, column.id(), column.missing())
    }
    fn request(&self, at: usize) -> String {
        Self::request(self, position(at))
    }
}
