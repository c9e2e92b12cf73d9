//! The fast half of the engine: what a core does for each packet and each submission, and the state
//! that it needs for that. One thread, which never waits for anything but work.
//!
//! | module | what |
//! | --- | --- |
//! | [`common`] | what all workers have in common, and never write |
//! | [`worker`] | the loop: receive, submissions, timers, completions, transmit, doorbells |
//! | [`memory`] | where received bytes lie, and where bytes to send come from |
//! | [`connections`] | whose each connection is, and what its owner has not been told |
//! | [`family`] | the processes that have a connection together |
//! | [`openings`] | the connections that processes are opening, by the tokens that they gave them |
//! | [`ids`] | the numbers of sessions, and of the pools that hold what is received |
//! | [`handoff`] | several workers: whose a flow is, who accepts where, and the queues between them |
//! | [`session`] | the attached processes and their shared memory |
//! | [`listeners`] | which processes accept where, and how many connections each wants |
//! | [`accounts`] | who has how much of what users share and cannot be taken away |
//! | [`orphans`] | connections that programs have closed and the TCP sees to, by user |
//! | [`users`] | how many connections each user has, and may have |

pub mod accounts;
pub mod common;
pub mod connections;
pub mod family;
pub mod handoff;
pub mod ids;
pub mod listeners;
pub mod memory;
pub mod openings;
pub mod orphans;
pub mod session;
pub mod users;
pub mod worker;
