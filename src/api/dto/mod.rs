//! What is sent and received, and nothing else: a change of a type below changes no answer by accident.

pub(crate) mod approval;
pub(crate) mod execution;
pub(crate) mod record;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod skill;
