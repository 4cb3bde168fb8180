//! Skills in real folders.

use std::error::Error;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use skillrun::registry::{Registry, Severity, Skill, validate};
use tempfile::TempDir;

/// The start of every component, and so an empty one.
const COMPONENT: &[u8] = b"\0asm\x0d\x00\x01\x00";
/// An empty core module.
const MODULE: &[u8] = b"\0asm\x01\x00\x00\x00";
/// A custom section by which tools tell that the source was Rust.
const WRITTEN_IN_RUST: &[u8] = b"\x00\x1f\x09producers\x01\x08language\x01\x04Rust\x041.95";

struct SkillsDir(TempDir);

impl SkillsDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A skill of that name whose text is in order.
    fn prompt(&self, name: &str) -> PathBuf {
        let folder = self.path().join(name);
        fs::create_dir(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: Does {name}.\n---\nDo {name}.\n");
        fs::write(folder.join("SKILL.md"), text).unwrap();
        folder
    }

    /// The same with a component and a manifest.
    fn component(&self, name: &str, bytes: &[u8], manifest: &str) -> PathBuf {
        let folder = self.prompt(name);
        fs::write(folder.join("skill.wasm"), bytes).unwrap();
        fs::write(folder.join("skill.toml"), manifest).unwrap();
        folder
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// An error and everything behind it, on one line.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

fn refusal(folder: &Path) -> String {
    chain(&Skill::from_folder(folder).unwrap_err())
}

#[test]
fn a_skill_is_read_whole() {
    let skills = SkillsDir::new();
    let bytes = [COMPONENT, WRITTEN_IN_RUST].concat();
    let digest = sha256(&bytes);
    let manifest = format!(
        "[component]\nsha256 = '{digest}'\n[capabilities]\nrequest = ['env:LANG']\n\
         [limits]\nfuel = 7\n[schemas]\ninput = 'in.json'\n"
    );
    let folder = skills.component("greet", &bytes, &manifest);
    fs::write(folder.join("in.json"), "{\"type\": \"object\"}").unwrap();

    let skill = Skill::from_folder(&folder).unwrap();
    assert_eq!(skill.name.as_str(), "greet");
    assert_eq!(skill.description, "Does greet.");
    assert_eq!(&*skill.body, "Do greet.\n");
    assert_eq!(skill.flavor.as_deref(), Some("rust"));
    assert_eq!(skill.manifest.capabilities[0].to_string(), "env:LANG");
    assert_eq!(skill.manifest.limits["fuel"], 7);
    assert_eq!(
        skill.manifest.input_schema.as_ref().unwrap()["type"],
        "object"
    );
    assert!(skill.warnings.is_empty());
    let component = skill.component.unwrap();
    assert_eq!(component.sha256, digest);
    assert_eq!(component.size_bytes, u64::try_from(bytes.len()).unwrap());
    assert_eq!(component.read().unwrap(), bytes);
}

#[test]
fn the_manifest_tells_the_flavor_better_than_the_component() {
    let skills = SkillsDir::new();
    let bytes = [COMPONENT, WRITTEN_IN_RUST].concat();
    let stated = skills.component("stated", &bytes, "component.flavor = 'ts'");
    let untold = skills.component("untold", COMPONENT, "");
    let prompt = skills.prompt("prompt-only");
    let flavor = |folder: &Path| Skill::from_folder(folder).unwrap().flavor;
    assert_eq!(flavor(&stated).as_deref(), Some("ts"));
    assert_eq!(flavor(&untold), None);
    assert_eq!(flavor(&prompt).as_deref(), Some("prompt"));
}

#[test]
fn a_component_that_changed_after_it_was_loaded_is_not_read() {
    let skills = SkillsDir::new();
    let folder = skills.component("greet", COMPONENT, "");
    let component = Skill::from_folder(&folder).unwrap().component.unwrap();
    let changed = [COMPONENT, WRITTEN_IN_RUST].concat();
    fs::write(folder.join("skill.wasm"), &changed).unwrap();
    let error = chain(&component.read().unwrap_err());
    assert!(
        error.contains(&sha256(COMPONENT)) && error.contains(&sha256(&changed)),
        "{error}"
    );
}

#[test]
fn a_bad_skill_is_reported_and_hides_no_other() {
    let skills = SkillsDir::new();
    for name in ["zeta", "alpha"] {
        skills.prompt(name);
    }
    fs::create_dir(skills.path().join("no-text")).unwrap();
    let renamed = skills.prompt("renamed");
    fs::rename(renamed, skills.path().join("another")).unwrap();
    symlink("nowhere", skills.path().join("dangling")).unwrap();
    fs::create_dir(skills.path().join(std::ffi::OsStr::from_bytes(b"\xff"))).unwrap();
    fs::create_dir(skills.path().join(".git")).unwrap();
    fs::write(skills.path().join("README.md"), "").unwrap();

    let registry = Registry::load(skills.path());
    let names: Vec<&str> = registry.skills().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["alpha", "zeta"]);
    let refused: Vec<_> = registry
        .refused()
        .iter()
        .map(|error| error.path.file_name().unwrap().as_bytes())
        .collect();
    assert_eq!(refused, [&b"another"[..], b"dangling", b"no-text", b"\xff"]);
    let mismatch = chain(&registry.refused()[0]);
    assert!(
        mismatch.contains("SKILL.md:2:7: name \"renamed\" differs"),
        "{mismatch}"
    );
    let missing = chain(&registry.refused()[2]);
    assert!(
        missing.contains("no-text/SKILL.md: no such file"),
        "{missing}"
    );
}

#[test]
fn a_registry_stays_as_it_was_loaded() {
    let skills = SkillsDir::new();
    let folder = skills.prompt("greet");
    let registry = Registry::load(skills.path());
    let clone = registry.clone();
    drop(registry);
    fs::remove_dir_all(folder).unwrap();
    assert_eq!(&*clone.get("greet").unwrap().body, "Do greet.\n");
    assert!(clone.get("other").is_none());
    assert!(Registry::load(skills.path()).get("greet").is_none());
}

#[test]
fn a_folder_of_skills_may_be_absent_and_must_be_a_folder_of_bounded_size() {
    let skills = SkillsDir::new();
    let absent = Registry::load(&skills.path().join("absent"));
    assert!(absent.skills().len() == 0 && absent.refused().is_empty());

    let file = skills.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = Registry::load(&file);
    assert_eq!(refused.refused().len(), 1);

    for index in 0..1000 {
        fs::write(skills.path().join(format!("file-{index}")), "").unwrap();
    }
    let flooded = Registry::load(skills.path());
    let error = chain(&flooded.refused()[0]);
    assert!(
        error.contains("too many entries: expected at most 1000"),
        "{error}"
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let skills = SkillsDir::new();
    for name in ["greet", "triage", "fan-out"] {
        skills.prompt(name);
    }
    let registry = Registry::load(skills.path());
    let nearest = |name| registry.nearest(name).map(|name| name.as_str());
    assert_eq!(nearest("gret"), Some("greet"));
    assert_eq!(nearest("fanout"), Some("fan-out"));
    assert_eq!(nearest("zzz"), None);
    assert_eq!(nearest(&"x".repeat(100_000)), None);
}

#[test]
fn a_component_that_is_not_the_promised_one_is_refused() {
    let skills = SkillsDir::new();
    let promise = format!("component.sha256 = '{}'", sha256(b"another"));
    let other = refusal(&skills.component("other", COMPONENT, &promise));
    assert!(
        other.contains(&format!("component has sha256 {}", sha256(COMPONENT))),
        "{other}"
    );

    let missing = skills.prompt("missing");
    fs::write(missing.join("skill.toml"), "[component]\nworld = '0.1'\n").unwrap();
    let missing = refusal(&missing);
    assert!(missing.contains("skill.wasm: no such file"), "{missing}");

    for (name, bytes, part) in [
        ("module", MODULE, "found a core module"),
        ("text", b"(component)", "found text"),
        ("empty", b"", "found an empty file"),
        (
            "damaged",
            b"\0asm\x0d\x00\x01\x00\x00\x7f",
            "damaged component at byte",
        ),
    ] {
        let refused = refusal(&skills.component(name, bytes, ""));
        assert!(
            refused.contains("skill.wasm: ") && refused.contains(part),
            "{refused}"
        );
    }
}

#[test]
fn no_file_is_read_through_a_link_that_leads_out() {
    let skills = SkillsDir::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, COMPONENT).unwrap();
    for name in ["SKILL.md", "skill.toml", "skill.wasm"] {
        let folder = skills.component("greet", COMPONENT, "");
        fs::remove_file(folder.join(name)).unwrap();
        symlink(&secret, folder.join(name)).unwrap();
        let refused = refusal(&folder);
        let wanted = format!("{name}: link that leads out of the skill's folder");
        assert!(refused.contains(&wanted), "{refused}");
        fs::remove_dir_all(folder).unwrap();
    }

    let folder = skills.component("greet", COMPONENT, "schemas.input = 'sub/in.json'");
    symlink(outside.path(), folder.join("sub")).unwrap();
    fs::write(outside.path().join("in.json"), "{}").unwrap();
    let refused = refusal(&folder);
    assert!(
        refused.contains("sub/in.json: link that leads out"),
        "{refused}"
    );

    let inside = skills.prompt("inside");
    fs::write(inside.join("build.wasm"), COMPONENT).unwrap();
    symlink("build.wasm", inside.join("skill.wasm")).unwrap();
    let component = Skill::from_folder(&inside).unwrap().component.unwrap();
    assert_eq!(component.read().unwrap(), COMPONENT);
}

#[test]
fn files_that_are_too_large_are_refused() {
    let skills = SkillsDir::new();
    for (name, bytes_max) in [
        ("SKILL.md", 256 * 1024),
        ("skill.toml", 64 * 1024),
        ("skill.wasm", 256 * 1024 * 1024),
    ] {
        let folder = skills.component("greet", COMPONENT, "");
        let file = fs::File::options()
            .write(true)
            .open(folder.join(name))
            .unwrap();
        file.set_len(bytes_max + 1).unwrap();
        let refused = refusal(&folder);
        let wanted = format!("{name}: too large: expected at most {bytes_max} bytes");
        assert!(refused.contains(&wanted), "{refused}");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn validation_tells_everything_at_once() {
    let skills = SkillsDir::new();
    let manifest = "[component]\nworld = '9'\n[limits]\nfuel = 0\n";
    let folder = skills.component("greet", MODULE, manifest);
    let text = "---\nname: Greet\nversion: 1\ndescription: ''\n---\n";
    fs::write(folder.join("SKILL.md"), text).unwrap();

    let findings = validate(&folder);
    let told: Vec<(Severity, String)> = findings
        .iter()
        .map(|finding| {
            let place = finding.to_string();
            let place = place.rsplit('/').next().unwrap();
            (finding.severity, place.to_owned())
        })
        .collect();
    let expected = [
        (Severity::Error, "SKILL.md:2:7"),
        (Severity::Error, "SKILL.md:4:14"),
        (Severity::Error, "skill.toml:2:9"),
        (Severity::Error, "skill.toml:4:1"),
        (Severity::Error, "skill.wasm"),
        (Severity::Warning, "SKILL.md:3:1"),
    ];
    assert_eq!(
        told,
        expected.map(|(severity, place)| (severity, place.to_owned()))
    );

    let error = Skill::from_folder(&folder).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("(5 problems, the first is shown)"),
        "{error}"
    );
}

#[test]
fn a_warning_does_not_refuse_a_skill() {
    let skills = SkillsDir::new();
    let folder = skills.prompt("greet");
    let text = "---\nname: greet\ndescription: d\nversion: 1\n---\n";
    fs::write(folder.join("SKILL.md"), text).unwrap();
    let skill = Skill::from_folder(&folder).unwrap();
    assert_eq!(skill.warnings.len(), 1);
    assert!(skill.warnings[0].to_string().ends_with("SKILL.md:4:1"));
}

#[test]
fn a_folder_can_be_named_in_more_than_one_way() {
    let skills = SkillsDir::new();
    let folder = skills.prompt("greet");
    fs::create_dir(folder.join("src")).unwrap();
    for path in ["greet/", "greet/.", "greet/src/..", "greet/../greet"] {
        let skill = Skill::from_folder(&skills.path().join(path)).unwrap();
        assert_eq!(skill.name.as_str(), "greet", "{path}");
    }
    symlink("greet", skills.path().join("alias")).unwrap();
    let refused = refusal(&skills.path().join("alias"));
    assert!(
        refused.contains("differs from the folder's, \"alias\""),
        "{refused}"
    );
}

#[test]
fn a_component_alone_is_a_skill_that_asks_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("My Skill_v2.wasm");
    fs::write(&path, [COMPONENT, WRITTEN_IN_RUST].concat()).unwrap();
    let skill = Skill::from_wasm(&path).unwrap();
    assert_eq!(skill.name.as_str(), "my-skill-v2");
    assert_eq!(&*skill.body, "");
    assert_eq!(skill.flavor.as_deref(), Some("rust"));
    assert!(skill.manifest.capabilities.is_empty());

    fs::write(&path, MODULE).unwrap();
    let refused = chain(&Skill::from_wasm(&path).unwrap_err());
    assert!(refused.contains("found a core module"), "{refused}");
    let absent = chain(&Skill::from_wasm(&dir.path().join("absent.wasm")).unwrap_err());
    assert!(absent.contains("cannot be read"), "{absent}");
}
