//! Who asks, and what they may.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::answer::{Answer, error};
use super::guard;
use crate::config::{AdminToken, KeyHash, Right, SecretError};

/// The tokens in force. Without any, whoever reaches the listener may read, and change things from this machine.
#[derive(Debug, Default)]
pub struct Access(Vec<Token>);

#[derive(Debug)]
struct Token {
    name: Box<str>,
    hash: KeyHash,
    may: Right,
}

/// Why somebody may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denied {
    /// Nothing shows who asks.
    Unknown,
    /// The token of this name is good for less.
    ReadOnly(Box<str>),
    /// It comes from where it must not.
    Elsewhere(&'static str),
}

impl Access {
    /// Reads the tokens that a configuration names.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn of(tokens: &[AdminToken]) -> Result<Self, SecretError> {
        read(tokens).map(Self)
    }

    /// Whose request with these headers it is: a token's name, or `loopback` where there are none.
    pub(super) fn who(&self, headers: &HeaderMap, right: Right) -> Result<Box<str>, Denied> {
        let tokens = &self.0;
        if tokens.is_empty() {
            if right == Right::Operate {
                guard::may_write(headers).map_err(Denied::Elsewhere)?;
            }
            return Ok("loopback".into());
        }
        let shown = shown(headers).ok_or(Denied::Unknown)?;
        // All are compared, so that the time does not tell which one it is near to.
        let known =
            tokens.iter().fold(None, |known, token| if token.hash == shown { Some(token) } else { known });
        let token = known.ok_or(Denied::Unknown)?;
        if token.may < right {
            return Err(Denied::ReadOnly(token.name.clone()));
        }
        if right == Right::Operate {
            // A browser sends a password that it knows along with what the page of another origin asks for.
            guard::same_origin(headers).map_err(Denied::Elsewhere)?;
        }
        Ok(token.name.clone())
    }
}

fn read(tokens: &[AdminToken]) -> Result<Vec<Token>, SecretError> {
    let token = |config: &AdminToken| {
        Ok(Token { name: config.name.clone(), hash: config.token.token()?, may: config.may })
    };
    tokens.iter().map(token).collect()
}

/// The hash of the token that is shown: as a bearer, or as the password of any user, which browsers can ask for.
fn shown(headers: &HeaderMap) -> Option<KeyHash> {
    let (scheme, rest) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(KeyHash::of(rest.trim()));
    }
    let decoded = STANDARD.decode(rest.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let (_user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some(KeyHash::of(password))
}

impl Denied {
    /// What is answered.
    pub(super) fn answer(&self) -> Answer {
        match self {
            Self::Unknown => {
                let message = "a token is needed: send one as `authorization: Bearer TOKEN`, or as the password of any user";
                let mut answer = error(StatusCode::UNAUTHORIZED, message);
                for scheme in ["Bearer", "Basic realm=\"sluicegate\""] {
                    answer.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
                }
                answer
            }
            Self::ReadOnly(name) => {
                let message = format!("the token `{name}` may read; this takes one that may operate");
                error(StatusCode::FORBIDDEN, message)
            }
            Self::Elsewhere(why) => error(StatusCode::FORBIDDEN, *why),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn who(access: &Access, right: Right, pairs: &[(&'static str, &str)]) -> Result<Box<str>, Denied> {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        access.who(&pairs.iter().map(header).collect(), right)
    }

    #[test]
    fn a_token_is_good_for_what_it_says_from_anywhere_but_a_foreign_page() {
        let token = |name: &str, may| Token { name: name.into(), hash: KeyHash::of(name), may };
        let access = Access(vec![token("see", Right::Read), token("do", Right::Operate)]);
        let basic = format!("Basic {}", STANDARD.encode("anybody:do"));
        for shown in ["Bearer do", &basic] {
            assert_eq!(
                who(&access, Right::Operate, &[("authorization", shown), ("host", "a.b:1")]),
                Ok("do".into())
            );
            let own = [("authorization", shown), ("host", "a.b:1"), ("origin", "https://a.b:1")];
            assert_eq!(who(&access, Right::Operate, &own), Ok("do".into()));
            let foreign = [("authorization", shown), ("host", "a.b:1"), ("origin", "https://c.d")];
            assert!(matches!(who(&access, Right::Operate, &foreign), Err(Denied::Elsewhere(_))));
        }
        assert_eq!(who(&access, Right::Read, &[("authorization", "bearer see")]), Ok("see".into()));
        assert_eq!(
            who(&access, Right::Operate, &[("authorization", "Bearer see")]),
            Err(Denied::ReadOnly("see".into()))
        );
        for shown in ["Bearer x", "Bearer ", "do", "Basic do", "Basic !!", "Digest do"] {
            assert_eq!(
                who(&access, Right::Read, &[("authorization", shown)]),
                Err(Denied::Unknown),
                "{shown}"
            );
        }
        assert_eq!(who(&access, Right::Read, &[("host", "localhost")]), Err(Denied::Unknown));
    }

    #[test]
    fn without_tokens_this_machine_may_change_things() {
        let access = Access::default();
        assert_eq!(who(&access, Right::Read, &[]), Ok("loopback".into()));
        assert_eq!(who(&access, Right::Operate, &[("host", "localhost:1")]), Ok("loopback".into()));
        assert!(who(&access, Right::Operate, &[("host", "a.b")]).is_err());
    }
}
