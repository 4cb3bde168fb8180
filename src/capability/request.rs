//! A request in the one spelling in which it is compared with grants, recorded and sent.
//!
//! Servers read unusual spellings of a path in different ways. Whatever one of them could read as
//! another path than the one that is compared here is refused instead of being interpreted.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::path::normalised_path;
use super::policy::prefix_covers;
use super::{Capability, Method, NetRule, Policy, Scheme};

/// Bytes of a URL. Servers take about as much; protects ledgers and screens.
const URL_BYTES_MAX: usize = 8 * 1024;

/// Where a request goes and what it does there, normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The method.
    pub method: Method,
    /// With or without TLS.
    pub scheme: Scheme,
    /// A DNS name in lower case without a dot at its end, an IPv4 address of four decimal numbers, or an
    /// IPv6 address in brackets.
    pub host: String,
    /// The host, when it is an address and needs no look-up.
    pub address: Option<IpAddr>,
    /// The port, the scheme's own when the request named none.
    pub port: u16,
    /// It begins with `/`, has no `.`, `..` or empty part, and no escape that was not needed.
    pub path: String,
    /// What follows the `?`, when there is one.
    pub query: Option<String>,
}

/// Why a request has no normalised form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A method that cannot be granted.
    #[error("method: expected GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method,
    /// A scheme that cannot be granted.
    #[error("scheme: expected http or https")]
    Scheme,
    /// A user or a password before the host.
    #[error("host: expected no user before it")]
    User,
    /// No host, or one that is no name and no address.
    #[error("host: expected a name or an address")]
    Host,
    /// The port is not one.
    #[error("port: expected 1 to 65535")]
    Port,
    /// A path that could be read in two ways.
    #[error("path: expected {0}")]
    Path(&'static str),
    /// A query with characters that a URL cannot have.
    #[error("query: expected printable ASCII")]
    Query,
    /// The URL is longer than any may be.
    #[error("URL: expected at most {URL_BYTES_MAX} bytes")]
    TooLong,
}

impl Target {
    /// The target of a request as a guest spells it.
    ///
    /// # Errors
    /// A part of it cannot be granted, or could be read in two ways.
    pub fn parse(
        method: &str,
        scheme: &str,
        authority: &str,
        path_and_query: &str,
    ) -> Result<Self, TargetError> {
        let given = [scheme, authority, path_and_query].map(str::len);
        if given.iter().sum::<usize>() > URL_BYTES_MAX {
            return Err(TargetError::TooLong);
        }
        let method = Method::ALL.into_iter().find(|one| one.as_str() == method);
        let method = method.ok_or(TargetError::Method)?;
        let scheme = Scheme::ALL.into_iter().find(|one| one.as_str() == scheme);
        let scheme = scheme.ok_or(TargetError::Scheme)?;
        let (host, address, port) = authority_parts(scheme, authority)?;
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path_and_query, None),
        };
        let is_query = |query: &str| query.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
        if !query.is_none_or(is_query) {
            return Err(TargetError::Query);
        }
        let target = Self {
            method,
            scheme,
            host,
            address,
            port,
            path: normalised_path(path)?,
            query: query.map(str::to_owned),
        };
        // Escapes can make it longer than it was given.
        let normal = [
            scheme.as_str().len(),
            target.authority().len(),
            target.path_and_query().len(),
        ];
        if normal.iter().sum::<usize>() > URL_BYTES_MAX {
            return Err(TargetError::TooLong);
        }
        Ok(target)
    }

    /// The host, and the port unless it is the scheme's own: what stands in the field `Host`.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The path and the query: what stands in the first line of the request.
    pub fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// The whole address.
    pub fn url(&self) -> String {
        format!(
            "{}://{}{}",
            self.scheme.as_str(),
            self.authority(),
            self.path_and_query()
        )
    }

    /// The narrowest rule that allows it. A path with characters that a rule cannot have is cut before
    /// the part that has them.
    pub fn rule(&self) -> NetRule {
        let spellable = |c: char| c.is_ascii_alphanumeric() || "-._~:@/".contains(c);
        let path_prefix = match self.path.find(|c| !spellable(c)) {
            None => self.path.clone(),
            Some(index) => {
                let spelled = self.path.get(..index).unwrap_or_default();
                let whole = spelled.rfind('/').map_or(0, |slash| slash + 1);
                spelled.get(..whole).unwrap_or("/").to_owned()
            }
        };
        NetRule {
            scheme: self.scheme,
            host: self.host.clone(),
            port: self.port,
            path_prefix,
            methods: [self.method].into(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method.as_str(), self.url())
    }
}

