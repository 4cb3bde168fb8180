//! Bytes that may be anything, read as an archive.

use std::io::Cursor;

use proptest::prelude::*;
use skillrun::registry::{Format, check_archive};

use crate::archives::{TarEntry, ZipEntry, gzip, packed_zip, tar, zip};

const SKILL: &[u8] = b"---\nname: a\ndescription: d\n---\n";

fn check(format: Format, bytes: Vec<u8>) {
    let Ok(paths) = check_archive(format, Cursor::new(bytes)) else {
        return;
    };
    assert!(paths.iter().any(|path| path == "SKILL.md"));
    for path in &paths {
        let parts = std::path::Path::new(path).components();
        let is_normal = |part| matches!(part, std::path::Component::Normal(_));
        assert!(parts.into_iter().all(is_normal), "{path}");
    }
}

fn samples() -> [(Format, Vec<u8>); 3] {
    let in_tar = tar(&[
        TarEntry::folder("./"),
        TarEntry::file("./SKILL.md", SKILL),
        TarEntry::file("./d/x.json", b"{}"),
    ]);
    let files = [("SKILL.md".to_owned(), SKILL.to_vec())];
    let in_zip = zip(&[
        ZipEntry::file("t/SKILL.md", SKILL),
        ZipEntry::file("t/d/", b""),
    ]);
    [
        (Format::TarGz, in_tar),
        (Format::Zip, in_zip),
        (Format::Zip, packed_zip(&files)),
    ]
}

/// A tar is altered before it is compressed, because a change of the compressed bytes is found by the
/// decoder.
fn packed(format: Format, bytes: Vec<u8>) -> Vec<u8> {
    match format {
        Format::TarGz => gzip(&bytes),
        Format::Zip => bytes,
    }
}

#[test]
fn the_samples_are_in_order() {
    for (format, bytes) in samples() {
        let paths = check_archive(format, Cursor::new(packed(format, bytes)));
        assert!(paths.unwrap().contains(&"SKILL.md".to_owned()));
    }
}

/// What the operator can let run can also be installed.
#[test]
fn an_archive_has_room_for_the_largest_component() {
    let bytes = skillrun::config::COMPONENT_BYTES_MAX;
    let mut start = tar(&[
        TarEntry::file("SKILL.md", SKILL),
        TarEntry {
            size: Some(bytes),
            ..TarEntry::file("skill.wasm", b"")
        },
    ]);
    // Without the blocks that would end the archive. Compressed streams in a row are one stream.
    start.truncate(start.len() - 1024);
    let mebibyte = gzip(&vec![0; 1024 * 1024]);
    let content = mebibyte.repeat(usize::try_from(bytes / (1024 * 1024)).unwrap());
    let archive = [gzip(&start), content, gzip(&[0; 1024])].concat();
    let paths = check_archive(Format::TarGz, Cursor::new(archive)).unwrap();
    assert_eq!(paths, ["SKILL.md", "skill.wasm"]);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        check(Format::Zip, bytes.clone());
        check(Format::TarGz, bytes.clone());
        check(Format::TarGz, gzip(&bytes));
    }

    #[test]
    fn no_alteration_gets_out_or_makes_it_panic(
        sample in 0..3_usize,
        at in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let (format, mut bytes) = samples()[sample].clone();
        for (index, byte) in at {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(format, packed(format, bytes));
    }
}
