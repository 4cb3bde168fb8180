//! What is sent and received, and nothing else: a change of a type below changes no answer by accident.

pub(crate) mod run;
