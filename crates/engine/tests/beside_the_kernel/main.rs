//! An engine on a real interface, beside the kernel, by topic. One binary, because each would compile and link
//! the whole engine.

mod kernel;
mod natures;
mod networks_that_change;
mod no_way_back;
mod ports;
mod queues;
mod several_interfaces;
mod storm;
mod traffic_control;

#[path = "../beside/mod.rs"]
mod beside;
