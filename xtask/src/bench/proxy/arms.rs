//! What is measured: proxies that pass requests on as they come, and routers that look for cached prefixes.

use std::path::Path;

use super::{ENGINES, PROXY_CPU, address, free_ports, text, written};
use crate::bench::nginx;
use crate::bench::process::Server;
use crate::bench::routers::{self, Place, Router};
use crate::error::Error;
use crate::machine::{HAPROXY, NGINX};
use crate::workspace::Workspace;

/// One of them.
pub(super) struct Arm {
    pub(super) name: &'static str,
    kind: Kind,
}

enum Kind {
    Nginx,
    Haproxy,
    Envoy,
    Router(Router),
}

/// All of them; the first is what the others are told against.
pub(super) static ARMS: [Arm; 9] = [
    Arm { name: "nginx", kind: Kind::Nginx },
    Arm { name: "haproxy", kind: Kind::Haproxy },
    Arm { name: "envoy", kind: Kind::Envoy },
    router(routers::WITHOUT_POLICIES),
    router(routers::OURS),
    router(routers::NATIVE),
    router(routers::SGLANG),
    router(routers::VLLM),
    router(routers::SMG),
];

const fn router(router: Router) -> Arm {
    Arm { name: router.name, kind: Kind::Router(router) }
}

impl Arm {
    /// Whether it is installed with the packages of others.
    pub(super) fn is_a_package(&self) -> bool {
        match &self.kind {
            Kind::Nginx | Kind::Haproxy => false,
            Kind::Envoy => true,
            Kind::Router(router) => router.is_a_package(),
        }
    }

    /// Whether it is ours with the default plugins compiled in.
    pub(super) fn is_native(&self) -> bool {
        matches!(&self.kind, Kind::Router(router) if router.is_native())
    }

    /// Starts it in front of engines at these ports; says where it listens.
    pub(super) fn start(
        &self,
        workspace: &Workspace,
        peers: Option<&Path>,
        engines: &[u16],
    ) -> Result<(Server, u16), Error> {
        let folder = workspace.made("bench").join(self.name.replace([' ', ','], "-"));
        let ports: [u16; 3] = free_ports(3)?.try_into().unwrap_or_default();
        let program = &workspace.dist("sluicegate");
        let place = Place { program, peers, folder: &folder, ports, cpu: Some(PROXY_CPU) };
        let [listen, ..] = ports;
        let server = match &self.kind {
            Kind::Nginx => {
                let file = nginx::round_robin(&folder, listen, engines)?;
                place.start(&[NGINX.ensure()?.to_owned(), "-c".into(), text(&file)])?
            }
            Kind::Haproxy => {
                let file = written(&folder, "haproxy.cfg", &haproxy(listen, engines))?;
                place.start(&[HAPROXY.ensure()?.to_owned(), "-f".into(), text(&file)])?
            }
            Kind::Envoy => {
                let file = written(&folder, "envoy.yaml", &envoy(listen, engines))?;
                let program = peers.map(|bin| bin.join("envoy")).unwrap_or_default();
                let flags =
                    ["-c", &text(&file), "--concurrency", "1", "-l", "error", "--disable-hot-restart"];
                let command = [text(&program)].into_iter().chain(flags.map(str::to_owned));
                place.start(&command.collect::<Vec<_>>())?
            }
            Kind::Router(router) => {
                let urls = engines.iter().map(|port| format!("http://{}", address(*port))).collect();
                let none = || Error::Usage(format!("{} is no server", self.name));
                router.start(&place, urls)?.server.ok_or_else(none)?
            }
        };
        Ok((server, listen))
    }
}

/// One thread, connections to the engines kept.
fn haproxy(listen: u16, engines: &[u16]) -> String {
    let servers: String = (0..ENGINES)
        .zip(engines)
        .map(|(n, port)| format!(" server e{n} 127.0.0.1:{port} pool-max-conn 1024\n"))
        .collect();
    format!(
        "global\n nbthread 1\n maxconn 8192\ndefaults\n mode http\n option http-keep-alive\n http-reuse always\n \
         timeout client 300s\n timeout server 300s\n timeout connect 5s\nfrontend f\n bind 127.0.0.1:{listen}\n \
         default_backend engines\nbackend engines\n balance roundrobin\n{servers}"
    )
}

fn envoy(listen: u16, engines: &[u16]) -> String {
    let at =
        |port: &u16| format!("{{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}");
    let endpoints: Vec<_> = engines.iter().map(|port| format!("{{endpoint: {}}}", at(port))).collect();
    let of = "type.googleapis.com/envoy.extensions.filters";
    format!(
        "static_resources:\n listeners:\n - {listener}\n   filter_chains:\n   - filters:\n     - name: hcm\n       \
         typed_config:\n         \"@type\": {of}.network.http_connection_manager.v3.HttpConnectionManager\n         \
         stat_prefix: x\n         route_config: {{name: r, virtual_hosts: [{{name: v, domains: [\"*\"], routes: \
         [{{match: {{prefix: \"/\"}}, route: {{cluster: engines, timeout: 300s}}}}]}}]}}\n         http_filters:\n         \
         - name: envoy.filters.http.router\n           typed_config: {{\"@type\": {of}.http.router.v3.Router}}\n \
         clusters:\n - name: engines\n   type: STATIC\n   lb_policy: ROUND_ROBIN\n   load_assignment: \
         {{cluster_name: engines, endpoints: [{{lb_endpoints: [{endpoints}]}}]}}\n   circuit_breakers: \
         {{thresholds: [{{max_connections: 8192, max_pending_requests: 8192, max_requests: 8192}}]}}\n",
        listener = at(&listen).trim_start_matches('{').trim_end_matches('}').to_owned() + "}}",
        endpoints = endpoints.join(", "),
    )
}
