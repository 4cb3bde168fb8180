//! Calls of `wasi:filesystem` as a test spells them, without a library between that would be more careful
//! than an attacker.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};
use skillrun_sdk::SkillError;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

/// One call. `dir` and `file` name a folder that the guest was given, or what `open` put under `name`.
#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FileCall {
    /// The folders that there are.
    Folders {},
    /// `flags` are letters: `f`ollow links, `c`reate, e`x`clusive, `t`runcate, `d`irectory, `r`ead,
    /// `w`rite, `m`utate.
    Open {
        dir: String,
        path: String,
        flags: String,
        name: Option<String>,
    },
    Close {
        name: String,
    },
    /// Reads by the call for it.
    Read {
        file: String,
    },
    /// Reads through a stream.
    ReadStream {
        file: String,
    },
    /// Takes a stream for reading and keeps it.
    KeepStream {
        file: String,
    },
    Write {
        file: String,
        text: String,
        offset: u64,
    },
    /// Writes so many bytes through a stream, in pieces of 4 KiB.
    WriteStream {
        file: String,
        offset: u64,
        bytes: u64,
    },
    /// Writes so many bytes, cuts the file to nothing, and writes one more byte through the same stream.
    WriteCutWrite {
        file: String,
        bytes: u64,
    },
    /// Takes a stream for writing.
    AppendStream {
        file: String,
    },
    SetSize {
        file: String,
        size: u64,
    },
    SetTimes {
        file: String,
    },
    SetTimesAt {
        dir: String,
        path: String,
        follow: bool,
    },
    Mkdir {
        dir: String,
        path: String,
    },
    Rmdir {
        dir: String,
        path: String,
    },
    Unlink {
        dir: String,
        path: String,
    },
    Rename {
        dir: String,
        path: String,
        to_dir: String,
        to: String,
    },
    Link {
        dir: String,
        path: String,
        to_dir: String,
        to: String,
        follow: bool,
    },
    Symlink {
        dir: String,
        target: String,
        path: String,
    },
    Readlink {
        dir: String,
        path: String,
    },
    Stat {
        dir: String,
        path: String,
        follow: bool,
    },
    Hash {
        dir: String,
        path: String,
        follow: bool,
    },
    /// How many entries there are, and how many of them cannot be told.
    List {
        dir: String,
    },
    /// Makes the calls so many times, and gives the different answers to the last of them.
    Repeat {
        times: u64,
        calls: Vec<FileCall>,
    },
}

/// Why a call has no answer.
type Refused = String;

/// The descriptors that a test works with, by name, and streams that it keeps.
struct Hands(HashMap<String, Descriptor>, Vec<InputStream>);

/// Makes the calls, one after the other, and gives the answer to each: a value, or `!` and an error code.
pub(crate) fn make(calls: Vec<FileCall>) -> Value {
    let folders = get_directories();
    let folders = folders.into_iter().map(|(fd, name)| (name, fd));
    let mut hands = Hands(folders.collect(), Vec::new());
    calls.iter().map(|call| hands.answer(call)).collect()
}

/// Reads a file as programs do.
pub(crate) fn read(path: &str) -> Result<Value, SkillError> {
    let text = std::fs::read_to_string(path).map_err(|error| failed(path, &error))?;
    Ok(json!(text))
}

/// Writes a file as programs do.
pub(crate) fn write(path: &str, text: &str) -> Result<Value, SkillError> {
    std::fs::write(path, text).map_err(|error| failed(path, &error))?;
    Ok(json!("ok"))
}

fn failed(path: &str, error: &std::io::Error) -> SkillError {
    let code = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "denied",
        _ => "io",
    };
    SkillError::new(format!("{path}: {error}")).with_code(code)
}

fn code(error: ErrorCode) -> Refused {
    error.name().to_owned()
}

