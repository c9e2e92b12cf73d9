//! What the engine asks of the kernel, and what it tells it: addresses, routes and neighbours of
//! the interface, connections and rules that are already there, ports, privileges, scheduling.
//!
//! Nothing here is rebuilt: the kernel decides routes and resolves neighbours, the engine caches
//! the answers and keeps them true by listening to the kernel's notifications.

pub mod addresses;
pub mod asking;
pub mod calls;
pub mod cgroups;
pub mod link;
pub mod lsm;
pub mod memory;
pub mod nature;
pub mod neighbours;
pub mod netfilter;
pub mod netlink;
pub mod opener;
pub mod ports;
pub mod privileges;
pub mod processes;
pub mod queues;
pub mod routes;
pub mod sock_diag;
pub mod traffic;
pub mod xfrm;
