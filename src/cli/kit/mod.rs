//! The author kit: a project made from a template, its component built, its cases run in the sandbox.
//!
//! A project is its author's own, and so are the tools that build it: they run as the author does, outside
//! of any sandbox. What comes out is treated like any other skill.

mod build;
mod case;
mod dist;
mod freshness;
mod language;
mod mocks;
pub(crate) mod new;
mod regression;
mod sources;
mod toolchain;
mod trial;
mod verdict;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

use self::case::Case;
pub(crate) use self::language::Language;
pub(crate) use self::regression::Regression;
use super::commands::skills::unloadable;
use super::exit::Refused;
use super::printer::Printer;
use crate::capability::SkillName;
use crate::clock::Clock;
use crate::config::Config;
use crate::registry::Skill;

/// The folder of cases in a project.
const CASES_FOLDER: &str = "tests";
/// What is said of a folder that is no project.
const NO_PROJECT_HINT: &str = "name the folder of a project; skillrun new makes one";
/// Files of cases that are read. Protects from a folder that is not meant.
const CASE_FILES_MAX: usize = 1000;

/// A skill that was built, as it is shipped.
pub(crate) struct Built {
    pub(crate) skill: Skill,
    pub(crate) folder: PathBuf,
    /// Bytes of the component.
    pub(crate) component_bytes: u64,
    pub(crate) build_micros: u64,
}

/// The project in a folder, which has to be there.
pub(crate) fn project(folder: &Path) -> anyhow::Result<PathBuf> {
    let missing = || Refused::not_found(format!("no such folder: {}", folder.display()));
    let project = fs::canonicalize(folder).map_err(|_| missing())?;
    if !project.is_dir() {
        return Err(missing().into());
    }
    Ok(project)
}

/// Builds a project, and puts what is shipped into `dist`.
///
/// # Errors
/// A tool is missing or fails, or what was built is no valid skill.
pub(crate) async fn build(
    project: &Path,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Built> {
    let since = Clock::system().stopwatch();
    let name = dist::name(project)?;
    // Taken before the build, so that what is changed meanwhile is built the next time.
    let sources = freshness::of(project);
    let component = build::component(project, printer)?;
    let build_micros = since.elapsed_micros();
    let skill = dist::assemble(project, &name, &component)?;
    let folder = dist::folder(project, &name);
    if let Some(found) = unloadable(&folder, config).await? {
        return Err(Refused::invalid(found.text()).into());
    }
    freshness::note(project, sources.as_deref());
    let component_bytes = fs::metadata(&component)
        .with_context(|| format!("cannot read {}", component.display()))?
        .len();
    Ok(Built {
        skill,
        folder,
        component_bytes,
        build_micros,
    })
}

/// The skill of a project as it is shipped, built again if its sources are other ones now and `may_build`.
///
/// # Errors
/// As for [`build`]; or there is nothing in `dist` and it must not be built.
pub(crate) async fn shipped(
    project: &Path,
    may_build: bool,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Skill> {
    let name: SkillName = dist::name(project)?;
    let folder = dist::folder(project, &name);
    let is_there = folder.join(crate::registry::COMPONENT_FILE).is_file();
    if may_build {
        let sources = freshness::of(project);
        if !is_there || !freshness::is(project, sources.as_deref()) {
            return Ok(build(project, config, printer).await?.skill);
        }
    } else if !is_there {
        let refused = Refused::not_found(format!("{} is not there", folder.display()));
        return Err(refused.with_hint("skillrun build makes it").into());
    }
    Ok(Skill::from_folder(&folder)?)
}

/// The cases of a project with their names, by file and place in it.
///
/// # Errors
/// There are none, or a file cannot be read or is none.
pub(crate) fn cases(project: &Path) -> anyhow::Result<Vec<NamedCase>> {
    let folder = project.join(CASES_FOLDER);
    let unreadable = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    if folder.is_dir() {
        for entry in fs::read_dir(&folder).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() || files.len() > CASE_FILES_MAX {
        let found = files.len();
        let message = format!(
            "{} has {found} files that end in .json: expected 1 to {CASE_FILES_MAX}",
            folder.display()
        );
        let refused = Refused::usage(message);
        return Err(match Language::of(project) {
            Ok(_) => refused.into(),
            Err(_) => refused.with_hint(NO_PROJECT_HINT).into(),
        });
    }
    let mut cases = Vec::new();
    for path in files {
        let text = read(&path)?;
        // Told with the path that the author sees.
        let shown = path.strip_prefix(project).unwrap_or(&path);
        let of_file =
            case::parse(shown, &text).map_err(|error| Refused::usage(error.to_string()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_alone = of_file.len() == 1;
        for (index, case) in of_file.into_iter().enumerate() {
            let name = match &case.name {
                Some(name) => name.clone(),
                None if is_alone => stem.clone().into_owned(),
                None => format!("{stem}[{index}]"),
            };
            cases.push(NamedCase {
                name,
                file: shown.to_owned(),
                case,
            });
        }
    }
    Ok(cases)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let failed = || format!("cannot read {}", path.display());
    let file = fs::File::open(path).with_context(failed)?;
    let mut text = String::new();
    let bound = case::FILE_BYTES_MAX.saturating_add(1);
    file.take(bound)
        .read_to_string(&mut text)
        .with_context(failed)?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes > case::FILE_BYTES_MAX) {
        let message = format!(
            "{} is too large: expected at most {} bytes",
            path.display(),
            case::FILE_BYTES_MAX
        );
        return Err(Refused::usage(message).into());
    }
    Ok(text)
}

/// A case and what it is called.
pub(crate) struct NamedCase {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    case: Case,
}

/// Runs cases one after the other.
pub(crate) struct Runs {
    bench: trial::Bench,
}

impl Runs {
    /// Runs of a skill whose ledgers lie in `folder`.
    pub(crate) fn new(skill: Skill, config: &Config, folder: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            bench: trial::Bench::new(skill, config, folder)?,
        })
    }

    /// Runs one.
    pub(crate) async fn run(&self, case: NamedCase) -> anyhow::Result<Trial> {
        self.bench.run(case.case).await
    }
}

pub(crate) use self::trial::Trial;
