//! Who is at the other end: which client that is, and what it can do.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::{Peer, RequestContext};

use super::Mcp;
use crate::call::ClientFeature;
use crate::id::RunId;
use crate::ledger::{ClientFacts, TaskFacts};

/// How runs of this surface name it.
const SURFACE: &str = "mcp";
/// The only client there can be on standard input.
const ON_STDIO: &str = "stdio";
/// Whoever can reach the port, where nobody needs a token.
const ANYBODY: &str = "anybody";

/// How a client is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// On standard input and output.
    Stdio,
    /// Over HTTP.
    Http,
}

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
    pub(super) fn of(mcp: &Mcp, cx: &RequestContext<RoleServer>) -> Self {
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
            id: id(mcp, cx),
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

/// What tells clients apart: the way that they came, and the token that they brought. Whoever has another one is another
/// client.
fn id(mcp: &Mcp, cx: &RequestContext<RoleServer>) -> String {
    if mcp.way() == Way::Stdio {
        return ON_STDIO.to_owned();
    }
    let Some(head) = cx.extensions.get::<http::request::Parts>() else {
        // Nobody knows who that is, so it is nobody who was there before.
        return RunId::generate().to_string();
    };
    id_of(mcp, &head.headers)
}

/// The same of a client over HTTP, by the head of its request.
pub(super) fn id_of(mcp: &Mcp, headers: &HeaderMap) -> String {
    let field = headers.get(AUTHORIZATION);
    let token = field.and_then(|field| {
        let (scheme, token) = field.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    token.map_or_else(
        || ANYBODY.to_owned(),
        |token| format!("token:{}", mcp.states().name_of(token)),
    )
}
