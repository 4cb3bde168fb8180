//! One skill, read whole or refused.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

use super::component::{COMPONENT_FILE, Component, inspect};
use super::document::{self, Document, DocumentError};
use super::finding::{FileFindings, Finding, Findings, LoadError, Problem};
use super::folder::{Content, Folder, read_regular, sha256};
use super::front_matter::{self, FrontMatter, SKILL_FILE, SKILL_FILE_BYTES_MAX};
use super::manifest::{self, ComponentSection, MANIFEST_BYTES_MAX, MANIFEST_FILE, Manifest};
use super::pin::{Change, Pin};
use super::state::{SkillState, StateError, StateLock};
use crate::capability::SkillName;
use crate::config::COMPONENT_BYTES_MAX;
use crate::schema::Contract;

/// The flavor of a skill without a component.
const PROMPT_FLAVOR: &str = "prompt";

/// A skill as it was when it was loaded. What changes on disk later does not change it.
#[derive(Debug)]
pub struct Skill {
    /// Its name, the same as its folder's.
    pub name: SkillName,
    /// What it does and when to use it; empty for a component that was loaded without a folder.
    pub description: String,
    /// The license, when the author named one.
    pub license: Option<String>,
    /// What it needs around it, when the author said so.
    pub compatibility: Option<String>,
    /// Whatever else the author noted.
    pub metadata: BTreeMap<String, String>,
    /// Tools that the author expects to be allowed. It grants nothing.
    pub allowed_tools: Vec<String>,
    /// SKILL.md below its front matter.
    pub body: Arc<str>,
    /// The skill's folder; that of the component file, when it was loaded without one of its own.
    pub folder: PathBuf,
    /// The component; none for a skill that is only a prompt.
    pub component: Option<Component>,
    /// The manifest; the default one when there is no file.
    pub manifest: Manifest,
    /// The language it was written in, or `prompt`; none when nothing tells.
    pub flavor: Option<String>,
    /// Whether it is a component that was loaded without a folder, and so without a manifest to ask in.
    pub is_bare: bool,
    /// SHA-256 of every file that was read of it, by its path in the folder.
    pub files: BTreeMap<String, String>,
    /// The head of SKILL.md as JSON, keys included that the rules do not know.
    pub front_matter: Map<String, Value>,
    /// What there is to be read of it by whoever follows its text, by its path in the folder, `/` between the parts:
    /// what was read of it but for the component, and the files in `assets`, `references` and `scripts`.
    pub documents: BTreeMap<String, Document>,
    /// What is odd about it and does not hinder it.
    pub warnings: Vec<Finding>,
    /// What its input and its result have to fit, once whoever runs it has asked it.
    pub(crate) contract: tokio::sync::OnceCell<Contract>,
    /// Where it is installed; none for one that was named by its path.
    pub(super) installed: Option<Installed>,
}

/// What is known of a skill because it is installed.
#[derive(Debug)]
pub(super) struct Installed {
    skills_dir: PathBuf,
    /// Whether what was accepted of it is on disk, and is what was loaded.
    is_pinned: AtomicBool,
}

/// Why a skill could not be pinned, so that it is not to be run.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The state of the skills cannot be read or written.
    #[error("cannot pin the skill")]
    State(#[from] StateError),
    /// Something else was accepted after this one was loaded.
    #[error("changed since it was accepted: {0}")]
    Changed(Box<Change>),
}

impl Skill {
    /// Whether it is in the folder of skills, and was not named by its path.
    pub fn is_installed(&self) -> bool {
        self.installed.is_some()
    }

    /// Loads the skill in a folder.
    ///
    /// # Errors
    /// Anything in the folder breaks a rule; the error has everything that does.
    pub fn from_folder(path: &Path) -> Result<Self, LoadError> {
        let mut findings = Findings::default();
        let skill = read_folder(path, &mut findings).and_then(|(skill, _)| skill);
        finish(path, skill, findings)
    }

    /// Loads the skill in a folder of `skills_dir`, and refuses it when it is not the one that was
    /// accepted.
    pub(super) fn installed(
        skills_dir: &Path,
        name: &OsStr,
        state: &SkillState,
    ) -> Result<Self, LoadError> {
        let path = skills_dir.join(name);
        let mut findings = Findings::default();
        let read = read_folder(&path, &mut findings);
        let (skill, found) = read.map_or((None, None), |(skill, pin)| (skill, Some(pin)));
        if let (Some(pin), Some(found)) = (&state.pin, &found)
            && let Some(change) = pin.change_to(found)
        {
            findings.refuse(&path, Problem::Changed(Box::new(change)));
        }
        let skill = finish(&path, skill, findings)?;
        Ok(Self {
            installed: Some(Installed {
                skills_dir: skills_dir.to_owned(),
                is_pinned: AtomicBool::new(state.pin.is_some()),
            }),
            ..skill
        })
    }

