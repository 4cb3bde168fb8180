//! Installing skills: from a folder and from archives, all of it or nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;
use skillrun_test_artifacts::{GREET, PROBE};

use super::{Refusal, hostile, skill_md};
use crate::archives::{TarEntry, ZipEntry, files, gzip, packed_tar, packed_zip, tar, tar_gz, zip};
use crate::harness::Home;

/// The folder of the skill `greet`, and what can be packed of it.
fn greet(home: &Home) -> PathBuf {
    let outside = Home::new(&[GREET]);
    let folder = home.path().join("greet");
    fs::rename(outside.skill("greet"), &folder).unwrap();
    folder
}

fn write(home: &Home, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = home.path().join(name);
    fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// What there is in the folder of skills, without the files that hold their state.
#[track_caller]
fn skills(home: &Home) -> Vec<String> {
    let Ok(entries) = fs::read_dir(home.path().join("skills")) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with(".state.")).collect();
    names.sort();
    names
}

#[test]
fn a_skill_is_installed_from_a_folder_and_from_archives() {
    for form in [
        "greet",
        "greet.tar.gz",
        "GREET.TGZ",
        "greet.zip",
        "top.zip",
        "top.tgz",
    ] {
        let home = Home::new(&[]);
        let folder = greet(&home);
        let prefix = if form.starts_with("top") {
            "greet-1.0/"
        } else {
            ""
        };
        let source = match form {
            "greet" => folder.display().to_string(),
            form if form.ends_with(".zip") => {
                write(&home, form, packed_zip(&files(&folder, prefix)))
            }
            form => write(&home, form, packed_tar(&files(&folder, prefix))),
        };
        let ran = home.skillrun(&["skills", "install", &source, "--json"]);
        let document = ran.json();
        assert_eq!(ran.exit, Some(0), "{form}: {ran:?}");
        assert_eq!(
            (&document["name"], &document["status"]),
            (&json!("greet"), &json!("installed"))
        );
        assert_eq!(skills(&home), ["greet"], "{form}");
        assert_eq!(
            files(&home.skill("greet"), ""),
            files(&folder, ""),
            "{form}"
        );
        let wasm = home.skill("greet").join("skill.wasm");
        let mode = fs::metadata(wasm).unwrap().permissions().mode();
        assert_eq!(mode & 0o7133, 0, "{form}: {mode:o}");

        let again = home.skillrun(&["skills", "install", &source]);
        assert_eq!(
            (again.exit, &*again.stdout),
            (Some(0), "greet: unchanged\n"),
            "{again:?}"
        );
        if form == "greet" {
            let (answer, exit) = home.run_json("greet", &json!({ "name": "Ada" }));
            assert_eq!(exit, 0, "{answer}");
        }
    }
}

#[test]
fn what_tar_itself_writes_is_installed() {
    let home = Home::new(&[]);
    let folder = greet(&home);
    fs::create_dir(folder.join("docs")).unwrap();
    fs::write(folder.join("docs/read me.txt"), "x").unwrap();
    for (archive, place, what) in [
        ("dot.tgz", folder.as_path(), "."),
        ("top.tar.gz", home.path(), "greet"),
    ] {
        for format in ["gnu", "pax", "ustar"] {
            let path = home.path().join(archive);
            let packed = std::process::Command::new("tar")
                .arg("-czf")
                .arg(&path)
                .arg(format!("--format={format}"))
                .arg("-C")
                .args([place, Path::new(what)])
                .status();
            assert!(packed.unwrap().success());
            let ran = home.skillrun(&["skills", "install", path.to_str().unwrap()]);
            assert_eq!(ran.exit, Some(0), "{archive} {format}: {ran:?}");
            assert!(home.skill("greet").join("docs/read me.txt").exists());
            let ran = home.skillrun(&["skills", "remove", "greet"]);
            assert_eq!((ran.exit, skills(&home)), (Some(0), Vec::new()), "{ran:?}");
        }
    }
}

