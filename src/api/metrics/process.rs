//! What the system says of this process.

use std::fs;

/// Bytes of memory that are resident; none where the system does not say.
pub(super) fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let page_bytes = u64::try_from(rustix::param::page_size()).ok()?;
    Some(pages.saturating_mul(page_bytes))
}

/// Descriptors that are open; none where the system does not say.
pub(super) fn open_descriptors() -> Option<u64> {
    // One of them is that of the listing itself.
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(listed).ok()?.checked_sub(1)
}

/// Descriptors that may be open; none where there is no bound.
pub(super) fn descriptors_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}
