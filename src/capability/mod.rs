//! What a skill may ask for: the grammar of capabilities, one line each, the same in a manifest, in a
//! grant, in a ledger and on a screen.
//!
//! Parsing normalises, so that two capabilities that mean the same thing are equal and print the same.
//! Whatever could be read in two ways (a path with `..`, a host that is a number in disguise, a method
//! in lower case) is refused instead of being interpreted.

mod address;
mod grammar;
mod path;
mod policy;
mod request;
mod skill_name;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use address::address_class;
pub use policy::{Grant, GrantSource, Policy, model_matches, tool_matches};
pub use request::{RequestDenied, Target, TargetError};
pub use skill_name::{SkillName, SkillNameError};

/// Bytes of one capability as text. The longest honest one holds two paths; the bound protects
/// screens and ledgers, which show every capability whole.
const CAPABILITY_BYTES_MAX: usize = 4096;

/// The host folder of a request that leaves it to the operator which folder that is.
pub(crate) const HOST_DIR_ANY: &str = "*";

/// One thing that a skill asks for or that an operator grants.
///
/// It is made by parsing; text that breaks a rule below does not become a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Capability {
    /// `fs:ro:<host dir>=<guest dir>` or `fs:rw:…`: one folder of the host, seen under another path.
    /// The last `=` divides, so a host folder may have one in its name and a guest folder may not. A
    /// skill that cannot know the host's folders asks for `fs:ro:*=<guest dir>`, and a grant says which
    /// folder that is.
    Fs {
        /// Whether the guest may change what it sees.
        access: FsAccess,
        /// The folder on the host: an absolute path without `.`, `..` or an empty part, or `*`.
        host_dir: String,
        /// Where the guest sees it, in the same form.
        guest_dir: String,
    },
    /// `env:NAME`: one variable of the host's environment.
    Env {
        /// A letter or `_`, then letters, digits and `_`.
        name: String,
    },
    /// `secret:NAME`: one secret, which the host puts into outgoing requests.
    Secret {
        /// A letter or `_`, then letters, digits and `_`.
        name: String,
    },
    /// `net:https://host[:port]/path-prefix#GET,POST`: requests to one place.
    Net(NetRule),
    /// `tool:server__name`: tools; a `*` stands for any characters.
    Tool {
        /// The pattern: letters, digits, `_`, `-`, `.` and `*`.
        pattern: String,
    },
    /// `llm:provider/model`: language models; a `*` stands for any characters, in either of the two.
    Llm {
        /// Who serves the model: a pattern of lower-case letters, digits, `-`, `.`, `_` and `*`.
        provider: String,
        /// The model, as that provider spells it, or a pattern of such names.
        model: String,
    },
    /// `skill:name`: handing work to one other skill.
    Skill {
        /// The other skill.
        name: SkillName,
    },
    /// `approval`: asking a person.
    Approval,
}

/// What a guest may do in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsAccess {
    /// `ro`: list and read.
    ReadOnly,
    /// `rw`: also make, write, rename and remove.
    ReadWrite,
}

/// Where requests may go, and with which methods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetRule {
    /// With or without TLS.
    pub scheme: Scheme,
    /// A DNS name in lower case, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// The port, 1 to 65535; the scheme's own when the text names none.
    pub port: u16,
    /// What the path must start with: it begins with `/` and has no `.`, `..` or empty part.
    pub path_prefix: String,
    /// The methods, at least one.
    pub methods: BTreeSet<Method>,
}

impl NetRule {
    /// The address, where the host is one and not a name.
    pub fn address(&self) -> Option<IpAddr> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.parse().ok()
    }
}

/// The scheme of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// `https`, port 443 unless told otherwise.
    Https,
    /// `http`, port 80 unless told otherwise.
    Http,
}

impl Scheme {
    const ALL: [Self; 2] = [Self::Https, Self::Http];

    /// As it stands before `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// The port that a URL without one means.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// The methods that can be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
}

impl Method {
    const ALL: [Self; 7] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
        Self::Options,
    ];

    /// As it stands in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fs {
                access,
                host_dir,
                guest_dir,
            } => {
                write!(f, "fs:{}:{host_dir}={guest_dir}", access.as_str())
            }
            Self::Env { name } => write!(f, "env:{name}"),
            Self::Secret { name } => write!(f, "secret:{name}"),
            Self::Net(rule) => write!(f, "net:{rule}"),
            Self::Tool { pattern } => write!(f, "tool:{pattern}"),
            Self::Llm { provider, model } => write!(f, "llm:{provider}/{model}"),
            Self::Skill { name } => write!(f, "skill:{name}"),
            Self::Approval => f.write_str("approval"),
        }
    }
}

impl fmt::Display for NetRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path_prefix)?;
        for (index, method) in self.methods.iter().enumerate() {
            let separator = if index == 0 { '#' } else { ',' };
            write!(f, "{separator}{}", method.as_str())?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Capability {
    type Error = CapabilityError;

    fn try_from(text: String) -> Result<Self, CapabilityError> {
        text.parse()
    }
}

impl From<Capability> for String {
    fn from(capability: Capability) -> Self {
        capability.to_string()
    }
}

impl Capability {
    /// Whether it can be given away: it names one thing, and leaves nothing for an operator to choose.
    pub fn is_grantable(&self) -> bool {
        !matches!(self, Self::Fs { host_dir, .. } if host_dir == HOST_DIR_ANY)
    }
}

/// Why a text is not a capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// What stands before the first colon names no kind of capability.
    #[error(
        "unknown capability {given:?}: expected fs:, env:, secret:, net:, tool:, llm:, skill: or approval"
    )]
    UnknownKind {
        /// The text, cut after 80 characters.
        given: String,
    },
    /// The text is longer than any capability may be.
    #[error("capability of {bytes} bytes: expected at most {CAPABILITY_BYTES_MAX}")]
    TooLong {
        /// Its size.
        bytes: usize,
    },
    /// The kind is known and what follows breaks its rules.
    #[error("malformed capability {given:?}: expected {expected} at character {column}")]
    Malformed {
        /// The text, cut after 80 characters.
        given: String,
        /// The first character that is wrong, counted from 1; one past the end when something is
        /// missing there.
        column: usize,
        /// What should stand there.
        expected: &'static str,
    },
}
