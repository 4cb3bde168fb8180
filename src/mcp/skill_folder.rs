//! The skills extension: the folders of skills, for clients whose model follows the text of a skill itself.
//!
//! `skill://<name>/<path>` is a file as it was when the skill was loaded; one that changed since is not served.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    DIRECTORY_MIME_TYPE, ErrorData, GetSkillRequestParams, GetSkillResult, ListSkillsResult,
    PaginatedRequestParams, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    Resource, ResourceContents, Skill as Listed, SkillFrontmatter, SkillResource, SkillResources,
};
use serde_json::{Value, json};
use url::Url;

use super::Mcp;
use super::page::{LIST_TTL_MS, page};
use super::resource::{URI_BYTES_MAX, not_found};
use super::start::internal;
use crate::registry::{Document, DocumentError, Registry, SKILL_FILE, Skill};

/// What addresses of files of skills begin with.
pub(super) const SCHEME: &str = "skill://";

/// The address of a file of a skill.
pub(super) fn uri(skill: &Skill, path: &str) -> String {
    let root = format!("{SCHEME}{}", skill.name);
    let Ok(mut uri) = Url::parse(&root) else {
        return root;
    };
    if let Ok(mut segments) = uri.path_segments_mut() {
        segments.extend(path.split('/'));
    }
    uri.into()
}

/// The skills whose folders are served.
fn served(registry: &Registry) -> impl Iterator<Item = &Arc<Skill>> {
    let is_served = |skill: &&Arc<Skill>| skill.manifest.expose.mcp && !skill.is_bare;
    registry.skills().filter(is_served)
}

/// The skill that an address is in, if its folder is served.
fn skill_of(registry: &Registry, uri: &str) -> Option<Arc<Skill>> {
    if uri.len() > URI_BYTES_MAX {
        return None;
    }
    let name = uri.strip_prefix(SCHEME)?.split('/').next()?;
    let mut all = served(registry);
    all.find(|skill| skill.name.as_str() == name).cloned()
}

/// The path of the file of `skill` that has that address. Addresses are compared as they are given out, so that none
/// can be read in two ways.
fn path_of<'s>(skill: &'s Skill, address: &str) -> Option<(&'s str, &'s Document)> {
    let mut documents = skill.documents.iter();
    let found = documents.find(|(path, _)| uri(skill, path) == address);
    found.map(|(path, document)| (path.as_str(), document))
}

/// The digest of what there is at an address, if it is that of a file of a skill.
pub(super) fn digest(registry: &Registry, uri: &str) -> Option<String> {
    let skill = skill_of(registry, uri)?;
    let (_, document) = path_of(&skill, uri)?;
    Some(document.sha256.clone())
}

/// The text of each skill, as a resource.
pub(super) fn texts(registry: &Registry) -> Vec<Resource> {
    let text = |skill: &Arc<Skill>| {
        let document = skill.documents.get(SKILL_FILE)?;
        let front_matter = front_matter(skill);
        let resource = file(skill, SKILL_FILE, document);
        let mut resource = resource.with_description(front_matter.description);
        resource.name = front_matter.name;
        Some(resource)
    };
    served(registry).filter_map(text).collect()
}

fn file(skill: &Skill, path: &str, document: &Document) -> Resource {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut resource = Resource::new(uri(skill, path), name).with_size(document.bytes);
    resource.mime_type = mime_type(path).map(str::to_owned);
    resource
}

/// The head of SKILL.md, whole.
fn front_matter(skill: &Skill) -> SkillFrontmatter {
    let mut whole = skill.front_matter.clone();
    whole.remove("name");
    let description = match whole.remove("description") {
        Some(Value::String(text)) => text,
        _ => skill.description.clone(),
    };
    let mut front_matter = SkillFrontmatter::new(skill.name.as_str(), description);
    front_matter.extra = whole;
    front_matter
}

fn listed(skill: &Skill) -> Listed {
    let files = skill.documents.iter().map(|(path, document)| {
        let digest = format!("sha256:{}", document.sha256);
        SkillResource::new(uri(skill, path), digest, document.bytes)
    });
    let files = SkillResources::Files(files.collect());
    Listed::new(uri(skill, SKILL_FILE), front_matter(skill), files)
}