/// Case C12.
#[test]
fn c12_a_hostile_archive_is_refused_with_entry_and_rule_and_nothing_is_written() {
    let home = Home::new(&[]);
    for (name, bytes, entry, rule) in hostile::archives() {
        let path = write(&home, &name, bytes);
        Refusal::new(&["skills", "install", &path], 1, "load_error")
            .says(&[entry, rule])
            .check(&home);
        assert_eq!(skills(&home), Vec::<String>::new(), "{name}");
        assert!(!home.path().join("evil").exists(), "{name}");
    }
    assert!(!Path::new("/tmp/skillrun-evil").exists());
}

/// Case C12: what is unpacked is counted, whatever headers say of it.
#[test]
fn c12_an_archive_of_too_much_is_refused() {
    let home = Home::new(&[]);
    let text = skill_md("evil");
    // One after the other, compressed streams are one stream.
    let mebibyte = gzip(&vec![0; 1024 * 1024]);
    let skill = || TarEntry::file("SKILL.md", text.as_bytes());
    let mut start = tar(&[
        skill(),
        TarEntry {
            size: Some(321 * 1024 * 1024),
            ..TarEntry::file("bomb", b"")
        },
    ]);
    // Without the blocks that would end the archive.
    start.truncate(start.len() - 1024);
    let bomb = [gzip(&start), mebibyte.repeat(321)].concat();
    let endless = [tar_gz(&[skill()]), mebibyte.repeat(329)].concat();
    let names: Vec<String> = (0..1001).map(|index| format!("f{index}")).collect();
    let many_tar: Vec<_> = names.iter().map(|name| TarEntry::file(name, b"")).collect();
    let many_zip: Vec<_> = names.iter().map(|name| ZipEntry::file(name, b"")).collect();
    let deep = "d/".repeat(16) + "f";
    for (name, bytes, says) in [
        (
            "bomb.tgz",
            bomb,
            &["\"bomb\"", "at most 335544320 bytes"][..],
        ),
        ("endless.tgz", endless, &["at most 335544320 bytes"]),
        (
            "many.tgz",
            tar_gz(&many_tar),
            &["\"f1000\"", "at most 1000"],
        ),
        ("many.zip", zip(&many_zip), &["\"f1000\"", "at most 1000"]),
        (
            "deep.tgz",
            tar_gz(&[TarEntry::file(&deep, b"")]),
            &["17 parts", "at most 16"],
        ),
    ] {
        let path = write(&home, name, bytes);
        let ran = home.skillrun(&["skills", "install", &path]);
        assert_eq!(ran.exit, Some(1), "{ran:?}");
        for part in says {
            assert!(ran.stderr.contains(part), "{part}: {ran:?}");
        }
        assert_eq!(skills(&home), Vec::<String>::new(), "{name}");
    }
    let huge = home.path().join("huge.zip");
    let file = fs::File::create(&huge).unwrap();
    file.set_len(320 * 1024 * 1024 + 1).unwrap();
    Refusal::new(
        &["skills", "install", huge.to_str().unwrap()],
        1,
        "load_error",
    )
    .says(&["archive of 335544321 bytes", "at most 335544320"])
    .check(&home);
}

/// Case C12, for folders.
#[test]
fn c12_a_folder_is_copied_by_the_same_rules() {
    let home = Home::new(&[]);
    let folder = greet(&home);
    let install = ["skills", "install", folder.to_str().unwrap()];
    let link = folder.join("link");
    for target in ["/etc/passwd", "SKILL.md"] {
        symlink(target, &link).unwrap();
        Refusal::new(&install, 1, "load_error")
            .says(&["\"link\"", "symbolic link"])
            .check(&home);
        fs::remove_file(&link).unwrap();
    }
    let mode = rustix::fs::Mode::RUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &link, kind, mode, 0).unwrap();
    Refusal::new(&install, 1, "load_error")
        .says(&["\"link\"", "pipe"])
        .check(&home);
    fs::remove_file(&link).unwrap();
    assert_eq!(skills(&home), Vec::<String>::new());

    let renamed = home.path().join("another");
    fs::rename(&folder, &renamed).unwrap();
    Refusal::new(
        &["skills", "install", renamed.to_str().unwrap()],
        1,
        "load_error",
    )
    .says(&["SKILL.md:2:7", "\"greet\"", "\"another\""])
    .check(&home);
}

