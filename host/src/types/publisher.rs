//! Where an engine's reports about its KV cache come from.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// `tcp://HOST:PORT`, as ZeroMQ writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpAddress {
    /// Name or address; an IPv6 address without its brackets; `*` for all of a machine's.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

impl TcpAddress {
    /// Reads `tcp://HOST:PORT`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "an address is written `tcp://HOST:PORT`";
        let (host, port) = text.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':')).ok_or(FORM)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let valid = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains(|c: char| c == ':' || c == '/' || c.is_whitespace()),
        };
        match port.parse() {
            Ok(port) if valid && port != 0 => Ok(Self { host: bare.unwrap_or(host).into(), port }),
            _ => Err(FORM),
        }
    }

    /// Whether it stands for all addresses of a machine, so that nobody can connect to it.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        matches!(&*self.host, "*" | "0.0.0.0" | "::")
    }

    /// The same host so many ports further on.
    #[must_use]
    pub fn further(&self, ports: u16) -> Option<Self> {
        Some(Self { host: self.host.clone(), port: self.port.checked_add(ports)? })
    }
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp://{}", super::host_port(&self.host, self.port))
    }
}

impl Serialize for TcpAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which side of a connection listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// The publisher; we connect to it.
    Connect(TcpAddress),
    /// We; the publisher connects to us.
    Bind(TcpAddress),
}

/// One socket from which reports come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    /// How it is reached.
    pub attach: Attach,
    /// Where it can be asked for what was missed.
    pub replay: Option<TcpAddress>,
    /// With what the first frame of its messages begins.
    pub topic: Box<str>,
}

/// What is configured of an endpoint's reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSource {
    /// The publisher of the first data-parallel rank.
    pub first: Publisher,
    /// Data-parallel ranks; each has a publisher one port further on.
    pub ranks: u16,
}

impl EventSource {
    /// The publishers of all ranks.
    #[must_use]
    pub fn publishers(&self) -> Vec<Publisher> {
        (0..self.ranks).filter_map(|rank| self.first.of_rank(rank)).collect()
    }
}

impl Publisher {
    fn of_rank(&self, rank: u16) -> Option<Self> {
        let attach = match &self.attach {
            Attach::Connect(address) => Attach::Connect(address.further(rank)?),
            Attach::Bind(address) => Attach::Bind(address.further(rank)?),
        };
        let replay = match &self.replay {
            Some(address) => Some(address.further(rank)?),
            None => None,
        };
        Some(Self { attach, replay, topic: self.topic.clone() })
    }
}

impl Serialize for EventSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Publisher { attach, replay, topic } = &self.first;
        let mut map = serializer.serialize_map(None)?;
        match attach {
            Attach::Connect(address) => map.serialize_entry("connect", address)?,
            Attach::Bind(address) => map.serialize_entry("bind", address)?,
        }
        if let Some(replay) = replay {
            map.serialize_entry("replay", replay)?;
        }
        map.serialize_entry("topic", topic)?;
        map.serialize_entry("ranks", &self.ranks)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["tcp://127.0.0.1:5557", "tcp://*:1", "tcp://[::1]:9", "tcp://pod-1.svc:65535"] {
            assert_eq!(TcpAddress::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["", "127.0.0.1:1", "tcp://a", "tcp://:1", "tcp://a:0", "tcp://a:x", "tcp://a b:1", "tcp://::1:1"]
        {
            assert!(TcpAddress::parse(text).is_err(), "{text}");
        }
        assert!(TcpAddress::parse("tcp://*:1").unwrap().is_wildcard());
    }

    #[test]
    fn each_rank_has_a_publisher_one_port_further_on() {
        let address = |text| TcpAddress::parse(text).unwrap();
        let first = Publisher {
            attach: Attach::Bind(address("tcp://*:65534")),
            replay: Some(address("tcp://a:10")),
            topic: "".into(),
        };
        let all = EventSource { first, ranks: 3 }.publishers();
        assert_eq!(all.len(), 2, "beyond the last port there is none");
        assert_eq!(all[1].attach, Attach::Bind(address("tcp://*:65535")));
        assert_eq!(all[1].replay, Some(address("tcp://a:11")));
    }
}
