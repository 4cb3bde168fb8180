//! From the text of a capability to its value, with the place of the first thing that is wrong.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{
    CAPABILITY_BYTES_MAX, Capability, CapabilityError, FsAccess, HOST_DIR_ANY, Method, NetRule,
    Scheme, skill_name,
};

/// Characters of a text that an error repeats.
const GIVEN_CHARS_MAX: usize = 80;
/// Bytes of a DNS name and of one of its labels (RFC 1035).
const HOST_BYTES_MAX: usize = 253;
const HOST_LABEL_BYTES_MAX: usize = 63;

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        if text.len() > CAPABILITY_BYTES_MAX {
            return Err(CapabilityError::TooLong { bytes: text.len() });
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let rest = Part {
            text: rest,
            offset: text.len() - rest.len(),
        };
        let parsed = match kind {
            "fs" => fs(rest),
            "env" => variable_name(rest).map(|name| Self::Env { name }),
            "secret" => variable_name(rest).map(|name| Self::Secret { name }),
            "net" => net(rest),
            "tool" => tool(rest),
            "llm" => llm(rest),
            "skill" => skill(rest),
            "approval" if text == "approval" => Ok(Self::Approval),
            "approval" => Err(Fault {
                offset: kind.len(),
                expected: "nothing after approval",
            }),
            _ => return Err(CapabilityError::UnknownKind { given: cut(text) }),
        };
        parsed.map_err(|fault| CapabilityError::Malformed {
            given: cut(text),
            column: column(text, fault.offset),
            expected: fault.expected,
        })
    }
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(GIVEN_CHARS_MAX).collect()
}

/// The number, from 1, of the character that begins at byte `offset`.
pub(super) fn column(text: &str, offset: usize) -> usize {
    let before = text.char_indices().take_while(|&(at, _)| at < offset);
    before.count() + 1
}

/// The first thing that is wrong, by its byte offset in the whole text.
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) expected: &'static str,
}

/// A piece of the text that knows where it begins, so that a fault in it can be located.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
}

impl<'a> Part<'a> {
    pub(super) fn fault(self, expected: &'static str) -> Fault {
        self.fault_at(0, expected)
    }

    pub(super) fn fault_at(self, index: usize, expected: &'static str) -> Fault {
        Fault {
            offset: self.offset + index,
            expected,
        }
    }

    /// What remains when the first `length` bytes are taken away; they are known to be characters
    /// that were found at the start.
    fn after(self, length: usize) -> Self {
        Self {
            text: self.text.get(length..).unwrap_or_default(),
            offset: self.offset + length,
        }
    }

    fn divide_at(self, index: usize, separator: char) -> (Self, Self) {
        let before = Self {
            text: self.text.get(..index).unwrap_or_default(),
            ..self
        };
        (before, self.after(index + separator.len_utf8()))
    }

    fn divide(self, separator: char, expected: &'static str) -> Result<(Self, Self), Fault> {
        let index = self.text.find(separator);
        index
            .map(|index| self.divide_at(index, separator))
            .ok_or_else(|| self.fault_at(self.text.len(), expected))
    }

    /// The whole piece, when it is not empty and has no character but those that are allowed.
    pub(super) fn made_of(
        self,
        expected: &'static str,
        allowed: impl Fn(char) -> bool,
    ) -> Result<&'a str, Fault> {
        let wrong = self.text.find(|character| !allowed(character));
        match wrong.or(self.text.is_empty().then_some(0)) {
            Some(index) => Err(self.fault_at(index, expected)),
            None => Ok(self.text),
        }
    }
}

fn fs(part: Part<'_>) -> Result<Capability, Fault> {
    let (access, dirs) = part.divide(':', "ro: or rw: and two folders")?;
    let access = match access.text {
        "ro" => FsAccess::ReadOnly,
        "rw" => FsAccess::ReadWrite,
        _ => return Err(access.fault("ro or rw")),
    };
    let index = dirs
        .text
        .rfind('=')
        .ok_or_else(|| dirs.fault_at(dirs.text.len(), "= and the folder that the guest sees"))?;
    let (host_dir, guest_dir) = dirs.divide_at(index, '=');
    Ok(Capability::Fs {
        access,
        host_dir: match host_dir.text {
            HOST_DIR_ANY => HOST_DIR_ANY.to_owned(),
            _ => absolute_dir(host_dir)?,
        },
        guest_dir: absolute_dir(guest_dir)?,
    })
}

