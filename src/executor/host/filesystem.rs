//! `wasi:filesystem`, watched: `wasmtime-wasi` carries the calls out, and here each refusal gets on
//! record, what is written is counted, and an open waits for nobody.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult, ReaddirIterator};

use types::{
    DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, Filesize,
    HostDescriptor, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};

use crate::executor::file_access::{self, Listing, Opened, Opening, on_thread};
use crate::executor::file_stream::{FileInput, FileOutput, WriteAt};
use crate::executor::files::{Held, OpenFile, Refusal};
use crate::executor::state::HostState;

type Fd = Resource<Descriptor>;

impl preopens::Host for HostState {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        self.hand_out_folders()
    }
}

impl types::Host for HostState {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        types::Host::filesystem_error_code(&mut self.filesystem(), error)
    }
}

/// The same descriptor once more.
fn again(fd: &Fd) -> Fd {
    Resource::new_borrow(fd.rep())
}

impl HostState {
    /// What the guest is told. A path that leads out of its folder is a refusal, and gets on record; what
    /// the operating system does not permit is none.
    async fn confined<T: Send>(
        &mut self,
        answer: FsResult<T>,
        fd: Fd,
        flags: PathFlags,
        path: &str,
        verb: &str,
    ) -> FsResult<T> {
        let error = match answer {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let is_unpermitted =
            |error: &FsError| error.downcast_ref() == Some(&ErrorCode::NotPermitted);
        if !is_unpermitted(&error) {
            return Err(error);
        }
        let held = self.held(&fd)?;
        let seen =
            HostDescriptor::stat_at(&mut self.filesystem(), fd, flags, path.to_owned()).await;
        match seen {
            Err(out) if is_unpermitted(&out) => {
                Err(self.refuse_file(&held, Refusal::LeadsOut, verb, path))
            }
            _ => Err(error),
        }
    }

    /// Bytes of the file of a descriptor.
    fn file_bytes(&self, fd: &Fd) -> FsResult<u64> {
        match self.table.get(fd)? {
            Descriptor::File(file) => Ok(file.file.metadata()?.len()),
            Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        }
    }

    /// Takes the hole that a write far behind the end of a file makes.
    fn take_hole(&self, fd: &Fd, offset: Filesize) -> FsResult<()> {
        self.take_file_bytes(offset.saturating_sub(self.file_bytes(fd)?))
    }

    /// Refuses to give another place to a link that leads up: from there it could lead out.
    async fn check_link(&mut self, fd: &Fd, held: &Held, verb: &str, path: &str) -> FsResult<()> {
        let Descriptor::Dir(dir) = self.table.get(fd)? else {
            return Ok(());
        };
        let (dir, wanted) = (dir.dir.clone(), path.to_owned());
        match on_thread(move || file_access::is_link_up(&dir, &wanted)).await? {
            true => Err(self.refuse_file(held, Refusal::LinkOut, verb, path)),
            false => Ok(()),
        }
    }

    /// A stream that counts in place of one that does not. It writes from `offset` on, or at the end.
    fn counted(
        &mut self,
        stream: Resource<DynOutputStream>,
        fd: &Fd,
        offset: Option<Filesize>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let place = self.held(fd)?.place;
        let Descriptor::File(file) = self.table.get(fd)? else {
            return Err(ErrorCode::BadDescriptor.into());
        };
        let at = offset.map(|offset| WriteAt::new(&file.file, offset));
        let stream = self.table.delete(stream)?;
        let budget = self.record.budget().clone();
        let counted: DynOutputStream = Box::new(FileOutput::new(stream, at, budget, place));
        Ok(self.table.push(counted)?)
    }
}

impl HostDescriptor for HostState {
    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        oflags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let held = self.held(&fd)?;
        let (dir, perms) = match self.table.get(&fd)? {
            Descriptor::Dir(dir) => (dir.dir.clone(), dir.perms),
            Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
        };
        let opening = Opening::new(path_flags, oflags, flags)?;
        if opening.writes() {
            self.check_writable(&held, "open for writing", &path)?;
        }
        if opening.creates() {
            self.take_entry()?;
        }
        let place = OpenFile::take(self.record.budget()).map_err(FsError::trap)?;
        let wanted = path.clone();
        let opened = on_thread(move || file_access::open(&dir, &wanted, opening)).await??;
        let descriptor = match opened {
            Opened::File(file) => Descriptor::File(File::new(file, perms, opening.mode, false)),
            Opened::Dir(dir) => Descriptor::Dir(Dir::new(dir, perms, opening.mode, false)),
            Opened::Refused(refusal) => {
                return Err(self.refuse_file(&held, refusal, "open", &path));
            }
        };
        self.hold(descriptor, held.below(&path, place))
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.let_go(&fd);
        HostDescriptor::drop(&mut self.filesystem(), fd)
    }