/// The media type of a file, as far as its name tells.
fn mime_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "md" => "text/markdown",
        "txt" => "text/plain",
        "csv" => "text/csv",
        "html" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "py" => "text/x-python",
        "sh" => "text/x-shellscript",
        "json" => "application/json",
        "toml" => "application/toml",
        "yaml" | "yml" => "application/yaml",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        _ => return None,
    })
}

/// What is directly in a folder of a skill, by address; none when there is no such folder.
fn children(skill: &Skill, folder: &str) -> Option<BTreeMap<String, Resource>> {
    let root = uri(skill, "");
    let address = folder.strip_suffix('/').unwrap_or(folder);
    let mut found = BTreeMap::new();
    for (path, document) in &skill.documents {
        let parts: Vec<&str> = path.split('/').collect();
        for depth in 0..parts.len() {
            let above = parts.get(..depth).unwrap_or_default().join("/");
            let own = match above.as_str() {
                "" => root.strip_suffix('/').unwrap_or(&root).to_owned(),
                above => uri(skill, above),
            };
            if own != address {
                continue;
            }
            let child = parts.get(..=depth).unwrap_or_default().join("/");
            let resource = match child == *path {
                true => file(skill, path, document),
                false => {
                    let name = parts.get(depth).copied().unwrap_or_default();
                    Resource::new(uri(skill, &child), name).with_mime_type(DIRECTORY_MIME_TYPE)
                }
            };
            found.insert(resource.uri.clone(), resource);
        }
    }
    (!found.is_empty()).then_some(found)
}

impl Mcp {
    pub(super) fn list_skills(
        &self,
        request: Option<&PaginatedRequestParams>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let registry = self.host().skills().current();
        let skills = served(&registry).map(|skill| (skill.name.to_string(), listed(skill)));
        let page = page("skills/list", skills, request, self.settings().page_size)?;
        let mut result = ListSkillsResult::with_all_items(page.items).with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = page.next_cursor;
        Ok(result)
    }

    pub(super) fn get_skill(
        &self,
        request: &GetSkillRequestParams,
    ) -> Result<GetSkillResult, ErrorData> {
        let registry = self.host().skills().current();
        let skill = skill_of(&registry, &request.uri);
        let skill = skill.filter(|skill| uri(skill, SKILL_FILE) == request.uri);
        let skill = skill.ok_or_else(|| invalid("there is no such skill", &request.uri))?;
        Ok(GetSkillResult::new(listed(&skill)).with_ttl_ms(LIST_TTL_MS))
    }

    pub(super) fn read_skill_folder(
        &self,
        request: &ReadResourceDirectoryRequestParams,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        let registry = self.host().skills().current();
        let uri = &request.uri;
        let children = skill_of(&registry, uri).and_then(|skill| children(&skill, uri));
        let children = children.ok_or_else(|| invalid("there is no such folder", uri))?;
        let mut paged = PaginatedRequestParams::default();
        paged.cursor = request.cursor.clone();
        let list = format!("resources/directory/read {uri}");
        let page_size = self.settings().page_size;
        let page = page(&list, children, Some(&paged), page_size)?;
        let mut result = ReadResourceDirectoryResult::with_all_items(page.items);
        result.next_cursor = page.next_cursor;
        Ok(result.with_ttl_ms(LIST_TTL_MS))
    }

