//! The control: the same bytes by bare system calls.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::thread;

use anyhow::Result;

/// Appends `count` lines of `bytes` bytes on each of `writers` threads, each line synced, each thread
/// to its own file.
pub(crate) fn durable(folder: &Path, writers: usize, count: usize, bytes: usize) -> Result<()> {
    let line = vec![b'x'; bytes];
    thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let (line, path) = (&line, folder.join(format!("raw-{writer}")));
                scope.spawn(move || -> Result<()> {
                    let mut file = File::options().create(true).append(true).open(path)?;
                    for _ in 0..count {
                        file.write_all(line)?;
                        file.sync_data()?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| anyhow::bail!("a writer panicked"))
        })
    })
}

/// Appends `count` lines of `bytes` bytes.
pub(crate) fn written(path: &Path, count: usize, bytes: usize) -> Result<()> {
    let line = vec![b'x'; bytes];
    let mut file = File::options().create(true).append(true).open(path)?;
    for _ in 0..count {
        file.write_all(&line)?;
    }
    Ok(())
}

/// Makes a file with one line, and makes both the line and the file's name durable.
pub(crate) fn start(folder: &File, path: &Path, bytes: usize) -> Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(&vec![b'x'; bytes])?;
    file.sync_data()?;
    Ok(folder.sync_all()?)
}
