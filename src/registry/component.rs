//! The component file of a skill: what it is, its digest and the language it was written in.

use std::path::PathBuf;

use serde::Serialize;
use wasmparser::{KnownCustom, Parser, Payload};

use super::finding::{Finding, Problem, Severity};
use super::folder::{Content, read_regular, sha256};
use crate::config::COMPONENT_BYTES_MAX;

/// The name of the component file in a skill's folder.
pub const COMPONENT_FILE: &str = "skill.wasm";

/// Components and modules within each other. Tools make three levels; the bound protects memory
/// from a file that is nothing but nesting.
const NESTING_MAX: usize = 32;

/// What a component begins with: magic, version 13, layer 1.
const COMPONENT_HEADER: &[u8] = b"\0asm\x0d\x00\x01\x00";
/// What a core module begins with: magic, version 1, layer 0.
const MODULE_HEADER: &[u8] = b"\0asm\x01\x00\x00\x00";
const MAGIC: &[u8] = b"\0asm";

/// Traces that tools leave in the `producers` section and the flavor that each tells of, in order of
/// precedence: what links an engine or a C library tells of these too.
const FLAVORS: &[(&str, &str, &str)] = &[
    ("language", "JavaScript", "js"),
    ("language", "Rust", "rust"),
    ("processed-by", "wit-bindgen-rust", "rust"),
    ("language", "C++", "cpp"),
    ("language", "C_plus_plus", "cpp"),
    ("language", "C", "c"),
    ("processed-by", "wit-bindgen-c", "c"),
];

/// A component on disk, as it was when the skill was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Component {
    /// The file, without links.
    pub path: PathBuf,
    /// SHA-256 of the file: 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// The size of the file.
    pub size_bytes: u64,
}

impl Component {
    /// Reads the component again.
    ///
    /// # Errors
    /// The file cannot be read, or it is no longer the one whose digest was taken.
    pub fn read(&self) -> Result<Vec<u8>, Finding> {
        let refuse = |problem| Finding {
            severity: Severity::Error,
            file: self.path.clone(),
            position: None,
            problem,
        };
        let bytes = read_regular(&self.path, COMPONENT_BYTES_MAX).map_err(refuse)?;
        let found = sha256(&bytes);
        if found == self.sha256 {
            Ok(bytes)
        } else {
            Err(refuse(Problem::DigestMismatch {
                expected: self.sha256.clone(),
                found,
            }))
        }
    }
}

/// Digests a component and finds its flavor, when its tools left a trace of it.
pub(super) fn inspect(content: &Content) -> Result<(Component, Option<&'static str>), Problem> {
    let bytes = &content.bytes;
    check_header(bytes)?;
    let flavor = flavor(bytes)?;
    let component = Component {
        path: content.target.clone(),
        sha256: content.sha256.clone(),
        size_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
    };
    Ok((component, flavor))
}

fn check_header(bytes: &[u8]) -> Result<(), Problem> {
    if bytes.starts_with(COMPONENT_HEADER) {
        return Ok(());
    }
    let is_text = |bytes: &[u8]| {
        let mut start = bytes.iter().take(64);
        start.all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
    };
    let found = if bytes.is_empty() {
        "an empty file"
    } else if bytes.starts_with(MODULE_HEADER) {
        "a core module, which its tools have yet to make a component of"
    } else if bytes.starts_with(MAGIC) {
        "WebAssembly of another version"
    } else if is_text(bytes) {
        "text"
    } else {
        "other data"
    };
    Err(Problem::NotAComponent { found })
}

fn flavor(bytes: &[u8]) -> Result<Option<&'static str>, Problem> {
    let damaged = |error: wasmparser::BinaryReaderError| Problem::DamagedComponent {
        offset: error.offset(),
        message: error.message().to_owned(),
    };
    let mut depth = 0_usize;
    let mut best = FLAVORS.len();
    let mut has_libraries = false;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(damaged)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
                if depth > NESTING_MAX {
                    return Err(Problem::DeepComponent { max: NESTING_MAX });
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) => match section.as_known() {
                KnownCustom::Producers(fields) => best = best.min(rank(fields)),
                KnownCustom::Dylink0(_) => has_libraries = true,
                _ => {}
            },
            _ => {}
        }
    }
    // Interpreters are linked from libraries, which tell in what they themselves were written.
    let told = FLAVORS.get(best).filter(|_| !has_libraries);
    Ok(told.map(|&(_, _, flavor)| flavor))
}

