//! A file that may be anything, read as an archive of each form.
//!
//! No reader may panic or take more than an archive may have, and no path that it accepts may lead out
//! of the folder or stand for two files. The input is read as a zip, and as a tar that was compressed: a
//! mutation of compressed bytes would never get past the decoder.
#![no_main]

use std::collections::BTreeSet;
use std::io::{Cursor, Write as _};
use std::path::{Component, Path};

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use skillrun::registry::{Format, check_archive};

fuzz_target!(|bytes: &[u8]| {
    check(Format::Zip, bytes);
    check(Format::TarGz, bytes);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(bytes).unwrap();
    check(Format::TarGz, &encoder.finish().unwrap());
});

fn check(format: Format, bytes: &[u8]) {
    let Ok(paths) = check_archive(format, Cursor::new(bytes)) else {
        return;
    };
    assert!(paths.len() <= 1000);
    let folded: BTreeSet<String> = paths.iter().map(|path| path.to_lowercase()).collect();
    assert_eq!(folded.len(), paths.len());
    for path in &paths {
        let mut parts = Path::new(path).components();
        assert!(
            parts.all(|part| matches!(part, Component::Normal(_))),
            "{path}"
        );
        assert!(
            !path.contains(char::is_control) && !path.contains('\\'),
            "{path}"
        );
    }
}
