//! What the author of a component's WIT says about its functions.
//!
//! WIT comments are no part of a component's type. The tools of the component model write them into a
//! custom section, `package-docs`, of a package that is encoded as WebAssembly; a component that brings
//! the section along is read the same way. It is a comment: one that is damaged says nothing.

use serde_json::Value;
use wasmparser::{Parser, Payload};

/// The custom section.
const SECTION: &str = "package-docs";
/// What it begins with: the versions of its form that are known, before JSON text.
const VERSIONS: [u8; 2] = [0, 1];
/// Bytes of the section. Protects the load of a component from one that is only comment.
const SECTION_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a description. Protects listings.
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;

/// The section of one component.
pub(super) struct Docs(Value);

impl Docs {
    /// Reads the section of the outermost component.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let section = section(bytes).filter(|data| data.len() <= SECTION_BYTES_MAX);
        let json = section.and_then(|data| match data.split_first() {
            Some((version, json)) if VERSIONS.contains(version) => Some(json),
            _ => None,
        });
        let docs = json.and_then(|json| serde_json::from_slice(json).ok());
        Self(docs.unwrap_or_default())
    }

    /// What is said about a function, by its full name; empty: nothing.
    pub(super) fn of(&self, full_name: &str) -> &str {
        let Self(docs) = self;
        let found = match full_name.rsplit_once('.') {
            Some((interface, function)) => {
                let name = interface.rsplit('/').next().unwrap_or(interface);
                let name = name.split('@').next().unwrap_or(name);
                let of_package = docs.pointer(&format!("/interfaces/{name}/funcs/{function}"));
                of_package.or_else(|| {
                    self.in_worlds(&["interface_exports", "interfaces"], |interfaces| {
                        interfaces.get(name)?.get("funcs")?.get(function)
                    })
                })
            }
            None => self.in_worlds(&["func_exports", "funcs"], |functions| {
                functions.get(full_name)
            }),
        };
        let text = found.and_then(|function| function.get("docs").unwrap_or(function).as_str());
        let text = text.unwrap_or_default().trim();
        crate::executor::guest_record::cut(text, DESCRIPTION_BYTES_MAX)
    }

    /// Looks into those parts of every world.
    fn in_worlds<'a>(
        &'a self,
        parts: &[&str],
        look: impl Fn(&'a Value) -> Option<&'a Value>,
    ) -> Option<&'a Value> {
        let worlds = self.0.get("worlds")?.as_object()?;
        worlds.values().find_map(|world| {
            let mut parts = parts.iter().filter_map(|part| world.get(part));
            parts.find_map(&look)
        })
    }
}

/// The content of the section in the outermost component.
fn section(bytes: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.ok()? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 1 && section.name() == SECTION => {
                return Some(section.data());
            }
            _ => {}
        }
    }
    None
}
