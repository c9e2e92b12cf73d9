//! What the rules of netfilter say of packets that will never pass them.
//!
//! What is steered to the engine the kernel's hooks do not see. So the engine follows their rules itself,
//! where it can: [`Ruleset::verdict`] walks the chains of nf_tables with a packet of which only some is
//! known (the interface, the port, the state of its connection) and all of the peer's address at once,
//! and says for which peers it would be accepted, and for which dropped. A rule that asks for what is not
//! known (a rate, a mark, a time) may match or not; where that makes a difference the answer is
//! [`Outcome::Unclear`], and the listener is left to the kernel, which knows.
//!
//! | module | what |
//! | --- | --- |
//! | [`ranges`] | sets of addresses |
//! | [`rules`] | chains, rules and sets, as the kernel has them |
//! | [`packet`] | what is known of the packet that is asked about |
//! | [`matching`] | whether it matches an expression, and for which peers |
//! | [`walk`] | from rule to rule, from chain to chain, from hook to hook |
//! | [`policy`] | what follows for a listener, and for connections that programs open |
//! | [`cuts`] | what follows for connections that are there |
//!
//! Nothing here asks the kernel; `slow::kernel::netfilter` reads the rules.

pub mod cuts;
pub mod matching;
pub mod octet;
pub mod packet;
pub mod policy;
pub mod ranges;
pub mod rules;
pub mod truth;
pub mod walk;

pub use cuts::Cut;
pub use packet::{Interface, Packet, Segment, Way};
pub use policy::{Access, Policy, Refused};
pub use ranges::Ranges;
pub use rules::Ruleset;
pub use walk::{Outcome, Verdict};
