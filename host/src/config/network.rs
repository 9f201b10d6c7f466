//! Networks of addresses.

use std::fmt;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

/// Bits before an IPv4 address that is written as one of IPv6.
const MAPPED: u32 = 96;

/// Addresses with the same first bits. Written `ADDRESS/BITS`, or `ADDRESS` for a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    first: u128,
    bits: u32,
    written: Box<str>,
}

impl Network {
    /// Reads `ADDRESS` or `ADDRESS/BITS`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "a network is written `10.0.0.0/8`, `fd00::/8`, or as a single address";
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| FORM)?;
        let before = if address.is_ipv4() { MAPPED } else { 0 };
        let bits = match bits {
            Some(bits) => bits.parse::<u32>().map_err(|_| FORM)? + before,
            None => u128::BITS,
        };
        if bits > u128::BITS {
            return Err(FORM);
        }
        Ok(Self { first: number(address) & mask(bits), bits, written: text.into() })
    }

    /// Whether this address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        number(address) & mask(self.bits) == self.first
    }
}

/// An IPv4 address is the same whether it came through a socket of IPv4 or of IPv6.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(u128::BITS - bits).unwrap_or(0)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_their_networks() {
        for (network, address, within) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3/8", "10.0.0.0", true),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("fd00::/8", "fdff::1", true),
            ("::/0", "10.0.0.1", true),
            ("::1", "::1", true),
        ] {
            let network = Network::parse(network).unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), within, "{network} {address}");
        }
        for text in ["", "10.0.0.0/33", "fd00::/129", "a/8", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8"] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }
}
