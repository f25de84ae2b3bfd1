//! What a child was told of its client, which it believes for as long as it lives: servers lock one era of MCP for each process, and
//! in the older one what they offer may depend on the client's version and capabilities. Sessions share a child only if it would be
//! told the same by each.

use nostray_rpc::find;
use serde_json::Value;

use super::edits::Token;
use super::sessions::Elsewhere;

/// What a request needs the child to have been told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Need {
    /// A handshake of the older era.
    Legacy { version: String, capabilities: Value },
    /// Nothing but requests of the newer era.
    Modern,
}

impl Need {
    /// Of an `initialize`.
    pub(super) fn of_initialize(params: Option<&[u8]>) -> Self {
        let member = |name| params.and_then(|params| find(params, &[name]).map(|at| &params[at]));
        let version = member("protocolVersion").and_then(|json| serde_json::from_slice(json).ok());
        let capabilities = member("capabilities").and_then(|json| serde_json::from_slice(json).ok());
        Self::Legacy { version: version.unwrap_or_default(), capabilities: capabilities.unwrap_or_default() }
    }

    /// What stands in place of the capabilities that a session wrote, so that the child reads the ones which were understood here:
    /// sessions that say the same share what it makes of them.
    pub(super) fn capabilities(&self) -> Option<Token> {
        match self {
            Self::Legacy { capabilities, .. } => Some(Token::new(capabilities.to_string().as_bytes())),
            Self::Modern => None,
        }
    }

    pub(super) fn is_legacy(&self) -> bool {
        matches!(self, Self::Legacy { .. })
    }

    /// A name that is equal for all sessions that need the same.
    pub(super) fn variant(&self) -> String {
        match self {
            // Members of objects are sorted.
            Self::Legacy { version, capabilities } => format!("{version} {capabilities}"),
            Self::Modern => "modern".to_owned(),
        }
    }

    /// Why a session that needs this cannot share a child that was told something else.
    fn against(&self, told: &Self) -> String {
        match (self, told) {
            (Self::Legacy { version, .. }, Self::Legacy { version: told, .. }) if version != told => {
                format!("it speaks {version} and the shared child was told {told}")
            }
            (Self::Legacy { .. }, Self::Legacy { .. }) => {
                "its capabilities are not those that the shared child was told".to_owned()
            }
            (Self::Legacy { version, .. }, Self::Modern) => {
                format!("it speaks {version} and the shared child is used without a handshake, as newer clients do")
            }
            (Self::Modern, Self::Legacy { version, .. }) => {
                format!("it speaks without a handshake, as newer clients do, and the shared child was told {version}")
            }
            (Self::Modern, Self::Modern) => String::new(),
        }
    }
}

/// What the child was told.
#[derive(Debug, Default)]
pub(super) enum Claim {
    /// Nothing yet.
    #[default]
    Unclaimed,
    /// This, but it has not agreed yet.
    Tentative {
        need: Need,
        /// The call that tells it.
        by: i64,
    },
    /// This.
    Settled(Need),
}

/// How a need and a claim go together.
pub(super) enum Fit {
    /// No session has claimed anything.
    Free,
    /// They are the same, and that is settled.
    Same,
    /// They are the same, if the child agrees.
    Likely,
    /// That is to be seen.
    Open,
    /// They are not.
    Other(Elsewhere),
}

impl Claim {
    pub(super) fn fits(&self, need: &Need) -> Fit {
        match self {
            Self::Unclaimed => Fit::Free,
            Self::Tentative { need: told, .. } if told == need => Fit::Likely,
            Self::Tentative { .. } => Fit::Open,
            Self::Settled(told) if told == need => Fit::Same,
            Self::Settled(told) => Fit::Other(Elsewhere { variant: need.variant(), why: need.against(told) }),
        }
    }

    /// The call that is to tell it.
    pub(super) fn by(&self) -> Option<i64> {
        match self {
            Self::Tentative { by, .. } => Some(*by),
            Self::Unclaimed | Self::Settled(_) => None,
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        matches!(self, Self::Tentative { need: Need::Modern, .. } | Self::Settled(Need::Modern))
    }

    /// Whether it cannot change any more.
    pub(super) fn settled(&self) -> Option<&Need> {
        match self {
            Self::Settled(need) => Some(need),
            Self::Unclaimed | Self::Tentative { .. } => None,
        }
    }

    /// The child has agreed, if that was open.
    pub(super) fn settle(&mut self) {
        *self = match std::mem::take(self) {
            Self::Tentative { need, .. } => Self::Settled(need),
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_makes_no_difference() {
        let one = Need::of_initialize(Some(
            br#"{"protocolVersion":"2025-06-18","capabilities":{"b":1,"a":{"y":2,"x":3}}}"#,
        ));
        let two = Need::of_initialize(Some(
            br#"{"capabilities":{"a":{"x":3,"y":2},"b":1},"protocolVersion":"2025-06-18"}"#,
        ));
        assert_eq!(one, two);
        assert_eq!(one.variant(), r#"2025-06-18 {"a":{"x":3,"y":2},"b":1}"#);
        assert_eq!(two.variant(), one.variant());
    }
}
