//! What the model says should go to the engine, in a form that an engine follows: `outboard plan --policy`
//! writes it, and the engine reads it.
//!
//! A policy names *bands*: loads at which something goes to the engine. There is one for connections, since
//! what a connection will ask for cannot be seen when it opens; and one for each class of sizes, for what is
//! known to have a size: a file that a program names. As JSON:
//!
//! ```json
//! { "version": 2,
//!   "connections": { "offload_from_rate": 150.0, "offload_below_rate": null },
//!   "rules": [
//!     { "up_to_bytes": 1024,  "offload_from_rate": null,  "offload_below_rate": null },
//!     { "up_to_bytes": 10240, "offload_from_rate": 200.0, "offload_below_rate": 900.0 } ],
//!   "above": { "offload_from_rate": 0.0, "offload_below_rate": null } }
//! ```
//! Rates are requests a second. `offload_from_rate` null: never. `offload_below_rate` null: no upper end.
//!
//! A decision is a few comparisons; it asks for no time and for no counter.
#![forbid(unsafe_code)]

mod band;
mod rules;
mod written;

pub use band::Band;
pub use rules::{Inconsistent, MOST_RULES, Part, Policy, Rule};
pub use written::{Unreadable, VERSION};