    /// The skill as it is to be accepted: what it consists of and what it asks for.
    pub fn pin(&self) -> Pin {
        Pin {
            files: self.files.clone(),
            capabilities: self.manifest.capabilities.clone(),
            limits: self.manifest.limits.clone(),
        }
    }

    /// Whether an installed skill was accepted, as it is; none for one that was named by its path.
    pub fn is_pinned(&self) -> Option<bool> {
        let installed = self.installed.as_ref()?;
        Some(installed.is_pinned.load(Ordering::Acquire))
    }

    /// Accepts an installed skill as it was loaded, when it was never used before. When it returns,
    /// that is durable, and a change of the skill will be refused. A skill that was named by its path
    /// is not pinned.
    ///
    /// # Errors
    /// The state cannot be written, or another process accepted something else in the meantime.
    pub fn pin_on_first_use(&self) -> Result<(), PinError> {
        let Some(installed) = self.installed.as_ref() else {
            return Ok(());
        };
        if installed.is_pinned.load(Ordering::Acquire) {
            return Ok(());
        }
        let lock = StateLock::acquire(&installed.skills_dir)?;
        let found = self.pin();
        let state = lock.read()?;
        let accepted = state.skills.get(&self.name).and_then(|s| s.pin.as_ref());
        match accepted.map(|accepted| accepted.change_to(&found)) {
            Some(Some(change)) => return Err(PinError::Changed(Box::new(change))),
            Some(None) => {}
            None => lock.change(&self.name, |state| state.pin = Some(found))?,
        }
        installed.is_pinned.store(true, Ordering::Release);
        Ok(())
    }

    /// A file that there is to be read of it, as it was when the skill was loaded.
    ///
    /// # Errors
    /// There was none of that path, or it cannot be read, or it is another one by now.
    pub fn read_document(&self, path: &str) -> Result<Vec<u8>, DocumentError> {
        let document = self.documents.get(path).ok_or(DocumentError::NotFound)?;
        document::read(&self.folder, path, document)
    }

    /// Loads a component without a folder: no text, no manifest, so nothing is asked for. The name is
    /// made from the file's.
    ///
    /// # Errors
    /// The file cannot be read, is too large or is not a component.
    pub fn from_wasm(path: &Path) -> Result<Self, LoadError> {
        let mut findings = Findings::default();
        let skill = read_wasm(path).map_err(|problem| findings.refuse(path, problem));
        finish(path, skill.ok(), findings)
    }
}

/// Everything that is wrong or odd in a skill's folder, or with a component file on its own, errors
/// first, each by file and place.
pub fn validate(path: &Path) -> Vec<Finding> {
    let mut findings = Findings::default();
    if path.is_file() {
        if let Err(problem) = read_wasm(path) {
            findings.refuse(path, problem);
        }
    } else {
        read_folder(path, &mut findings);
    }
    let (mut errors, warnings) = findings.into_sorted();
    errors.extend(warnings);
    errors
}

fn finish(path: &Path, skill: Option<Skill>, findings: Findings) -> Result<Skill, LoadError> {
    let (errors, warnings) = findings.into_sorted();
    match skill {
        Some(skill) if errors.is_empty() => Ok(Skill { warnings, ..skill }),
        _ => Err(LoadError {
            path: path.to_owned(),
            findings: errors,
        }),
    }
}

fn read_wasm(path: &Path) -> Result<Skill, Problem> {
    let target = std::fs::canonicalize(path).map_err(Problem::Unreadable)?;
    let bytes = read_regular(&target, COMPONENT_BYTES_MAX)?;
    let content = Content {
        sha256: sha256(&bytes),
        bytes,
        target,
    };
    let (component, flavor) = inspect(&content)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Skill {
        name: SkillName::sanitised(&stem),
        description: String::new(),
        license: None,
        compatibility: None,
        metadata: BTreeMap::new(),
        allowed_tools: Vec::new(),
        body: "".into(),
        folder: path.parent().unwrap_or(path).to_owned(),
        files: BTreeMap::from([(COMPONENT_FILE.to_owned(), content.sha256)]),
        front_matter: Map::new(),
        documents: BTreeMap::new(),
        component: Some(component),
        manifest: Manifest::default(),
        flavor: flavor.map(str::to_owned),
        is_bare: true,
        warnings: Vec::new(),
        contract: tokio::sync::OnceCell::new(),
        installed: None,
    })
}

