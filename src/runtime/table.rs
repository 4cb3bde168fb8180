//! Everything about live executions that changes, behind one lock.

/// Prompts of one execution that may wait. Protects the host's memory from whoever sends more than an agent
/// takes.
pub const QUEUED_MAX: usize = 64;
