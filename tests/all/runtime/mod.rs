//! What a runtime promises, tried on each backend that there is and on one that is none.

mod contract;
mod cycles;
mod ends;
mod events;
mod fake;
mod families;
mod late;
mod launches;
mod modes;
mod restarts;
mod rig;
mod stuck;
mod turns;
mod workers;
mod workspaces;