fn absolute_dir(part: Part<'_>) -> Result<String, Fault> {
    if part.text != "/" {
        path_parts(part, "an absolute path")?;
        if part.text.ends_with('/') {
            return Err(part.fault_at(part.text.len() - 1, "no / at the end"));
        }
    }
    part.made_of("an absolute path", |character| !character.is_control())
        .map(str::to_owned)
}

/// Checks that a path begins with `/` and that none of its parts is empty, `.` or `..`; the last may
/// be empty.
fn path_parts(part: Part<'_>, expected: &'static str) -> Result<(), Fault> {
    let below_root = part
        .text
        .strip_prefix('/')
        .ok_or_else(|| part.fault(expected))?;
    let mut index = 1;
    let mut names = below_root.split('/').peekable();
    while let Some(name) = names.next() {
        if matches!(name, "." | "..") || (name.is_empty() && names.peek().is_some()) {
            return Err(part.fault_at(index, "a path without ., .. and //"));
        }
        index += name.len() + 1;
    }
    Ok(())
}

fn variable_name(part: Part<'_>) -> Result<String, Fault> {
    if part
        .text
        .starts_with(|character: char| character.is_ascii_digit())
    {
        return Err(part.fault("a letter or _"));
    }
    part.made_of("a name of letters, digits and _", |character| {
        character.is_ascii_alphanumeric() || character == '_'
    })
    .map(str::to_owned)
}

fn net(part: Part<'_>) -> Result<Capability, Fault> {
    let (scheme, rest) = Scheme::ALL
        .into_iter()
        .find_map(|scheme| {
            let rest = part
                .text
                .strip_prefix(scheme.as_str())?
                .strip_prefix("://")?;
            Some((scheme, part.after(part.text.len() - rest.len())))
        })
        .ok_or_else(|| part.fault("https:// or http://"))?;
    let (rest, methods) = rest.divide('#', "# and the methods, as in #GET,POST")?;
    let index = rest
        .text
        .find('/')
        .ok_or_else(|| rest.fault_at(rest.text.len(), "a path that begins with /"))?;
    let (authority, _) = rest.divide_at(index, '/');
    let path = rest.after(index);
    path_parts(path, "a path that begins with /")?;
    let path_prefix = path.made_of("a path of letters, digits and -._~:@/", |character| {
        character.is_ascii_alphanumeric() || "-._~:@/".contains(character)
    })?;
    let (host, port) = host_and_port(authority, scheme)?;
    Ok(Capability::Net(NetRule {
        scheme,
        host,
        port,
        path_prefix: path_prefix.to_owned(),
        methods: self::methods(methods)?,
    }))
}

fn host_and_port(part: Part<'_>, scheme: Scheme) -> Result<(String, u16), Fault> {
    // The colons of an IPv6 address stand inside its brackets, so the port's is looked for after them.
    let host_end = if part.text.starts_with('[') {
        part.text.find(']').unwrap_or(part.text.len())
    } else {
        0
    };
    let colon = part
        .text
        .get(host_end..)
        .and_then(|rest| rest.find(':'))
        .map(|index| host_end + index);
    let Some(colon) = colon else {
        return Ok((host(part)?, scheme.default_port()));
    };
    let (name, port) = part.divide_at(colon, ':');
    let digits = port.made_of("a port, 1 to 65535", |character| character.is_ascii_digit())?;
    match digits.parse() {
        Ok(number) if number > 0 => Ok((host(name)?, number)),
        _ => Err(port.fault("a port, 1 to 65535")),
    }
}

fn host(part: Part<'_>) -> Result<String, Fault> {
    if let Some(rest) = part.text.strip_prefix('[') {
        let address: Option<Ipv6Addr> = rest.strip_suffix(']').and_then(|text| text.parse().ok());
        return match address {
            Some(address) => Ok(format!("[{address}]")),
            None => Err(part.fault("an IPv6 address in brackets")),
        };
    }
    let name = part.text.to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=HOST_LABEL_BYTES_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    if name.len() > HOST_BYTES_MAX || !name.split('.').all(is_label) {
        return Err(part.fault("a host name or an address"));
    }
    // Resolvers read a name whose last label is a number as an address, in spellings such as `127.1`
    // or `0x7f000001`; only the plain one is let through.
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.starts_with(|first: char| first.is_ascii_digit()) && name.parse::<Ipv4Addr>().is_err() {
        return Err(part.fault("an IPv4 address of four decimal numbers"));
    }
    Ok(name)
}

