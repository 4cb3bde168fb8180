//! Archives, made by hand where a writer of archives would refuse to make them.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const BLOCK: usize = 512;

/// One entry of a tar archive, as its header says.
pub(crate) struct TarEntry<'a> {
    pub(crate) name: &'a [u8],
    /// The byte that says what it is.
    pub(crate) kind: u8,
    pub(crate) link: &'a [u8],
    pub(crate) content: &'a [u8],
    /// The size that the header claims; none: that of the content.
    pub(crate) size: Option<u64>,
}

impl<'a> TarEntry<'a> {
    pub(crate) fn file(name: &'a str, content: &'a [u8]) -> Self {
        Self::special(name, b'0', "", content)
    }

    pub(crate) fn folder(name: &'a str) -> Self {
        Self::special(name, b'5', "", b"")
    }

    pub(crate) fn special(name: &'a str, kind: u8, link: &'a str, content: &'a [u8]) -> Self {
        Self {
            name: name.as_bytes(),
            kind,
            link: link.as_bytes(),
            content,
            size: None,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut header = [0_u8; BLOCK];
        let put = |header: &mut [u8; BLOCK], at: usize, bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(&mut header, 0, self.name);
        put(&mut header, 100, b"0000777\0");
        let size = self
            .size
            .unwrap_or(u64::try_from(self.content.len()).unwrap());
        put(&mut header, 124, format!("{size:011o}\0").as_bytes());
        put(&mut header, 136, b"00000000000\0");
        put(&mut header, 148, b"        ");
        header[156] = self.kind;
        put(&mut header, 157, self.link);
        put(&mut header, 257, b"ustar\x0000");
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend(self.content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }
}

/// A tar archive, not compressed.
pub(crate) fn tar(entries: &[TarEntry<'_>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(TarEntry::bytes).collect();
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn tar_gz(entries: &[TarEntry<'_>]) -> Vec<u8> {
    gzip(&tar(entries))
}

/// A record of an extension header: its length, counted in itself, then key and value.
pub(crate) fn pax(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    loop {
        let record = format!("{length}{rest}");
        if record.len() == length {
            return record.into_bytes();
        }
        length = record.len();
    }
}

/// One entry of a zip archive, not compressed, as its two headers say.
#[derive(Clone)]
pub(crate) struct ZipEntry<'a> {
    pub(crate) local_name: &'a str,
    pub(crate) central_name: &'a str,
    pub(crate) content: &'a [u8],
    pub(crate) method: u16,
    pub(crate) flags: u16,
    /// The Unix mode; 0: none is given.
    pub(crate) mode: u32,
}

impl<'a> ZipEntry<'a> {
    pub(crate) fn file(name: &'a str, content: &'a [u8]) -> Self {
        Self {
            local_name: name,
            central_name: name,
            content,
            method: 0,
            flags: 0,
            mode: 0,
        }
    }

    /// What both headers have: from the version that is needed to the length of the extra fields.
    fn fields(&self, name: &str) -> Vec<u8> {
        let size = u32::try_from(self.content.len()).unwrap().to_le_bytes();
        let mut crc = flate2::Crc::new();
        crc.update(self.content);
        let mut bytes = Vec::new();
        bytes.extend(20_u16.to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(self.method.to_le_bytes());
        // 1980-01-01, midnight.
        bytes.extend([0, 0, 0x21, 0]);
        bytes.extend(crc.sum().to_le_bytes());
        bytes.extend(size);
        bytes.extend(size);
        bytes.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }
}

/// A zip archive; in its directory only the first `listed` entries.
pub(crate) fn zip_of(entries: &[ZipEntry<'_>], listed: usize) -> Vec<u8> {
    let offset = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (index, entry) in entries.iter().enumerate() {
        let start = offset(&bytes);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(entry.fields(entry.local_name));
        bytes.extend(entry.local_name.as_bytes());
        bytes.extend(entry.content);
        if index >= listed {
            continue;
        }
        directory.extend(b"PK\x01\x02");
        // Made on Unix, so that the mode counts.
        directory.extend([20, 3]);
        directory.extend(entry.fields(entry.central_name));
        directory.extend([0; 6]);
        directory.extend((entry.mode << 16).to_le_bytes());
        directory.extend(start.to_le_bytes());
        directory.extend(entry.central_name.as_bytes());
    }
    let count = u16::try_from(listed.min(entries.len()))
        .unwrap()
        .to_le_bytes();
    let (start, size) = (offset(&bytes), offset(&directory));
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count);
    bytes.extend(count);
    bytes.extend(size.to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

pub(crate) fn zip(entries: &[ZipEntry<'_>]) -> Vec<u8> {
    zip_of(entries, entries.len())
}

/// The files of a folder, by name, as an archive has them below `prefix`.
pub(crate) fn files(folder: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let bytes = std::fs::read(entry.path()).unwrap();
            (format!("{prefix}{name}"), bytes)
        })
        .collect();
    files.sort();
    files
}

/// A `.tar.gz` as the crate writes it, with a mode that nobody wants.
pub(crate) fn packed_tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(bytes.len()).unwrap());
        header.set_mode(0o6777);
        builder.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// A `.zip` as the crate writes it, compressed.
pub(crate) fn packed_zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut writer = ::zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = ::zip::write::SimpleFileOptions::default()
        .compression_method(::zip::CompressionMethod::Deflated)
        .unix_permissions(0o6777);
    for (name, bytes) in files {
        writer.start_file(name.as_str(), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}