/// Reads every file, also when an earlier one is wrong, so that all that is wrong is told at once. The
/// skill counts only when no error was found. What the folder consists of is known also when there is no
/// skill in it; there is nothing when it is no folder.
pub(super) fn read_folder(path: &Path, findings: &mut Findings) -> Option<(Option<Skill>, Pin)> {
    let folder = Folder::open(path)
        .map_err(|problem| findings.refuse(path, problem))
        .ok()?;
    let text = read_skill_file(&folder, findings);
    let manifest = read_manifest(&folder, findings).unwrap_or_default();
    let stated = manifest.component.as_ref();
    let component = read_component(&folder, stated, findings);
    let pin = Pin {
        files: folder.digests(),
        capabilities: manifest.capabilities.clone(),
        limits: manifest.limits.clone(),
    };
    let Some((front_matter, body)) = text else {
        return Some((None, pin));
    };
    let documents = document::read_all(&folder, findings);
    let flavor = match &component {
        None => Some(PROMPT_FLAVOR.to_owned()),
        Some((_, found)) => stated
            .and_then(|section| section.flavor.clone())
            .or_else(|| found.map(str::to_owned)),
    };
    let skill = Skill {
        name: front_matter.name,
        description: front_matter.description,
        license: front_matter.license,
        compatibility: front_matter.compatibility,
        metadata: front_matter.metadata,
        allowed_tools: front_matter.allowed_tools,
        body,
        folder: folder.path,
        component: component.map(|(component, _)| component),
        manifest,
        flavor,
        is_bare: false,
        files: pin.files.clone(),
        front_matter: front_matter.whole,
        documents,
        warnings: Vec::new(),
        contract: tokio::sync::OnceCell::new(),
        installed: None,
    };
    Some((Some(skill), pin))
}

fn read_skill_file(folder: &Folder, findings: &mut Findings) -> Option<(FrontMatter, Arc<str>)> {
    let file = folder.path.join(SKILL_FILE);
    let expected = "SKILL.md, the text of the skill";
    let text = folder
        .read_text(SKILL_FILE, SKILL_FILE_BYTES_MAX)
        .and_then(|text| text.ok_or(Problem::Missing { expected }))
        .map_err(|problem| findings.refuse(&file, problem))
        .ok()?;
    let mut in_file = FileFindings { findings, file };
    let (front_matter, body) = front_matter::parse(&text, &folder.name(), &mut in_file)?;
    Some((front_matter, body.into()))
}

fn read_manifest(folder: &Folder, findings: &mut Findings) -> Option<Manifest> {
    let file = folder.path.join(MANIFEST_FILE);
    let text = folder
        .read_text(MANIFEST_FILE, MANIFEST_BYTES_MAX)
        .map_err(|problem| findings.refuse(&file, problem))
        .ok()??;
    Some(manifest::parse(
        &text,
        folder,
        &mut FileFindings { findings, file },
    ))
}

fn read_component(
    folder: &Folder,
    stated: Option<&ComponentSection>,
    findings: &mut Findings,
) -> Option<(Component, Option<&'static str>)> {
    let file = folder.path.join(COMPONENT_FILE);
    let inspected = match folder.read(COMPONENT_FILE, COMPONENT_BYTES_MAX) {
        Ok(Some(content)) => inspect(&content),
        Ok(None) if stated.is_none() => return None,
        Ok(None) => Err(Problem::Missing {
            expected: "skill.wasm, because skill.toml has [component]",
        }),
        Err(problem) => Err(problem),
    };
    let (component, flavor) = inspected
        .map_err(|problem| findings.refuse(&file, problem))
        .ok()?;
    let expected = stated.and_then(|section| section.sha256.as_ref());
    if let Some(expected) = expected.filter(|&expected| *expected != component.sha256) {
        let problem = Problem::DigestMismatch {
            expected: expected.clone(),
            found: component.sha256.clone(),
        };
        findings.refuse(&file, problem);
    }
    Some((component, flavor))
}