fn methods(part: Part<'_>) -> Result<BTreeSet<Method>, Fault> {
    let mut methods = BTreeSet::new();
    let mut index = 0;
    for name in part.text.split(',') {
        let method = Method::ALL
            .into_iter()
            .find(|method| method.as_str() == name);
        methods.insert(method.ok_or_else(|| {
            part.fault_at(index, "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")
        })?);
        index += name.len() + 1;
    }
    Ok(methods)
}

fn tool(part: Part<'_>) -> Result<Capability, Fault> {
    let pattern = part.made_of("a tool of letters, digits and _-.*", |character| {
        character.is_ascii_alphanumeric() || "_-.*".contains(character)
    })?;
    let is_qualified = pattern
        .split_once("__")
        .is_some_and(|(server, name)| !server.is_empty() && !name.is_empty());
    if !is_qualified && !pattern.contains('*') {
        return Err(part.fault("a tool as in server__name"));
    }
    Ok(Capability::Tool {
        pattern: single_stars(pattern),
    })
}

/// Several stars in a row mean what one does.
fn single_stars(pattern: &str) -> String {
    let mut pattern = pattern.to_owned();
    while pattern.contains("**") {
        pattern = pattern.replace("**", "*");
    }
    pattern
}

fn llm(part: Part<'_>) -> Result<Capability, Fault> {
    let (provider, model) = part.divide('/', "a provider, / and a model")?;
    let provider = provider.made_of("a provider of lower-case letters, digits and -._*", |c| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || "-._*".contains(c)
    })?;
    let model = model.made_of("a model of letters, digits and -._:/@+*", |c| {
        c.is_ascii_alphanumeric() || "-._:/@+*".contains(c)
    })?;
    Ok(Capability::Llm {
        provider: single_stars(provider),
        model: single_stars(model),
    })
}

