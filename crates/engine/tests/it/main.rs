//! A world in one thread under virtual time, by topic. One binary: each of them would compile the engine's
//! workers anew for the simulated link, which takes longer than all of these tests.
#![allow(
    clippy::duplicate_mod,
    reason = "two harnesses read scripts alike, and each is a module of a fuzz target as well"
)]

mod admission;
mod bells;
mod buffers;
mod credit;
mod departures;
mod fair_shares;
mod fast_open;
mod files;
mod flooded;
mod forking;
mod forks;
mod gone;
mod governed;
mod halves;
mod hostile;
mod kernel_cookies;
mod kernel_sockets;
mod left;
mod lent;
mod loans;
mod local;
mod many;
mod neighbours_that_lie;
mod new_addresses;
mod next_hops;
mod opening;
mod ordering;
mod outside;
mod past;
mod posted;
mod pressure;
mod proofs;
mod reclaim;
mod resting;
mod rights;
mod room;
mod same_port;
mod sending;
mod serving;
mod shut_down;
mod strangers;
mod telling;
mod tickets;
mod tracing;
mod two_links;
mod two_listeners;
mod unread;
mod versions;
mod waits;
mod workers;
mod workers_resets;

#[path = "../frozen/mod.rs"]
mod frozen;
#[path = "../scripts/mod.rs"]
mod scripts;
#[path = "../world/mod.rs"]
mod world;
