//! What a run may do: the part of what its skill asks for that the operator granted.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Capability, FsAccess, HOST_DIR_ANY, NetRule};

/// The rules by which something is denied that no policy names.
const NOT_GRANTED: &str = "not granted";
const NOT_REQUESTED: &str = "granted, and not requested in skill.toml";

/// Who granted a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantSource {
    /// `capabilities.grant` in `config.toml`: every skill has it.
    Config,
    /// `skills.<name>.grant` in `config.toml`: this skill has it.
    Skill,
    /// The caller of this one run.
    Call,
}

impl fmt::Display for GrantSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "config",
            Self::Skill => "config of the skill",
            Self::Call => "call",
        })
    }
}

/// A capability that the operator gives away, and where it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What is given.
    pub capability: Capability,
    /// Where.
    pub source: GrantSource,
}

/// What a run asked for, what was granted and what it got. It is recorded in `run_started`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What the manifest asks for, in its order.
    pub requested: Vec<Capability>,
    /// What the operator granted, whether it was asked for or not.
    pub granted: Vec<Grant>,
    /// What the run may do: the intersection of the two, and nothing else.
    pub effective: Vec<Capability>,
}

impl Policy {
    /// The policy of a skill that asks for `requested` where `granted` was given. Whatever is in only
    /// one of the two has no effect.
    pub fn new(requested: Vec<Capability>, granted: Vec<Grant>) -> Self {
        let effective = effective(&requested, granted.iter().map(|grant| &grant.capability));
        Self {
            requested,
            granted,
            effective,
        }
    }

    /// Whether the run may do all of `wanted`.
    pub fn holds(&self, wanted: &Capability) -> bool {
        let allows = |got: &Capability| got.intersection(wanted).as_ref() == Some(wanted);
        self.effective.iter().any(allows)
    }

    /// Why `capability`, which is not effective, is not: which side did not have it.
    pub fn rule(&self, capability: &str) -> &'static str {
        let Ok(wanted) = capability.parse::<Capability>() else {
            return NOT_GRANTED;
        };
        let meets = |one: &Capability| one.intersection(&wanted).as_ref() == Some(&wanted);
        let is_granted = self.granted.iter().any(|grant| meets(&grant.capability));
        if is_granted && !self.requested.iter().any(meets) {
            NOT_REQUESTED
        } else {
            NOT_GRANTED
        }
    }

    /// The part of the request that was not granted, whole or in part.
    pub fn missing(&self) -> impl Iterator<Item = &Capability> {
        let met = |wish: &Capability| self.effective.iter().any(|got| wish.is_met_by(got));
        self.requested.iter().filter(move |wish| !met(wish))
    }
}

/// The intersection of what is asked for and what is given, in the order of the request.
fn effective<'a>(
    requested: &[Capability],
    granted: impl Iterator<Item = &'a Capability> + Clone,
) -> Vec<Capability> {
    let mut seen = BTreeSet::new();
    requested
        .iter()
        .flat_map(|wish| granted.clone().filter_map(|grant| wish.intersection(grant)))
        .filter(|capability| seen.insert(capability.clone()))
        .collect()
}

impl Capability {
    /// What both allow, if that is anything: never more than either.
    ///
    /// Of two patterns of which neither covers the other there is none, also where some name fits both:
    /// that set has no pattern of its own, and a wider one would be more than was granted.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Fs { .. }, Self::Fs { .. }) => folder(self, other),
            (Self::Net(a), Self::Net(b)) => a.intersection(b).map(Self::Net),
            (Self::Tool { pattern: a }, Self::Tool { pattern: b }) => {
                let pattern = narrower(a, b)?.clone();
                Some(Self::Tool { pattern })
            }
            (
                Self::Llm {
                    provider: provider_a,
                    model: model_a,
                },
                Self::Llm {
                    provider: provider_b,
                    model: model_b,
                },
            ) => Some(Self::Llm {
                provider: narrower(provider_a, provider_b)?.clone(),
                model: narrower(model_a, model_b)?.clone(),
            }),
            _ => (self == other).then(|| self.clone()),
        }
    }

    /// Whether an effective capability is all that this request asks for.
    fn is_met_by(&self, got: &Self) -> bool {
        let chosen_by_operator = match (self, got) {
            (
                Self::Fs {
                    access: a,
                    host_dir,
                    guest_dir: wanted,
                },
                Self::Fs {
                    access: b,
                    guest_dir,
                    ..
                },
            ) => host_dir == HOST_DIR_ANY && a == b && wanted == guest_dir,
            _ => false,
        };
        chosen_by_operator || self.intersection(got).as_ref() == Some(self)
    }
}