fn skill(part: Part<'_>) -> Result<Capability, Fault> {
    skill_name::parse(part).map(|name| Capability::Skill { name })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::capability::{Capability, CapabilityError};

    /// Texts in the one spelling that printing gives.
    fn canonical() -> impl Strategy<Value = String> {
        let name = "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}";
        let methods = proptest::sample::subsequence(
            vec!["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
            1..=7,
        );
        prop_oneof![
            "fs:(ro|rw):(/[a-zäA =._-]{0,8}x){1,3}=(/[a-zäA ._-]{0,8}x){1,3}",
            Just("fs:ro:/=/".to_owned()),
            "env:[A-Za-z_][A-Za-z0-9_]{0,9}",
            "secret:[A-Za-z_][A-Za-z0-9_]{0,9}",
            (
                "(https|http)://([a-z0-9]{1,5}\\.){0,2}[a-z][a-z0-9]{0,4}(:[1-9][0-9]{3})?",
                "(/[A-Za-z0-9_~@-]{1,5}){0,2}/",
                methods,
            )
                .prop_map(|(origin, path, methods)| format!(
                    "net:{origin}{path}#{}",
                    methods.join(",")
                )),
            "tool:[A-Za-z0-9.-]{1,5}__[A-Za-z0-9_.-]{0,4}[*]?[A-Za-z0-9_.-]{1,4}",
            "llm:[a-z0-9._-]{1,8}/[A-Za-z0-9._:/@+-]{1,12}",
            "llm:[a-z0-9._-]{0,4}[*]?[a-z0-9._-]{1,4}/[A-Za-z0-9._:/@+-]{0,6}[*]",
            Just("llm:*/*".to_owned()),
            name.prop_map(|name| format!("skill:{name}")),
            Just("approval".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn the_canonical_spelling_parses_and_prints_back(text in canonical()) {
            let capability: Capability = text.parse().unwrap();
            prop_assert_eq!(capability.to_string(), &*text);
            let json = serde_json::to_string(&capability).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&text).unwrap());
            prop_assert_eq!(serde_json::from_str::<Capability>(&json).unwrap(), capability);
        }

        #[test]
        fn whatever_parses_prints_as_itself(
            kind in "(fs:ro:|fs:rw:|env:|net:https://|tool:|llm:|skill:)?",
            rest in "[a-zA-Z0-9/.:#=_*\\[\\] ä-]{0,40}",
        ) {
            if let Ok(capability) = format!("{kind}{rest}").parse::<Capability>() {
                prop_assert_eq!(capability.to_string().parse(), Ok(capability));
            }
        }
    }

    #[test]
    fn spellings_that_mean_the_same_become_one() {
        for (given, printed) in [
            (
                "net:https://API.Example.com:443/v1#POST,GET,POST",
                "net:https://api.example.com/v1#GET,POST",
            ),
            ("tool:a__***b**", "tool:a__*b*"),
            ("llm:**/***gpt**", "llm:*/*gpt*"),
            ("net:http://[0:0::1]:80/#GET", "net:http://[::1]/#GET"),
            (
                "net:http://127.0.0.1:8080/#GET",
                "net:http://127.0.0.1:8080/#GET",
            ),
        ] {
            assert_eq!(given.parse::<Capability>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, column, part) in [
            ("fs:rx:/a=/b", 4, "ro or rw"),
            ("fs:ro:/a", 9, "="),
            ("fs:ro:a=/b", 7, "absolute"),
            ("fs:ro:/a/../b=/c", 10, ".."),
            ("fs:ro:/a=/b//c", 13, "//"),
            ("fs:ro:/a/=/b", 9, "no / at the end"),
            ("fs:ro:/a\0=/b", 9, "absolute"),
            ("fs:ro:/ää=b", 11, "absolute"),
            ("env:", 5, "name"),
            ("env:1A", 5, "letter"),
            ("env:A B", 6, "name"),
            ("net:ftp://a/#GET", 5, "https://"),
            ("net:https://a#GET", 14, "path"),
            ("net:https://a/", 15, "methods"),
            ("net:https://a/#get", 16, "GET"),
            ("net:https://a/#GET,", 20, "GET"),
            ("net:https://a/b/../#GET", 17, ".."),
            ("net:https://a/%2e%2e/#GET", 15, "letters"),
            ("net:https://user@a/#GET", 13, "host"),
            ("net:https://*.a/#GET", 13, "host"),
            ("net:https://127.1/#GET", 13, "four decimal"),
            ("net:https://0x7f000001/#GET", 13, "four decimal"),
            ("net:https://a.0x7f/#GET", 13, "four decimal"),
            ("net:https://[::1/#GET", 13, "IPv6"),
            ("net:https://[::1]x/#GET", 13, "IPv6"),
            ("net:https://a:0/#GET", 15, "port"),
            ("net:https://a:65536/#GET", 15, "port"),
            ("net:https:///#GET", 13, "host"),
            ("tool:search", 6, "server__name"),
            ("tool:a__b c", 10, "letters"),
            ("llm:gpt", 8, "model"),
            ("llm:/gpt", 5, "provider"),
            ("llm:*", 6, "model"),
            ("llm:Open*/gpt", 5, "lower-case"),
            ("llm:*/gpt?", 10, "letters"),
            ("skill:Greet", 7, "a-z"),
            ("skill:a--b", 9, "two hyphens"),
            ("skill:-a", 7, "letter"),
            ("skill:a-", 8, "letter"),
            ("approval:x", 9, "nothing"),
        ] {
            match text.parse::<Capability>() {
                Err(CapabilityError::Malformed {
                    column: found,
                    expected,
                    ..
                }) => {
                    assert_eq!(found, column, "{text:?}: {expected}");
                    assert!(expected.contains(part), "{text:?}: {expected}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn unknown_kinds_and_endless_texts_are_refused() {
        for text in ["", "file:/a", "FS:ro:/a=/b", " approval", "ennv:A"] {
            let refused = text.parse::<Capability>();
            assert!(
                matches!(refused, Err(CapabilityError::UnknownKind { .. })),
                "{text:?}"
            );
        }
        let text = format!("env:{}", "A".repeat(4096));
        let refused = text.parse::<Capability>();
        assert_eq!(refused, Err(CapabilityError::TooLong { bytes: 4100 }));
    }
}
