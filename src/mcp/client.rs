//! Who is at the other end: which client that is, and what it can do.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::{Peer, RequestContext};

use crate::call::ClientFeature;
use crate::ledger::{ClientFacts, Digest, TaskFacts};

/// How runs of this surface name it.
const SURFACE: &str = "mcp";
/// The only client there can be on standard input.
const ON_STDIO: &str = "stdio";
/// Whoever can reach the port, where nobody needs a token.
const ANYBODY: &str = "anybody";

/// The client of one request.
#[derive(Clone)]
pub(super) struct Client {
    id: String,
    features: Vec<ClientFeature>,
    is_stateless: bool,
    knows_tasks: bool,
    peer: Peer<RoleServer>,
}

impl Client {
    /// Whoever sent the request.
    pub(super) fn of(cx: &RequestContext<RoleServer>) -> Self {
        let capabilities = cx.client_capabilities().unwrap_or_default();
        let can = |feature: &ClientFeature| match feature {
            // A form is what there is to fill in unless the client says that it only opens addresses.
            ClientFeature::Elicitation => capabilities
                .elicitation
                .as_ref()
                .is_some_and(|can| can.form.is_some() || can.url.is_none()),
            ClientFeature::Sampling => capabilities.sampling.is_some(),
            ClientFeature::Roots => capabilities.roots.is_some(),
        };
        let version = cx.protocol_version();
        Self {
            id: id(cx),
            features: ClientFeature::ALL.into_iter().filter(can).collect(),
            is_stateless: version
                .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str()),
            knows_tasks: capabilities.supports_tasks(),
            peer: cx.peer.clone(),
        }
    }

    /// Which one it is.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn can(&self, feature: ClientFeature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether it is told of questions in the answer to its request.
    pub(super) fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    pub(super) fn knows_tasks(&self) -> bool {
        self.knows_tasks
    }

    pub(super) fn peer(&self) -> &Peer<RoleServer> {
        &self.peer
    }

    /// What a run of it has on record of it.
    pub(super) fn facts(&self, request_digest: &str, task: Option<TaskFacts>) -> ClientFacts {
        ClientFacts {
            surface: SURFACE.to_owned(),
            id: self.id.clone(),
            request_digest: request_digest.to_owned(),
            features: self.features.clone(),
            is_stateless: self.is_stateless,
            task,
        }
    }

    /// Whether a run is of this client, and so its to answer, ask after and cancel.
    pub(super) fn owns(&self, facts: &ClientFacts) -> bool {
        facts.surface == SURFACE && facts.id == self.id
    }
}

fn id(cx: &RequestContext<RoleServer>) -> String {
    let head = cx.extensions.get::<http::request::Parts>();
    head.map_or_else(|| ON_STDIO.to_owned(), |head| id_of(&head.headers))
}

/// The digest of the token that a client brought, so that whoever has another one is another client.
pub(super) fn id_of(headers: &HeaderMap) -> String {
    let Some(given) = headers.get(AUTHORIZATION) else {
        return ANYBODY.to_owned();
    };
    let given = given.as_bytes();
    // The scheme is spelled in more ways than one.
    let token = given.iter().position(|&byte| byte == b' ');
    let token = token.and_then(|at| given.get(at..)).unwrap_or(given);
    format!("token:{}", Digest::of(token.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    use super::id_of;

    fn id(authorization: &'static str) -> String {
        let value = HeaderValue::from_static(authorization);
        id_of(&HeaderMap::from_iter([(AUTHORIZATION, value)]))
    }

    #[test]
    fn a_client_is_its_token_however_that_is_spelled() {
        let one = id("Bearer 0123456789abcdef");
        assert_eq!(id("bearer  0123456789abcdef "), one);
        assert_ne!(id("Bearer 0123456789abcdeg"), one);
        assert_ne!(id_of(&HeaderMap::new()), one);
        assert!(!one.contains("0123456789abcdef"), "{one}");
    }
}