/// Where a skill is worked on there is more than the skill.
#[test]
fn what_begins_with_a_dot_stays_in_the_folder() {
    let home = Home::new(&[]);
    let folder = greet(&home);
    let kept = files(&folder, "");
    fs::create_dir_all(folder.join(".git/objects")).unwrap();
    fs::create_dir(folder.join("docs")).unwrap();
    // Neither is copied, nor are the rules for what is.
    symlink("/etc/passwd", folder.join(".git/objects/link")).unwrap();
    fs::write(folder.join("docs/.draft"), "x").unwrap();
    let install = ["skills", "install", folder.to_str().unwrap()];
    for said in ["greet: installed\n", "greet: unchanged\n"] {
        let ran = home.skillrun(&install);
        assert_eq!((ran.exit, &*ran.stdout), (Some(0), said), "{ran:?}");
        let copied = home.skill("greet");
        assert!(copied.join("docs").is_dir() && !copied.join("docs/.draft").exists());
        fs::remove_dir(copied.join("docs")).unwrap();
        assert_eq!(files(&copied, ""), kept);
        fs::create_dir(copied.join("docs")).unwrap();
    }
    // What somebody packed is meant to be there.
    let packed = write(
        &home,
        "greet.zip",
        packed_zip(&[kept, vec![(".kept".to_owned(), b"x".to_vec())]].concat()),
    );
    for said in ["greet: replaced\n", "greet: unchanged\n"] {
        let ran = home.skillrun(&["skills", "install", &packed]);
        assert_eq!((ran.exit, &*ran.stdout), (Some(0), said), "{ran:?}");
        assert!(home.skill("greet").join(".kept").exists());
    }
}