fn stream_code(error: StreamError) -> Refused {
    match error {
        StreamError::Closed => "closed".to_owned(),
        StreamError::LastOperationFailed(error) => {
            wasip2::filesystem::types::filesystem_error_code(&error)
                .map_or_else(|| error.to_debug_string(), code)
        }
    }
}

fn follow(follow: bool) -> PathFlags {
    match follow {
        true => PathFlags::SYMLINK_FOLLOW,
        false => PathFlags::empty(),
    }
}

/// Writes so many bytes, in pieces of 4 KiB.
fn fill(stream: &OutputStream, bytes: u64) -> Result<Value, Refused> {
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(4096);
        stream
            .blocking_write_and_flush(&vec![b'x'; piece as usize])
            .map_err(stream_code)?;
        left -= piece;
    }
    Ok(json!("ok"))
}

impl Hands {
    fn answer(&mut self, call: &FileCall) -> Value {
        match self.call(call) {
            Ok(value) => value,
            Err(refused) => Value::String(format!("!{refused}")),
        }
    }

    fn get(&self, name: &str) -> Result<&Descriptor, Refused> {
        self.0.get(name).ok_or_else(|| format!("no {name}"))
    }

    fn call(&mut self, call: &FileCall) -> Result<Value, Refused> {
        match call {
            FileCall::Folders {} => {
                let mut names: Vec<String> = get_directories()
                    .into_iter()
                    .map(|(_, name)| name)
                    .collect();
                names.sort();
                Ok(json!(names))
            }
            FileCall::Open {
                dir,
                path,
                flags,
                name,
            } => {
                let opened = self.open(dir, path, flags)?;
                if let Some(name) = name {
                    self.0.insert(name.clone(), opened);
                }
                Ok(json!("ok"))
            }
            FileCall::Close { name } => {
                self.0.remove(name);
                Ok(json!("ok"))
            }
            FileCall::KeepStream { file } => {
                let stream = self.get(file)?.read_via_stream(0).map_err(code)?;
                self.1.push(stream);
                Ok(json!("ok"))
            }
            FileCall::Repeat { times, calls } => {
                let mut answers: Vec<Value> = Vec::new();
                for _ in 0..*times {
                    let answer = calls.iter().map(|call| self.answer(call)).last();
                    let answer = answer.unwrap_or_default();
                    if !answers.contains(&answer) {
                        answers.push(answer);
                    }
                }
                Ok(json!(answers))
            }
            FileCall::Read { .. }
            | FileCall::ReadStream { .. }
            | FileCall::Write { .. }
            | FileCall::WriteStream { .. }
            | FileCall::WriteCutWrite { .. }
            | FileCall::AppendStream { .. }
            | FileCall::SetSize { .. }
            | FileCall::SetTimes { .. } => self.on_file(call),
            _ => self.on_path(call),
        }
    }

    fn open(&self, dir: &str, path: &str, letters: &str) -> Result<Descriptor, Refused> {
        let mut oflags = OpenFlags::empty();
        let mut flags = DescriptorFlags::empty();
        for letter in letters.chars() {
            match letter {
                'c' => oflags |= OpenFlags::CREATE,
                'x' => oflags |= OpenFlags::EXCLUSIVE,
                't' => oflags |= OpenFlags::TRUNCATE,
                'd' => oflags |= OpenFlags::DIRECTORY,
                'r' => flags |= DescriptorFlags::READ,
                'w' => flags |= DescriptorFlags::WRITE,
                'm' => flags |= DescriptorFlags::MUTATE_DIRECTORY,
                _ => {}
            }
        }
        let path_flags = follow(letters.contains('f'));
        let dir = self.get(dir)?;
        dir.open_at(path_flags, path, oflags, flags).map_err(code)
    }