/// The first entry of [`FLAVORS`] that a `producers` section speaks of. The section is a comment, so a
/// damaged one is passed over.
fn rank(fields: wasmparser::ProducersSectionReader<'_>) -> usize {
    let mut best = FLAVORS.len();
    for field in fields.into_iter().flatten() {
        for value in field.values.into_iter().flatten() {
            let rank = FLAVORS
                .iter()
                .position(|&(name, start, _)| field.name == name && value.name.starts_with(start));
            best = best.min(rank.unwrap_or(FLAVORS.len()));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{COMPONENT_HEADER, Problem, check_header, flavor};

    /// An empty component with a `producers` section.
    fn component_by(field: &str, value: &str) -> Vec<u8> {
        let text = |text: &str| {
            let mut bytes = vec![u8::try_from(text.len()).unwrap()];
            bytes.extend(text.as_bytes());
            bytes
        };
        let mut section = text("producers");
        section.push(1);
        section.extend(text(field));
        section.push(1);
        section.extend(text(value));
        section.extend(text("1.0"));
        let mut bytes = COMPONENT_HEADER.to_vec();
        bytes.extend([0, u8::try_from(section.len()).unwrap()]);
        bytes.extend(section);
        bytes
    }

    #[test]
    fn the_header_tells_what_a_file_is() {
        assert!(check_header(COMPONENT_HEADER).is_ok());
        for (bytes, part) in [
            (&b""[..], "empty"),
            (b"\0asm\x01\0\0\0", "core module"),
            (b"\0asm\x0e\0\x01\0", "another version"),
            (b"(component)", "text"),
            (b"\x7fELF\x02\x01\x01\0", "other data"),
        ] {
            match check_header(bytes) {
                Err(Problem::NotAComponent { found }) => assert!(found.contains(part), "{found}"),
                other => panic!("{bytes:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_flavor_is_read_from_the_producers() {
        for (field, value, expected) in [
            ("language", "Rust", Some("rust")),
            ("language", "C11", Some("c")),
            ("language", "C_plus_plus_14", Some("cpp")),
            ("language", "JavaScript", Some("js")),
            ("processed-by", "wit-bindgen-rust", Some("rust")),
            ("processed-by", "wit-component", None),
            ("sdk", "Rust", None),
        ] {
            assert_eq!(
                flavor(&component_by(field, value)).unwrap(),
                expected,
                "{value}"
            );
        }
        assert_eq!(flavor(COMPONENT_HEADER).unwrap(), None);
    }

    #[test]
    fn an_interpreter_does_not_pass_for_the_language_of_the_skill() {
        let mut bytes = component_by("language", "Rust");
        bytes.extend(b"\0\x09\x08dylink.0");
        assert_eq!(flavor(&bytes).unwrap(), None);
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let mut bytes = component_by("language", "Rust");
        bytes.truncate(20);
        let refused = flavor(&bytes);
        assert!(
            matches!(refused, Err(Problem::DamagedComponent { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn endless_nesting_is_refused() {
        let mut bytes = COMPONENT_HEADER.to_vec();
        for _ in 0..64 {
            let mut outer = COMPONENT_HEADER.to_vec();
            outer.push(4);
            let mut length = bytes.len();
            while length > 0x7f {
                outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
                length >>= 7;
            }
            outer.push(u8::try_from(length).unwrap());
            outer.extend(&bytes);
            bytes = outer;
        }
        let refused = flavor(&bytes);
        assert!(
            matches!(refused, Err(Problem::DeepComponent { max: 32 })),
            "{refused:?}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = COMPONENT_HEADER.to_vec();
            bytes.extend(tail);
            let _ = flavor(&bytes);
        }
    }
}