    async fn read(&mut self, fd: Fd, len: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        HostDescriptor::read(&mut self.filesystem(), fd, len, offset).await
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        let held = self.held(&fd)?;
        self.check_writable(&held, "write", "")?;
        self.take_hole(&fd, offset)?;
        self.take_file_bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
        HostDescriptor::write(&mut self.filesystem(), fd, bytes, offset).await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        let place = self.held(&fd)?.place;
        let stream = HostDescriptor::read_via_stream(&mut self.filesystem(), fd, offset)?;
        let stream = self.table.delete(stream)?;
        let input: DynInputStream = Box::new(FileInput::new(stream, place));
        Ok(self.table.push(input)?)
    }

    fn write_via_stream(
        &mut self,
        fd: Fd,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let held = self.held(&fd)?;
        self.check_writable(&held, "write", "")?;
        let stream = HostDescriptor::write_via_stream(&mut self.filesystem(), again(&fd), offset)?;
        self.counted(stream, &fd, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        let held = self.held(&fd)?;
        self.check_writable(&held, "append to", "")?;
        let stream = HostDescriptor::append_via_stream(&mut self.filesystem(), again(&fd))?;
        self.counted(stream, &fd, None)
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        let held = self.held(&fd)?;
        self.check_writable(&held, "set the size of", "")?;
        self.take_hole(&fd, size)?;
        HostDescriptor::set_size(&mut self.filesystem(), fd, size).await
    }

    async fn set_times(
        &mut self,
        fd: Fd,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let held = self.held(&fd)?;
        self.check_writable(&held, "set the times of", "")?;
        HostDescriptor::set_times(&mut self.filesystem(), fd, accessed, modified).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let verb = "set the times of";
        let held = self.held(&fd)?;
        self.check_writable(&held, verb, &path)?;
        let filesystem = &mut self.filesystem();
        let wanted = path.clone();
        let answer =
            HostDescriptor::set_times_at(filesystem, again(&fd), flags, wanted, accessed, modified)
                .await;
        self.confined(answer, fd, flags, &path, verb).await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let verb = "make the folder";
        let held = self.held(&fd)?;
        self.check_writable(&held, verb, &path)?;
        self.take_entry()?;
        let filesystem = &mut self.filesystem();
        let answer =
            HostDescriptor::create_directory_at(filesystem, again(&fd), path.clone()).await;
        self.confined(answer, fd, PathFlags::empty(), &path, verb)
            .await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let verb = "remove the folder";
        let held = self.held(&fd)?;
        self.check_writable(&held, verb, &path)?;
        let filesystem = &mut self.filesystem();
        let answer =
            HostDescriptor::remove_directory_at(filesystem, again(&fd), path.clone()).await;
        self.confined(answer, fd, PathFlags::empty(), &path, verb)
            .await
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let verb = "remove";
        let held = self.held(&fd)?;
        self.check_writable(&held, verb, &path)?;
        let filesystem = &mut self.filesystem();
        let answer = HostDescriptor::unlink_file_at(filesystem, again(&fd), path.clone()).await;
        self.confined(answer, fd, PathFlags::empty(), &path, verb)
            .await
    }

    async fn rename_at(
        &mut self,
        fd: Fd,
        path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        let verb = "rename";
        let (held, new_held) = (self.held(&fd)?, self.held(&new_fd)?);
        self.check_writable(&held, verb, &path)?;
        self.check_writable(&new_held, verb, &new_path)?;
        self.check_link(&fd, &held, verb, &path).await?;
        let answer = HostDescriptor::rename_at(
            &mut self.filesystem(),
            again(&fd),
            path.clone(),
            again(&new_fd),
            new_path.clone(),
        )
        .await;
        let flags = PathFlags::empty();
        let answer = self.confined(answer, fd, flags, &path, verb).await;
        self.confined(answer, new_fd, flags, &new_path, verb).await
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        let verb = "link";
        let (held, new_held) = (self.held(&fd)?, self.held(&new_fd)?);
        self.check_writable(&held, verb, &path)?;
        self.check_writable(&new_held, verb, &new_path)?;
        self.check_link(&fd, &held, verb, &path).await?;
        self.take_entry()?;
        let answer = HostDescriptor::link_at(
            &mut self.filesystem(),
            again(&fd),
            flags,
            path.clone(),
            again(&new_fd),
            new_path.clone(),
        )
        .await;
        let flags = PathFlags::empty();
        let answer = self.confined(answer, fd, flags, &path, verb).await;
        self.confined(answer, new_fd, flags, &new_path, verb).await
    }

    /// A link that leads up is not followed here, but by whoever else comes by: a program of the host, or
    /// a run that is given a folder inside this one. One that leads down stays inside wherever it is moved; one
    /// that leads up, and was there before, is not moved.
    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        let verb = "make the link";
        let held = self.held(&fd)?;
        self.check_writable(&held, verb, &path)?;
        if file_access::leads_up(target.as_bytes()) {
            return Err(self.refuse_file(&held, Refusal::LinkOut, verb, &path));
        }
        self.take_entry()?;
        let filesystem = &mut self.filesystem();
        let answer = HostDescriptor::symlink_at(filesystem, again(&fd), target, path.clone()).await;
        self.confined(answer, fd, PathFlags::empty(), &path, verb)
            .await
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        let held = self.held(&fd)?;
        let filesystem = &mut self.filesystem();
        let answer = HostDescriptor::readlink_at(filesystem, fd, path.clone()).await;
        match answer {
            // Nothing but a path or a target that leads out is not permitted here.
            Err(error) if error.downcast_ref() == Some(&ErrorCode::NotPermitted) => {
                Err(self.refuse_file(&held, Refusal::LeadsOut, "read the link", &path))
            }
            answer => answer,
        }
    }