    fn on_file(&self, call: &FileCall) -> Result<Value, Refused> {
        match call {
            FileCall::Read { file } => {
                let (bytes, _) = self.get(file)?.read(1 << 20, 0).map_err(code)?;
                Ok(json!(String::from_utf8_lossy(&bytes)))
            }
            FileCall::ReadStream { file } => {
                let stream = self.get(file)?.read_via_stream(0).map_err(code)?;
                let bytes = stream.blocking_read(1 << 40).map_err(stream_code)?;
                Ok(json!(String::from_utf8_lossy(&bytes)))
            }
            FileCall::Write { file, text, offset } => {
                let file = self.get(file)?;
                Ok(json!(file.write(text.as_bytes(), *offset).map_err(code)?))
            }
            FileCall::WriteStream {
                file,
                offset,
                bytes,
            } => {
                let stream = self.get(file)?.write_via_stream(*offset).map_err(code)?;
                fill(&stream, *bytes)
            }
            FileCall::WriteCutWrite { file, bytes } => {
                let file = self.get(file)?;
                let stream = file.write_via_stream(0).map_err(code)?;
                fill(&stream, *bytes)?;
                file.set_size(0).map_err(code)?;
                fill(&stream, 1)
            }
            FileCall::AppendStream { file } => {
                self.get(file)?.append_via_stream().map_err(code)?;
                Ok(json!("ok"))
            }
            FileCall::SetSize { file, size } => {
                self.get(file)?.set_size(*size).map_err(code)?;
                Ok(json!("ok"))
            }
            FileCall::SetTimes { file } => {
                self.get(file)?
                    .set_times(NewTimestamp::Now, NewTimestamp::Now)
                    .map_err(code)?;
                Ok(json!("ok"))
            }
            _ => Err("not a call on a file".to_owned()),
        }
    }

    fn on_path(&self, call: &FileCall) -> Result<Value, Refused> {
        match call {
            FileCall::SetTimesAt {
                dir,
                path,
                follow: follows,
            } => {
                let times = NewTimestamp::Now;
                self.get(dir)?
                    .set_times_at(follow(*follows), path, times, times)
            }
            FileCall::Mkdir { dir, path } => self.get(dir)?.create_directory_at(path),
            FileCall::Rmdir { dir, path } => self.get(dir)?.remove_directory_at(path),
            FileCall::Unlink { dir, path } => self.get(dir)?.unlink_file_at(path),
            FileCall::Rename {
                dir,
                path,
                to_dir,
                to,
            } => self.get(dir)?.rename_at(path, self.get(to_dir)?, to),
            FileCall::Link {
                dir,
                path,
                to_dir,
                to,
                follow: follows,
            } => self
                .get(dir)?
                .link_at(follow(*follows), path, self.get(to_dir)?, to),
            FileCall::Symlink { dir, target, path } => self.get(dir)?.symlink_at(target, path),
            _ => return self.look(call),
        }
        .map_err(code)?;
        Ok(json!("ok"))
    }

    fn look(&self, call: &FileCall) -> Result<Value, Refused> {
        match call {
            FileCall::Readlink { dir, path } => {
                Ok(json!(self.get(dir)?.readlink_at(path).map_err(code)?))
            }
            FileCall::Stat {
                dir,
                path,
                follow: follows,
            } => {
                let stat = self
                    .get(dir)?
                    .stat_at(follow(*follows), path)
                    .map_err(code)?;
                Ok(json!(stat.size))
            }
            FileCall::Hash {
                dir,
                path,
                follow: follows,
            } => {
                let dir = self.get(dir)?;
                dir.metadata_hash_at(follow(*follows), path).map_err(code)?;
                Ok(json!("ok"))
            }
            FileCall::List { dir } => {
                let entries = self.get(dir)?.read_directory().map_err(code)?;
                let (mut known, mut unknown) = (0, 0);
                loop {
                    match entries.read_directory_entry() {
                        Ok(Some(_)) => known += 1,
                        Ok(None) => return Ok(json!([known, unknown])),
                        Err(_) => unknown += 1,
                    }
                }
            }
            _ => Err("not a call on a path".to_owned()),
        }
    }
}