/// Host, the host as an address if it is one, and port. The parser of `url` turns every spelling of an
/// address into one, and a name of any script into its ASCII form.
fn authority_parts(
    scheme: Scheme,
    authority: &str,
) -> Result<(String, Option<IpAddr>, u16), TargetError> {
    if authority.contains('@') {
        return Err(TargetError::User);
    }
    // None of these belongs into an authority, and the parser would end it there.
    if authority.is_empty() || authority.contains(['/', '\\', '?', '#', '%']) {
        return Err(TargetError::Host);
    }
    let url = Url::parse(&format!("{}://{authority}/", scheme.as_str()));
    let url = url.map_err(|error| match error {
        url::ParseError::InvalidPort => TargetError::Port,
        _ => TargetError::Host,
    })?;
    let port = url.port_or_known_default().unwrap_or_default();
    if port == 0 {
        return Err(TargetError::Port);
    }
    let (host, address) = match url.host() {
        Some(Host::Ipv4(address)) => (address.to_string(), Some(address.into())),
        Some(Host::Ipv6(address)) => (format!("[{address}]"), Some(address.into())),
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() || name.ends_with('.') || name.contains("..") {
                return Err(TargetError::Host);
            }
            (name.to_owned(), None)
        }
        None => return Err(TargetError::Host),
    };
    Ok((host, address, port))
}

/// What the effective policy says of a request that it does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestDenied {
    /// The capability that would allow it.
    pub capability: Capability,
    /// Which part of the request no rule has, and the rule that has most of the others.
    pub rule: String,
}

impl Policy {
    /// Whether a request may be made.
    ///
    /// # Errors
    /// No effective capability allows it.
    pub fn allows(&self, target: &Target) -> Result<(), RequestDenied> {
        let mut nearest: Option<(Part, &NetRule)> = None;
        for rule in self.net_rules() {
            let Some(part) = rule.refuses(target) else {
                return Ok(());
            };
            if nearest.is_none_or(|(known, _)| known < part) {
                nearest = Some((part, rule));
            }
        }
        let capability = Capability::Net(target.rule());
        let rule = match nearest {
            Some((part, rule)) => format!("{}: not within net:{rule}", part.as_str()),
            None => self.rule(&capability.to_string()).to_owned(),
        };
        Err(RequestDenied { capability, rule })
    }

    fn net_rules(&self) -> impl Iterator<Item = &NetRule> {
        self.effective.iter().filter_map(|one| match one {
            Capability::Net(rule) => Some(rule),
            _ => None,
        })
    }
}

/// The parts of a request, in the order in which they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Host,
    Scheme,
    Port,
    Path,
    Method,
}

impl Part {
    fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Scheme => "scheme",
            Self::Port => "port",
            Self::Path => "path",
            Self::Method => "method",
        }
    }
}

impl NetRule {
    /// Whether the request goes to a place below this one, whatever it does there.
    pub fn covers(&self, target: &Target) -> bool {
        matches!(self.refuses(target), None | Some(Part::Method))
    }