/// The folder that was named is what is copied, not the name of it.
#[test]
fn a_folder_may_be_named_by_a_link_that_has_the_skills_name() {
    let home = Home::new(&[]);
    let folder = home.path().join("greet-1.0");
    fs::rename(greet(&home), &folder).unwrap();
    let (link, other) = (home.path().join("greet"), home.path().join("other"));
    symlink("greet-1.0", &link).unwrap();
    symlink("greet-1.0", &other).unwrap();
    Refusal::new(
        &["skills", "install", other.to_str().unwrap()],
        1,
        "load_error",
    )
    .says(&["\"greet\"", "\"other\""])
    .check(&home);
    let ran = home.skillrun(&["skills", "install", link.to_str().unwrap()]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let installed = home.skill("greet");
    assert!(!installed.is_symlink());
    assert_eq!(files(&installed, ""), files(&folder, ""));
}

#[test]
fn what_is_no_source_is_said_without_an_attempt() {
    let home = Home::new(&[]);
    let text = write(&home, "skill.txt", "x");
    Refusal::usage(&["skills", "install", &text])
        .says(&["skill.txt", ".tar.gz, .tgz or .zip"])
        .check(&home);
    Refusal::new(&["skills", "install", "./nowhere.tgz"], 5, "not_found")
        .says(&["nowhere.tgz"])
        .check(&home);
}

#[test]
fn an_archive_of_an_invalid_skill_is_refused_with_everything_that_is_wrong() {
    let home = Home::new(&[]);
    let path = write(
        &home,
        "bad.tgz",
        tar_gz(&[
            TarEntry::file("top/SKILL.md", b"---\nname: Bad\ndescription: ''\n---\n"),
            TarEntry::file("top/skill.toml", b"[limit]\n"),
        ]),
    );
    Refusal::new(&["skills", "install", &path], 1, "load_error")
        .says(&[
            "bad.tgz/SKILL.md:2:7",
            "bad.tgz/SKILL.md:3:14",
            "bad.tgz/skill.toml:1:2",
        ])
        .check(&home);
    let module = write(
        &home,
        "component.zip",
        zip(&[
            ZipEntry::file("SKILL.md", skill_md("empty").as_bytes()),
            ZipEntry::file("skill.wasm", b"\0asm\x0d\0\x01\0"),
        ]),
    );
    Refusal::new(&["skills", "install", &module], 1, "load_error")
        .says(&["exports no skillrun:skill/handler"])
        .check(&home);
    assert_eq!(skills(&home), Vec::<String>::new());
}

/// Case C17: a skill that asks for other things is installed over the one that was accepted only when
/// that is accepted too.
#[test]
fn c17_a_changed_skill_is_installed_only_with_accept_and_in_one_step() {
    let home = Home::new(&[]);
    let folder = greet(&home);
    let source = folder.to_str().unwrap();
    let install = ["skills", "install", source];
    let manifest = folder.join("skill.toml");
    fs::write(
        &manifest,
        "[capabilities]\nrequest = ['env:A', 'env:B']\n[limits]\nfuel = 7000000\n",
    )
    .unwrap();
    assert_eq!(home.skillrun(&install).exit, Some(0));
    fs::write(
        &manifest,
        "[capabilities]\nrequest = ['env:B', 'net:https://example.org/#GET']\n",
    )
    .unwrap();
    Refusal::new(&install, 1, "changed")
        .says(&[
            "skill.toml changed",
            "+ net:https://example.org/#GET",
            "- env:A",
            "limits.fuel 7000000 -> unset",
        ])
        .hints("--accept")
        .check(&home);
    let document = home.skillrun(&[&install[..], &["--json"]].concat()).json();
    assert_eq!(document["change"]["asks_less"], json!(["env:A"]));
    let installed = fs::read_to_string(home.skill("greet").join("skill.toml")).unwrap();
    assert!(installed.contains("env:A"));

    let ran = home.skillrun(&["skills", "install", source, "--accept", "--json"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(ran.json()["status"], "replaced");
    assert_eq!(
        ran.json()["change"]["asks_more"],
        json!(["net:https://example.org/#GET"])
    );
    assert_eq!(skills(&home), ["greet"]);
    let (answer, exit) = home.run_json("greet", &json!({ "name": "Ada" }));
    assert_eq!(exit, 0, "{answer}");

    // A file that nobody reads needs no acceptance, and comes along.
    fs::write(folder.join("CHANGES"), "x").unwrap();
    let ran = home.skillrun(&install);
    assert_eq!(
        (ran.exit, &*ran.stdout),
        (Some(0), "greet: replaced\n"),
        "{ran:?}"
    );
    assert!(home.skill("greet").join("CHANGES").exists());
}

#[test]
fn what_was_tampered_with_is_mended_by_installing_what_was_accepted() {
    let home = Home::new(&[]);
    let folder = greet(&home);
    let install = ["skills", "install", folder.to_str().unwrap()];
    assert_eq!(home.skillrun(&install).exit, Some(0));
    fs::write(home.skill("greet").join("SKILL.md"), skill_md("greet")).unwrap();
    let ran = home.skillrun(&install);
    assert_eq!(
        (ran.exit, &*ran.stdout),
        (Some(0), "greet: replaced\n"),
        "{ran:?}"
    );
    assert_eq!(files(&home.skill("greet"), ""), files(&folder, ""));
}

#[test]
fn what_a_cut_off_installation_left_goes_with_the_next() {
    let home = Home::new(&[]);
    let folder = greet(&home);
    let left = home.path().join("skills/.staging-0123456789abcdef");
    fs::create_dir_all(left.join("greet")).unwrap();
    fs::write(left.join("greet/SKILL.md"), skill_md("greet")).unwrap();
    let ran = home.skillrun(&["skills", "list", "--json"]);
    assert_eq!(ran.json()["skills"], json!([]), "{ran:?}");
    let ran = home.skillrun(&["skills", "install", folder.to_str().unwrap()]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(skills(&home), ["greet"]);
}

#[test]
fn installations_at_once_do_not_disturb_each_other() {
    let home = Home::new(&[]);
    let greet = greet(&home);
    let outside = Home::new(&[PROBE]);
    let probe = outside.skill("probe");
    let start = |folder: &Path| home.start(&["skills", "install", folder.to_str().unwrap()]);
    let running: Vec<_> = (0..4)
        .flat_map(|_| [start(&greet), start(&probe)])
        .collect();
    for running in running {
        let ran = running.end();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    assert_eq!(skills(&home), ["greet", "probe"]);
    for name in ["greet", "probe"] {
        let ran = home.skillrun(&["skills", "pin", name, "--json"]);
        assert_eq!(ran.json()["accepted"], true, "{ran:?}");
    }
}

/// A command of which one call of `fsync` fails, by its number on its thread; and whether it came to that.
fn with_failing_sync(home: &Home, number: u32, arguments: &[&str]) -> (Option<i32>, bool) {
    let log = home.path().join("strace");
    let command = home.command(arguments);
    let ran = std::process::Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync", "-e"])
        .arg(format!("inject=fsync:error=EIO:when={number}"))
        .arg("-o")
        .arg(&log)
        .arg(command.get_program())
        .args(command.get_args())
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .output()
        .expect("strace is not there: run cargo xtask setup");
    let failed = fs::read_to_string(log).unwrap().contains("(INJECTED)");
    (ran.status.code(), failed)
}

/// What could not be made durable is not done: the skill is as it was, and so is what was accepted.
#[test]
fn a_disk_that_fails_loses_no_skill() {
    let home = Home::new(&[]);
    let folder = greet(&home);
    let source = folder.to_str().unwrap();
    let text = fs::read_to_string(folder.join("SKILL.md")).unwrap();
    let edit = |number| fs::write(folder.join("SKILL.md"), format!("{text}{number}\n")).unwrap();
    let installed = || files(&home.skill("greet"), "");
    let is_accepted =
        || home.skillrun(&["skills", "pin", "greet", "--json"]).json()["accepted"] == true;

    let mut number = 1;
    // Each time another skill: none of those that failed was accepted.
    loop {
        edit(number);
        let (exit, failed) = with_failing_sync(&home, number, &["skills", "install", source]);
        if exit == Some(0) {
            assert_eq!(installed(), files(&folder, ""), "{number}");
            assert!(is_accepted(), "{number}");
            let ran = home.skillrun(&["skills", "remove", "greet"]);
            assert_eq!(ran.exit, Some(0), "{ran:?}");
        } else {
            assert_eq!(skills(&home), Vec::<String>::new(), "{number}");
        }
        if !failed {
            break;
        }
        number += 1;
    }
    assert!(number > 5, "{number}");

    assert_eq!(home.skillrun(&["skills", "install", source]).exit, Some(0));
    for number in 1.. {
        edit(1000 + number);
        let before = installed();
        let replace = ["skills", "install", source, "--accept"];
        let (exit, failed) = with_failing_sync(&home, number, &replace);
        let expected = match exit {
            Some(0) => files(&folder, ""),
            _ => before,
        };
        assert_eq!(installed(), expected, "{number}");
        assert!(is_accepted(), "{number}");
        if !failed {
            break;
        }
    }

    for number in 1.. {
        let before = installed();
        let (exit, failed) = with_failing_sync(&home, number, &["skills", "remove", "greet"]);
        if !failed {
            assert_eq!((exit, skills(&home)), (Some(0), Vec::new()));
            break;
        }
        assert_eq!((exit, installed()), (Some(1), before), "{number}");
        assert!(is_accepted(), "{number}");
    }
}
