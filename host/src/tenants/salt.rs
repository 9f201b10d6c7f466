//! Cache salts of tenants.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The salt of a tenant's prompts, the same in every replica. It depends on nothing but the two texts, and no two
/// pairs of them have one in common.
pub(super) fn salt(tenant: &str, client: Option<&str>) -> Box<str> {
    let mut hash = Sha256::new();
    hash.update(b"sluicegate tenant\0");
    for text in [Some(tenant), client].into_iter().flatten() {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    URL_SAFE_NO_PAD.encode(hash.finalize()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salts_are_apart_and_the_same_everywhere() {
        let salts = [
            salt("a", None),
            salt("b", None),
            salt("a", Some("x")),
            salt("b", Some("x")),
            salt("a", Some("")),
        ];
        for (i, one) in salts.iter().enumerate() {
            assert!(salts.iter().skip(i + 1).all(|other| other != one));
        }
        assert_eq!(&*salt("a", None), "PQJIpwaS-3C7qTnQR7l_Jtvf_FdsxDXIyxktpyCnmSI");
    }
}