/// A folder stands for every path below it, each seen by the guest at one place. Two folders share
/// something only where the same file is seen at the same place, which is all of the deeper one.
fn folder(a: &Capability, b: &Capability) -> Option<Capability> {
    let (
        Capability::Fs {
            access: access_a,
            host_dir: host_a,
            guest_dir: guest_a,
        },
        Capability::Fs {
            access: access_b,
            host_dir: host_b,
            guest_dir: guest_b,
        },
    ) = (a, b)
    else {
        return None;
    };
    let access = (*access_a).min(*access_b);
    let of = |host_dir: &str, guest_dir: &str| Capability::Fs {
        access,
        host_dir: host_dir.to_owned(),
        guest_dir: guest_dir.to_owned(),
    };
    if host_a == HOST_DIR_ANY || host_b == HOST_DIR_ANY {
        let chosen = if host_a == HOST_DIR_ANY {
            host_b
        } else {
            host_a
        };
        return (guest_a == guest_b && chosen != HOST_DIR_ANY).then(|| of(chosen, guest_a));
    }
    match (below(host_a, host_b), below(guest_a, guest_b)) {
        (Some(host), Some(guest)) if host == guest => return Some(of(host_b, guest_b)),
        _ => {}
    }
    match (below(host_b, host_a), below(guest_b, guest_a)) {
        (Some(host), Some(guest)) if host == guest => Some(of(host_a, guest_a)),
        _ => None,
    }
}

/// The way from `dir` down to `path`, if it lies below it or is it.
fn below<'p>(dir: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(dir.trim_end_matches('/'))?;
    match rest.strip_prefix('/') {
        Some(rest) => Some(rest),
        None => rest.is_empty().then_some(rest),
    }
}

impl NetRule {
    /// What both rules allow, if that is anything.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let same_place =
            self.scheme == other.scheme && self.host == other.host && self.port == other.port;
        let path_prefix = if prefix_covers(&self.path_prefix, &other.path_prefix) {
            &other.path_prefix
        } else if prefix_covers(&other.path_prefix, &self.path_prefix) {
            &self.path_prefix
        } else {
            return None;
        };
        let methods: BTreeSet<_> = self.methods.intersection(&other.methods).copied().collect();
        (same_place && !methods.is_empty()).then(|| Self {
            path_prefix: path_prefix.clone(),
            methods,
            ..self.clone()
        })
    }
}

/// Whether every path below `path` lies below `prefix`. Only whole parts count: `/v1` covers `/v1` and
/// `/v1/x` and not `/v10`.
pub(super) fn prefix_covers(prefix: &str, path: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}

/// Of two patterns the one that the other covers.
fn narrower<'p>(a: &'p String, b: &'p String) -> Option<&'p String> {
    match (covers(a, b), covers(b, a)) {
        (true, _) => Some(b),
        (_, true) => Some(a),
        _ => None,
    }
}

/// Whether every name that fits `narrow` fits `wide` as well. A `*` stands for any characters, and a
/// `*` in `narrow` can only be met by one in `wide`.
fn covers(wide: &str, narrow: &str) -> bool {
    let (wide, narrow) = (wide.as_bytes(), narrow.as_bytes());
    let (mut w, mut n) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while n < narrow.len() {
        match wide.get(w) {
            Some(b'*') => {
                last_star = Some((w, n));
                w += 1;
            }
            Some(byte) if Some(byte) == narrow.get(n) => (w, n) = (w + 1, n + 1),
            _ => match last_star {
                Some((star, met)) => {
                    last_star = Some((star, met + 1));
                    (w, n) = (star + 1, met + 1);
                }
                None => return false,
            },
        }
    }
    let rest = wide.get(w..).unwrap_or_default();
    rest.iter().all(|&byte| byte == b'*')
}

