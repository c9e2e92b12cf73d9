//! Suites that come with the sources of Debian's packages: those are fetched, and what they need is built
//! beside them.

mod fetch;
mod libuv;
mod memcached;
mod node;
mod perl;
mod printed;
mod redis;
mod suite;
mod tap;

pub use suite::Suite;

/// Every suite of this kind.
pub const ALL: &[Suite] = &[
    libuv::SUITE,
    perl::SUITE,
    memcached::SUITE,
    redis::SUITE,
    node::SUITE,
];
