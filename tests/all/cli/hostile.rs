//! Archives that are refused, each for one reason.

use super::skill_md;
use crate::archives::{TarEntry, ZipEntry, gzip, pax, tar, tar_gz, zip, zip_of};

/// The name of an archive, its bytes, the entry and the rule that are told.
pub(super) type Hostile = (String, Vec<u8>, &'static str, &'static str);

/// Names of files that stand beside a SKILL.md, what is told of the name, and the rule.
const NAMES: [(&str, &str, &str); 10] = [
    ("../evil", "../evil", ".. in its path"),
    ("a/../../evil", "a/../../evil", ".. in its path"),
    ("/tmp/skillrun-evil", "/tmp/skillrun-evil", "absolute path"),
    ("C:evil", "C:evil", "absolute path"),
    ("..\\evil", "evil", "backslash"),
    ("a\nb", "a", "control character"),
    ("a//b", "a//b", "empty part"),
    ("a/./b", "a/./b", "empty part"),
    ("skill.MD", "skill.MD", "case of letters"),
    ("SKILL.md/x", "SKILL.md/x", "both a file and a folder"),
];

/// Kinds of entries of a tar, as its header has them, and the words for them.
const KINDS: [(u8, &str); 10] = [
    (b'1', "hard link"),
    (b'2', "symbolic link"),
    (b'3', "device"),
    (b'4', "device"),
    (b'6', "pipe"),
    (b'7', "unknown type"),
    (b'S', "sparse file"),
    (b'L', "long name"),
    (b'K', "long name"),
    (b'V', "unknown type"),
];

/// Extension headers, for one entry or for all.
const EXTENSIONS: [(u8, &str); 5] = [
    (b'x', "path"),
    (b'g', "path"),
    (b'x', "size"),
    (b'x', "linkpath"),
    (b'x', "GNU.sparse.name"),
];

/// Modes of an entry of a zip, and the words for what they say it is.
const MODES: [(u32, &str); 4] = [
    (0o120_777, "symbolic link"),
    (0o010_644, "pipe"),
    (0o020_644, "device"),
    (0o040_755, "folder with the name of a file"),
];

pub(super) fn archives() -> Vec<Hostile> {
    let text = skill_md("evil");
    let mut all = tars(text.as_bytes());
    all.extend(damaged_tars(text.as_bytes()));
    all.extend(zips(text.as_bytes()));
    all
}

fn tars(text: &[u8]) -> Vec<Hostile> {
    let with = |entries: Vec<TarEntry<'_>>| {
        let mut all = vec![TarEntry::file("SKILL.md", text)];
        all.extend(entries);
        tar_gz(&all)
    };
    let mut tars = Vec::new();
    let mut add = |bytes: Vec<u8>, entry, rule| {
        let name = format!("{}.tgz", tars.len());
        tars.push((name, bytes, entry, rule));
    };
    for (name, entry, rule) in NAMES {
        add(with(vec![TarEntry::file(name, b"x")]), entry, rule);
    }
    for (kind, rule) in KINDS {
        let special = TarEntry::special("entry", kind, "/etc/passwd", b"");
        add(with(vec![special]), "entry", rule);
    }
    for (kind, key) in EXTENSIONS {
        let record = pax(key, "../evil");
        let entries = vec![
            TarEntry::special("ext", kind, "", &record),
            TarEntry::file("innocent", b"x"),
        ];
        add(with(entries), "ext", key);
    }
    let again = TarEntry::file("SKILL.md", b"x");
    add(with(vec![again]), "SKILL.md", "duplicate path");
    let binary = TarEntry {
        name: b"\xff\xfe",
        ..TarEntry::file("", b"x")
    };
    add(with(vec![binary]), "entry", "not UTF-8");
    let full = TarEntry::special("d/", b'5', "", b"x");
    add(with(vec![full]), "d/", "folder with content");
    let claims = TarEntry {
        size: Some(1 << 32),
        ..TarEntry::file("claims", b"x")
    };
    add(with(vec![claims]), "claims", "unexpected end of file");
    tars
}

fn damaged_tars(text: &[u8]) -> Vec<Hostile> {
    let mut cut = tar(&[TarEntry::file("SKILL.md", text)]);
    cut.truncate(700);
    let mut broken = tar_gz(&[TarEntry::file("SKILL.md", text)]);
    let checksum = broken.len() - 8;
    broken[checksum] ^= 0xff;
    let two_tops = [TarEntry::file("a/SKILL.md", text), TarEntry::folder("b/")];
    [
        ("cut.tgz", gzip(&cut), "unexpected"),
        ("broken.tgz", broken, "damaged tar.gz"),
        ("none.tgz", b"no archive".to_vec(), "damaged tar.gz"),
        ("tops.tgz", tar_gz(&two_tops), "no SKILL.md"),
        (
            "low.tgz",
            tar_gz(&[TarEntry::file("a/b/SKILL.md", text)]),
            "no SKILL.md",
        ),
    ]
    .map(|(name, bytes, rule)| (name.to_owned(), bytes, "", rule))
    .into()
}

fn zips(text: &[u8]) -> Vec<Hostile> {
    let skill = ZipEntry::file("SKILL.md", text);
    let with = |entry: ZipEntry<'_>| zip(&[skill.clone(), entry]);
    let entry = || ZipEntry::file("entry", b"/etc/passwd");
    let mut zips = Vec::new();
    let mut add = |bytes: Vec<u8>, entry, rule| {
        let name = format!("{}.zip", zips.len());
        zips.push((name, bytes, entry, rule));
    };
    for (name, entry, rule) in NAMES {
        add(with(ZipEntry::file(name, b"x")), entry, rule);
    }
    for (mode, rule) in MODES {
        add(with(ZipEntry { mode, ..entry() }), "entry", rule);
    }
    let encrypted = ZipEntry {
        flags: 1,
        ..entry()
    };
    add(with(encrypted), "entry", "encrypted");
    let squeezed = ZipEntry {
        method: 12,
        ..entry()
    };
    add(with(squeezed), "entry", "another method");
    let two_names = ZipEntry {
        local_name: "other",
        ..entry()
    };
    add(with(two_names), "entry", "name");
    let concealed = zip_of(&[skill.clone(), entry()], 1);
    add(concealed, "", "missing from central directory");
    add(with(skill.clone()), "", "twice");
    add(b"no archive".to_vec(), "", "damaged zip");
    add(zip(&[ZipEntry::file("README", b"x")]), "", "no SKILL.md");
    zips
}
