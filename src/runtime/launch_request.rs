//! What is to be launched, put together from the fields of a spec and from its metadata.

/// Bytes of the metadata of an execution, as JSON. Protects every ledger, list and snapshot that has them.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
