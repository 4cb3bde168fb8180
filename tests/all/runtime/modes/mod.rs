//! The tools that agents have in each mode, called by a real agent.

mod agents;
mod asked;
mod conversation;
mod cut_off;
mod documents;
mod house;
mod offered;
mod settings;
mod skill;
