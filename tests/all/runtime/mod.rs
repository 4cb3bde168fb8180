//! Executions as the runtime has them.

mod modes;