    async fn stat_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let filesystem = &mut self.filesystem();
        let answer = HostDescriptor::stat_at(filesystem, again(&fd), flags, path.clone()).await;
        self.confined(answer, fd, flags, &path, "look at").await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let filesystem = &mut self.filesystem();
        let answer =
            HostDescriptor::metadata_hash_at(filesystem, again(&fd), flags, path.clone()).await;
        self.confined(answer, fd, flags, &path, "look at").await
    }

    /// The folder is read in pages. `wasmtime-wasi` reads all of it at once, however much that is; so the
    /// guest's stream is another one here, under the type that the interface gives it.
    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<ReaddirIterator>> {
        let dir = match self.table.get(&fd)? {
            Descriptor::Dir(dir) => dir.dir.clone(),
            Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
        };
        let place = OpenFile::take(self.record.budget()).map_err(FsError::trap)?;
        let rest = on_thread(move || rustix::fs::Dir::read_from(&*dir)).await?;
        let listing = Listing::new(rest.map_err(std::io::Error::from)?, place);
        let listing = self.table.push(listing)?;
        Ok(Resource::new_own(listing.rep()))
    }

    async fn advise(
        &mut self,
        fd: Fd,
        offset: Filesize,
        len: Filesize,
        advice: types::Advice,
    ) -> FsResult<()> {
        HostDescriptor::advise(&mut self.filesystem(), fd, offset, len, advice).await
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        HostDescriptor::sync(&mut self.filesystem(), fd).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        HostDescriptor::sync_data(&mut self.filesystem(), fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        HostDescriptor::get_flags(&mut self.filesystem(), fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        HostDescriptor::get_type(&mut self.filesystem(), fd).await
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        HostDescriptor::stat(&mut self.filesystem(), fd).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        HostDescriptor::metadata_hash(&mut self.filesystem(), fd).await
    }

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        HostDescriptor::is_same_object(&mut self.filesystem(), a, b).await
    }
}

impl types::HostDirectoryEntryStream for HostState {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<ReaddirIterator>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing: Resource<Listing> = Resource::new_borrow(stream.rep());
        let known = self.table.get_mut(&listing)?;
        if let Some(entry) = known.pop() {
            return Ok(Some(entry?));
        }
        let Some(rest) = known.take_rest() else {
            return Ok(None);
        };
        let page = on_thread(move || file_access::read_page(rest)).await?;
        let known = self.table.get_mut(&listing)?;
        known.put(page);
        Ok(known.pop().transpose()?)
    }

    fn drop(&mut self, stream: Resource<ReaddirIterator>) -> wasmtime::Result<()> {
        self.table
            .delete(Resource::<Listing>::new_own(stream.rep()))?;
        Ok(())
    }
}