/// Whether a tool's name fits a pattern of `tool:`.
pub fn tool_matches(pattern: &str, name: &str) -> bool {
    // A name with a star in it is no name, and must not fit as a pattern does.
    !name.contains('*') && covers(pattern, name)
}

/// Whether a model, as `provider/model`, fits the two patterns of `llm:`.
pub fn model_matches(provider_pattern: &str, model_pattern: &str, name: &str) -> bool {
    let Some((provider, model)) = name.split_once('/') else {
        return false;
    };
    tool_matches(provider_pattern, provider) && tool_matches(model_pattern, model)
}

impl FsAccess {
    /// As it stands in the grammar.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Capability, Grant, GrantSource, Policy, covers, model_matches, tool_matches};

    fn policy(requested: &[&str], granted: &[&str]) -> Policy {
        let parse = |text: &&str| text.parse::<Capability>().unwrap();
        let grant = |text: &&str| Grant {
            capability: parse(text),
            source: GrantSource::Config,
        };
        Policy::new(
            requested.iter().map(parse).collect(),
            granted.iter().map(grant).collect(),
        )
    }

    fn texts(capabilities: &[Capability]) -> Vec<String> {
        capabilities.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_both_sides_have_is_effective() {
        for (asked, given, got) in [
            ("env:A", "env:A", Some("env:A")),
            ("env:A", "env:B", None),
            ("env:A", "secret:A", None),
            ("approval", "approval", Some("approval")),
            ("skill:a", "skill:b", None),
            ("llm:a/b", "llm:a/b", Some("llm:a/b")),
            ("llm:a/b", "llm:a/c", None),
            // The stricter access holds, whichever side it is on.
            ("fs:rw:/a=/b", "fs:ro:/a=/b", Some("fs:ro:/a=/b")),
            ("fs:ro:/a=/b", "fs:rw:/a=/b", Some("fs:ro:/a=/b")),
            // A folder inside another is seen at the same place, or not at all.
            ("fs:ro:/a/c=/b/c", "fs:ro:/a=/b", Some("fs:ro:/a/c=/b/c")),
            ("fs:ro:/a=/b", "fs:ro:/a/c=/b/c", Some("fs:ro:/a/c=/b/c")),
            ("fs:ro:/a/c=/b/d", "fs:ro:/a=/b", None),
            ("fs:ro:/ab=/b", "fs:ro:/a=/b", None),
            ("fs:ro:/a=/b", "fs:ro:/c=/b", None),
            ("fs:ro:/a=/a", "fs:ro:/=/", Some("fs:ro:/a=/a")),
            // Which folder it is, the operator says.
            ("fs:rw:*=/b", "fs:ro:/srv/x=/b", Some("fs:ro:/srv/x=/b")),
            ("fs:rw:*=/b", "fs:rw:/srv/x=/c", None),
            (
                "net:https://a/v1/x#GET,POST",
                "net:https://a/v1#POST,PUT",
                Some("net:https://a/v1/x#POST"),
            ),
            ("net:https://a/v10#GET", "net:https://a/v1#GET", None),
            ("net:https://a/v1#GET", "net:https://a/v1#POST", None),
            ("net:https://a/#GET", "net:http://a/#GET", None),
            ("net:https://a/#GET", "net:https://a:444/#GET", None),
            ("net:https://a/#GET", "net:https://b/#GET", None),
            ("tool:s__*", "tool:s__read_*", Some("tool:s__read_*")),
            ("tool:s__read", "tool:*__*", Some("tool:s__read")),
            ("tool:s__a*", "tool:s__*b", None),
            ("llm:*/*", "llm:a/gpt-*", Some("llm:a/gpt-*")),
            ("llm:a/gpt-5", "llm:*/*", Some("llm:a/gpt-5")),
            // Each of the two parts is the narrower one, whichever side it is on.
            ("llm:*/gpt-5", "llm:a/gpt-*", Some("llm:a/gpt-5")),
            ("llm:a/*", "llm:b/*", None),
            ("llm:*/gpt-*", "llm:*/*-mini", None),
        ] {
            let policy = policy(&[asked], &[given]);
            let expected: Vec<String> = got.map(str::to_owned).into_iter().collect();
            assert_eq!(texts(&policy.effective), expected, "{asked} with {given}");
        }
    }

    #[test]
    fn nothing_is_effective_unless_it_was_asked_for_and_granted() {
        assert_eq!(policy(&[], &["env:A", "approval"]).effective, []);
        assert_eq!(policy(&["env:A", "approval"], &[]).effective, []);
    }

    #[test]
    fn what_is_missing_is_told() {
        let policy = policy(
            &[
                "env:A",
                "fs:rw:*=/b",
                "fs:ro:*=/c",
                "net:https://a/#GET,PUT",
            ],
            &["fs:ro:/x=/b", "fs:ro:/y=/c", "net:https://a/#GET"],
        );
        let missing: Vec<String> = policy.missing().map(ToString::to_string).collect();
        assert_eq!(missing, ["env:A", "fs:rw:*=/b", "net:https://a/#GET,PUT"]);
    }

    #[test]
    fn a_pattern_fits_whole_names() {
        for (pattern, name, fits) in [
            ("s__read", "s__read", true),
            ("s__read", "s__reader", false),
            ("s__*", "s__", true),
            ("*__r*d", "s__read_and", true),
            ("*__r*d", "s__read_ant", false),
            ("s__*", "s__*", false),
        ] {
            assert_eq!(tool_matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_model_fits_by_provider_and_by_name() {
        for (provider, model, name, fits) in [
            ("*", "*", "openai/gpt-5", true),
            ("openai", "gpt-*", "openai/gpt-5", true),
            ("openai", "gpt-*", "openai/o3", false),
            ("open*", "*", "closed/gpt-5", false),
            // The first slash divides; the model may have more of them.
            ("router", "openai/*", "router/openai/gpt-5", true),
            ("*", "*", "gpt-5", false),
            ("*", "*", "openai/*", false),
            ("*", "*", "*/gpt-5", false),
        ] {
            assert_eq!(model_matches(provider, model, name), fits, "{name}");
        }
    }

    /// Capabilities of few words, so that two of them often meet.
    fn capability() -> impl Strategy<Value = Capability> {
        let dir = || "(/[ab]){1,3}";
        let fs = ("r[ow]", prop_oneof![dir(), Just("*".to_owned())], dir())
            .prop_map(|(access, host, guest)| format!("fs:{access}:{host}={guest}"));
        let net = (
            "https?",
            "[ab]",
            "(:81)?",
            "(/[ab]){0,2}/?",
            "(GET|POST|GET,POST)",
        )
            .prop_map(|(scheme, host, port, path, methods)| {
                let path = if path.starts_with('/') {
                    path
                } else {
                    format!("/{path}")
                };
                format!("net:{scheme}://{host}{port}{path}#{methods}")
            });
        let tool = "[ab*]{1,2}__[ab*]{1,3}".prop_map(|pattern| format!("tool:{pattern}"));
        let llm = "llm:[ab*]{1,2}/[ab*]{1,3}";
        let other = "(env:[AB]|secret:[AB]|skill:[ab]|approval)";
        prop_oneof![fs, net, tool, llm, other].prop_map(|text: String| {
            text.parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"))
        })
    }

    /// Whether everything that `inner` allows is allowed by `outer`, said in another way than the code
    /// under test says it: by samples of what could be asked for.
    fn allows(capability: &Capability, sample: &str) -> bool {
        let inside = |dir: &str, path: &str| {
            dir == "/" || path == dir || path.starts_with(&format!("{dir}/"))
        };
        match (capability, sample.split_once(' ')) {
            (
                Capability::Fs {
                    access,
                    host_dir,
                    guest_dir,
                },
                Some(("fs", rest)),
            ) => {
                let parts: Vec<&str> = rest.split(' ').collect();
                let [op, host, guest] = parts[..] else {
                    return false;
                };
                let same_way = host_dir == "*"
                    || host.strip_prefix(host_dir.as_str())
                        == guest.strip_prefix(guest_dir.as_str());
                (op == "ro" || access.as_str() == "rw")
                    && (host_dir == "*" || inside(host_dir, host))
                    && inside(guest_dir, guest)
                    && same_way
            }
            (Capability::Net(rule), Some(("net", rest))) => {
                let parts: Vec<&str> = rest.split(' ').collect();
                let [scheme, host, port, path, method] = parts[..] else {
                    return false;
                };
                let prefix = rule.path_prefix.as_str();
                let below = prefix.ends_with('/') && path.starts_with(prefix)
                    || path == prefix
                    || path.starts_with(&format!("{prefix}/"));
                rule.scheme.as_str() == scheme
                    && rule.host == host
                    && rule.port.to_string() == port
                    && below
                    && rule.methods.iter().any(|known| known.as_str() == method)
            }
            (Capability::Tool { pattern }, Some(("tool", name))) => tool_matches(pattern, name),
            (Capability::Llm { provider, model }, Some(("llm", name))) => {
                model_matches(provider, model, name)
            }
            (other, None) => other.to_string() == sample,
            _ => false,
        }
    }

    fn samples() -> Vec<String> {
        let words = [
            "/a", "/b", "/a/a", "/a/b", "/b/a", "/a/b/a", "/a/a/b", "/b/b/b/a",
        ];
        let mut samples = Vec::new();
        for op in ["ro", "rw"] {
            for host in words {
                samples.extend(words.map(|guest| format!("fs {op} {host} {guest}")));
            }
        }
        for (scheme, ports) in [("http", ["80", "81"]), ("https", ["443", "81"])] {
            for (host, method) in [("a", "GET"), ("a", "POST"), ("b", "GET"), ("b", "POST")] {
                for port in ports {
                    samples.extend(
                        ["/", "/a", "/b", "/a/", "/a/b", "/ab", "/a/b/c"]
                            .map(|path| format!("net {scheme} {host} {port} {path} {method}")),
                    );
                }
            }
        }
        samples.extend(
            [
                "a__a", "a__b", "b__ab", "ab__aba", "a__aab", "bb__bbb", "ba__a",
            ]
            .map(|name| format!("tool {name}")),
        );
        samples.extend(
            [
                "llm a/a",
                "llm a/b",
                "llm b/ab",
                "llm ab/aba",
                "llm bb/bbb",
                "llm aa/a",
                "env:A",
                "env:B",
                "secret:A",
                "secret:B",
                "skill:a",
                "approval",
            ]
            .map(str::to_owned),
        );
        samples
    }

    proptest! {
        #[test]
        fn the_effective_policy_never_exceeds_either_side(
            requested in proptest::collection::vec(capability(), 0..4),
            granted in proptest::collection::vec(capability(), 0..4),
        ) {
            let grants = granted.iter().map(|capability| Grant {
                capability: capability.clone(),
                source: GrantSource::Call,
            });
            let policy = Policy::new(requested.clone(), grants.collect());
            for sample in samples() {
                let allowed = |list: &[Capability]| list.iter().any(|one| allows(one, &sample));
                if allowed(&policy.effective) {
                    prop_assert!(allowed(&requested), "{sample} was not asked for");
                    prop_assert!(allowed(&granted), "{sample} was not granted");
                }
            }
        }

        #[test]
        fn the_order_of_the_sides_does_not_matter(a in capability(), b in capability()) {
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        }

        #[test]
        fn a_pattern_that_covers_another_fits_all_that_fits_it(
            wide in "[ab*]{0,4}", narrow in "[ab*]{0,4}", name in "[ab]{0,5}",
        ) {
            if covers(&wide, &narrow) && tool_matches(&narrow, &name) {
                prop_assert!(tool_matches(&wide, &name));
            }
        }
    }
}