    /// A file of a skill, as it was when the skill was loaded.
    pub(super) async fn read_skill_file(&self, uri: &str) -> Result<ResourceContents, ErrorData> {
        let registry = self.host().skills().current();
        let skill = skill_of(&registry, uri).ok_or_else(|| not_found(uri))?;
        let (path, _) = path_of(&skill, uri).ok_or_else(|| not_found(uri))?;
        let path = path.to_owned();
        let read = tokio::task::spawn_blocking({
            let (skill, path) = (Arc::clone(&skill), path.clone());
            move || skill.read_document(&path)
        });
        let bytes = match read.await.map_err(|error| internal(&error))? {
            Ok(bytes) => bytes,
            Err(DocumentError::NotFound) => return Err(not_found(uri)),
            Err(error @ DocumentError::Changed) => {
                let data = json!({ "code": "changed", "uri": uri });
                return Err(ErrorData::internal_error(error.to_string(), Some(data)));
            }
            Err(error) => return Err(internal(&error)),
        };
        let contents = match String::from_utf8(bytes) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(error) => ResourceContents::blob(STANDARD.encode(error.as_bytes()), uri)
                .with_mime_type("application/octet-stream"),
        };
        Ok(match mime_type(&path) {
            Some(mime_type) => contents.with_mime_type(mime_type),
            None => contents,
        })
    }
}

fn invalid(message: &'static str, uri: &str) -> ErrorData {
    let end = uri.floor_char_boundary(URI_BYTES_MAX);
    let data = json!({ "code": "not_found", "uri": uri.get(..end) });
    ErrorData::invalid_params(message, Some(data))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use rmcp::model::DIRECTORY_MIME_TYPE;
    use serde_json::json;

    use super::{children, digest, front_matter, listed, path_of, uri};
    use crate::registry::{Registry, Skill};

    fn skill(folder: &Path) -> Skill {
        let folder = folder.join("notes");
        std::fs::create_dir_all(folder.join("references/deep")).unwrap();
        let head = "name: notes\ndescription: >\n  Keeps\n  notes.\nversion: 1.0\nextra: [a, 2]\n";
        for (path, text) in [
            ("SKILL.md", format!("---\n{head}---\nbody\n")),
            ("references/a b?.md", "a".to_owned()),
            ("references/deep/%2e.txt", "b".to_owned()),
        ] {
            std::fs::write(folder.join(path), text).unwrap();
        }
        Skill::from_folder(&folder).unwrap()
    }

    #[test]
    fn a_skill_is_listed_with_its_head_and_each_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let skill = skill(dir.path());
        let listed = listed(&skill);
        listed.validate().unwrap();
        let listed = serde_json::to_value(listed).unwrap();
        assert_eq!(listed["uri"], "skill://notes/SKILL.md");
        let head = json!({ "name": "notes", "description": "Keeps notes.\n", "version": 1.0, "extra": ["a", 2] });
        assert_eq!(listed["frontmatter"], head);
        let uris: Vec<&str> = listed["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["uri"].as_str().unwrap())
            .collect();
        let expected = [
            "skill://notes/SKILL.md",
            "skill://notes/references/a%20b%3F.md",
            "skill://notes/references/deep/%252e.txt",
        ];
        assert_eq!(uris, expected);
        for (path, document) in &skill.documents {
            let (found, same) = path_of(&skill, &uri(&skill, path)).unwrap();
            assert_eq!((found, same), (path.as_str(), document));
        }
        assert_eq!(front_matter(&skill).description, "Keeps notes.\n");
    }

    #[test]
    fn a_folder_has_what_is_directly_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let skill = skill(dir.path());
        let of = |uri: &str| {
            let children = children(&skill, uri)?;
            let named = children.into_values().map(|child| {
                let is_folder = child.mime_type.as_deref() == Some(DIRECTORY_MIME_TYPE);
                (child.name, is_folder)
            });
            Some(named.collect::<Vec<_>>())
        };
        let named = |name: &str, is_folder| (name.to_owned(), is_folder);
        let root = vec![named("SKILL.md", false), named("references", true)];
        assert_eq!(of("skill://notes"), Some(root.clone()));
        assert_eq!(of("skill://notes/"), Some(root));
        let inner = vec![named("a b?.md", false), named("deep", true)];
        assert_eq!(of("skill://notes/references"), Some(inner));
        for none in [
            "skill://notes/SKILL.md",
            "skill://notes/none",
            "skill://",
            "skill://notes/..",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_the_address_of_a_file_or_none(text in "(skill://(notes)?)?\\PC{0,40}") {
            let dir = tempfile::tempdir().unwrap();
            let registry = Registry::of([skill(dir.path())]);
            let _digest = digest(&registry, &text);
        }
    }
}