    /// The first part of the request that this rule does not allow.
    fn refuses(&self, target: &Target) -> Option<Part> {
        if self.host != target.host {
            Some(Part::Host)
        } else if self.scheme != target.scheme {
            Some(Part::Scheme)
        } else if self.port != target.port {
            Some(Part::Port)
        } else if !prefix_covers(&self.path_prefix, &target.path) {
            Some(Part::Path)
        } else if !self.methods.contains(&target.method) {
            Some(Part::Method)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::{Target, TargetError};
    use crate::capability::{Capability, Grant, GrantSource, Policy};

    fn get(url: &str) -> Result<Target, TargetError> {
        let (scheme, rest) = url.split_once("://").unwrap();
        let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        Target::parse("GET", scheme, authority, path)
    }

    fn policy(grant: &str) -> Policy {
        let capability: Capability = grant.parse().unwrap();
        let grant = Grant {
            capability: capability.clone(),
            source: GrantSource::Config,
        };
        Policy::new(vec![capability], vec![grant])
    }

    #[test]
    fn spellings_that_mean_the_same_become_one() {
        for (given, normal) in [
            ("https://Example.COM:443", "https://example.com/"),
            ("https://example.com./a", "https://example.com/a"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("http://0x7f.1:80/", "http://127.0.0.1/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0177.0.0.1./", "http://127.0.0.1/"),
            (
                "http://[0:0::FFFF:1.2.3.4]:81/",
                "http://[::ffff:1.2.3.4]:81/",
            ),
            (
                "https://a/%7Eb/%41%2Dc%20d%c3%a4",
                "https://a/~b/A-c%20d%C3%A4",
            ),
            ("https://a/{x}|\"y\"", "https://a/%7Bx%7D%7C%22y%22"),
            ("https://a/b;v=1,2/", "https://a/b;v=1,2/"),
            ("https://a?q=/../%2f", "https://a/?q=/../%2f"),
        ] {
            assert_eq!(get(given).unwrap().url(), normal, "{given}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (given, part) in [
            ("ftp://a/", "scheme"),
            ("https://user@a/", "user"),
            ("https://user:pw@a/", "user"),
            ("https:///", "host"),
            ("https://a\\b/", "host"),
            ("https://a%2eb/", "host"),
            ("https://a..b/", "host"),
            ("https://a../", "host"),
            ("https://./", "host"),
            ("https://1.2.3.999/", "host"),
            ("https://[::1/", "host"),
            ("https://a b/", "host"),
            ("https://a:0/", "port"),
            ("https://a:65536/", "port"),
            ("https://a/v1/../x", "no . or .."),
            ("https://a/v1/..", "no . or .."),
            ("https://a/./x", "no . or .."),
            ("https://a/v1/%2e%2e/x", "no . or .."),
            ("https://a/v1/.%2E/x", "no . or .."),
            ("https://a/v1/..;/x", "no . or .."),
            ("https://a/v1/..%3bx/", "no . or .."),
            ("https://a/v1//x", "no empty part"),
            ("https://a//", "no empty part"),
            ("https://a/;x/y", "no empty part"),
            ("https://a/v1%2f..%2fx", "escaped /"),
            ("https://a/v1%5Cx", "escaped /"),
            ("https://a/v1\\..\\x", "backslash"),
            ("https://a/v1/%252e%252e/x", "escape of an escape"),
            ("https://a/v1/%25%32e%25%32e/x", "escape of an escape"),
            ("https://a/v1/%252%65/x", "escape of an escape"),
            ("https://a/v1/%25%32%65/x", "escape of an escape"),
            ("https://a/v1/..%25%33b/x", "escape of an escape"),
            ("https://a/v1/%25%32%35%32%65/x", "escape of an escape"),
            ("https://a/%00", "control"),
            ("https://a/%", "hexadecimal"),
            ("https://a/%4", "hexadecimal"),
            ("https://a/%+1", "hexadecimal"),
            ("https://a/ä", "printable"),
            ("https://a/?a b", "query"),
        ] {
            let refused = get(given).map(|target| target.url());
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(part), "{given}: {message}");
        }
        // The second is too long when it is spelled as it is sent.
        for long in ["a".repeat(9000), "{".repeat(3000)] {
            let refused = Target::parse("GET", "https", "a", &format!("/{long}"));
            assert_eq!(refused, Err(TargetError::TooLong));
        }
        for method in ["get", "CONNECT", "TRACE", "PROPFIND", ""] {
            let refused = Target::parse(method, "https", "a", "/");
            assert_eq!(refused, Err(TargetError::Method), "{method}");
        }
    }

    #[test]
    fn the_part_that_no_rule_has_is_named() {
        let policy = policy("net:https://a.example/v1#GET");
        for (given, part) in [
            ("https://a.example/v1", None),
            ("https://A.example:443/v1/%78?y=/../z", None),
            ("https://b.example/v1", Some("host")),
            ("https://a.example.b/v1", Some("host")),
            ("http://a.example/v1", Some("scheme")),
            ("https://a.example:444/v1", Some("port")),
            ("https://a.example/", Some("path")),
            ("https://a.example/v10", Some("path")),
            ("https://a.example/V1", Some("path")),
        ] {
            let denied = policy.allows(&get(given).unwrap()).err();
            let named = denied.as_ref().map(|denied| denied.rule.as_str());
            let expected =
                part.map(|part| format!("{part}: not within net:https://a.example/v1#GET"));
            assert_eq!(named, expected.as_deref(), "{given}");
        }
        let post = Target::parse("POST", "https", "a.example", "/v1").unwrap();
        let denied = policy.allows(&post).unwrap_err();
        assert!(denied.rule.starts_with("method: "), "{denied:?}");
        assert_eq!(
            denied.capability.to_string(),
            "net:https://a.example/v1#POST"
        );
        let nothing = Policy::default().allows(&post).unwrap_err();
        assert_eq!(nothing.rule, "not granted");
    }

    #[test]
    fn the_rule_that_would_allow_a_request_can_be_written_down() {
        for (given, rule) in [
            ("https://a/b/c?d", "https://a/b/c#GET"),
            ("http://[::1]:81/b%20c/d", "http://[::1]:81/#GET"),
            ("https://a/b/c%20d", "https://a/b/#GET"),
        ] {
            let target = get(given).unwrap();
            assert_eq!(target.rule().to_string(), rule);
            let granted = policy(&format!("net:{rule}"));
            assert_eq!(granted.allows(&target), Ok(()), "{given}");
        }
    }

    proptest! {
        /// However a path is spelled: what is allowed under a prefix stays there when another parser,
        /// which interprets everything that it can, reads what is sent.
        #[test]
        fn what_is_allowed_never_leaves_its_prefix(
            parts in prop::collection::vec(
                prop_oneof![
                    "(v1|v2|a)",
                    "(\\.|%2e|%2E){1,3}",
                    "[/\\\\;:?#@%.]{1,2}",
                    "%(2f|2F|5c|3b|25|00|61|7e|c3|0a)",
                    "[ -~ä]{1,3}",
                ],
                0..8,
            ),
        ) {
            let policy = policy("net:https://a.example/v1#GET");
            let path = format!("/v1{}", parts.concat());
            if let Ok(target) = Target::parse("GET", "https", "a.example", &path)
                && policy.allows(&target).is_ok()
            {
                let url = Url::parse(&target.url()).unwrap();
                let stays = url.path() == "/v1" || url.path().starts_with("/v1/");
                prop_assert!(stays, "{} became {}", path, url);
                prop_assert_eq!(url.host_str(), Some("a.example"));
                prop_assert_eq!(url.port(), None);
                prop_assert_eq!(url.path(), &*target.path);
                prop_assert_eq!(url.fragment(), None);
                let again = get(&target.url());
                prop_assert_eq!(again, Ok(target));
            }
        }

        /// What is compared and sent is its own normal form: whoever takes escapes back once more, one
        /// of this program included, finds nothing else in it.
        #[test]
        fn a_normal_form_is_its_own(
            parts in prop::collection::vec(
                prop_oneof![
                    4 => "%25",
                    4 => "%(2[0-9a-fA-F]|3[0-9a-fA-F]|4[1-6]|6[1-6])",
                    2 => "%[0-9a-fA-F]{2}",
                    2 => "[0-9a-fA-F]",
                    1 => "[%/.;{|}u]",
                ],
                0..10,
            ),
            query in "(\\?[!-~]{0,8})?",
        ) {
            let path = format!("/{}{query}", parts.concat());
            if let Ok(target) = Target::parse("GET", "https", "a.example", &path) {
                let is_digits = |two: &str| two.bytes().all(|byte| byte.is_ascii_hexdigit());
                let mut after_percents = target.path.split("%25").skip(1);
                let twice = after_percents.find(|after| after.get(..2).is_some_and(is_digits));
                prop_assert_eq!(twice, None, "{} became {}", path, target);
                let again = get(&target.url());
                prop_assert_eq!(again, Ok(target));
            }
        }

        /// No authority of any spelling reaches another host than the one that is compared.
        #[test]
        fn another_parser_sees_the_same_host(
            authority in "(a\\.example|127\\.1|[0-9x.]{1,8}|\\[[0-9a-f:.]{2,10}\\])?[@:.%\\\\/#?ａ-ｚA-Z0-9-]{0,6}",
        ) {
            if let Ok(target) = Target::parse("GET", "https", &authority, "/") {
                let url = Url::parse(&target.url()).unwrap();
                prop_assert_eq!(url.username(), "");
                prop_assert_eq!(url.port_or_known_default(), Some(target.port));
                let again = get(&target.url());
                prop_assert_eq!(again, Ok(target));
            }
        }
    }
}
