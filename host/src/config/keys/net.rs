//! Keys of how the proxy is reached and reaches others.

use super::Kind::{Flag, Text};
use super::{Section, key, optional, required};

/// `[tls]`
pub static TLS: Section = Section {
    title: "[tls]",
    keys: &[
        required(
            "cert",
            Text,
            "PEM file of the certificate, followed by those that vouch for it; relative to this file. It is read again when \
             it changes.",
        ),
        required("key", Text, "PEM file of its key."),
        optional(
            "client_ca",
            Text,
            "PEM file of those who vouch for clients. With it clients without such a certificate are not served.",
        ),
    ],
};

/// `[pool.tls]`
pub static POOL_TLS: Section = Section {
    title: "[pool.tls]",
    keys: &[
        optional(
            "ca",
            Text,
            "PEM file of those who vouch for https endpoints; relative to this file. None: those whom browsers believe.",
        ),
        optional("cert", Text, "PEM file of the certificate that endpoints are shown."),
        optional("key", Text, "PEM file of its key."),
        optional("server_name", Text, "The name that certificates must have. None: the endpoint's host."),
        key("verify", Flag, "true", "Whether certificates are looked at; false believes whoever answers."),
    ],
};
