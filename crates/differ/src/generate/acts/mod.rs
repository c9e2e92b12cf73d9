//! Single acts, drawn by weight.

mod bytes;
mod descriptors;
mod peers;
mod processes;
mod readiness;
mod sockets;

pub use bytes::{receive_from, send_to};
pub use descriptors::{close_one, dup_of};
pub use peers::wake_all;
pub use processes::{engine, exit_all, fork};
pub use readiness::{add_to_set, poll_on, select_on};
pub use sockets::{accept_from, listener};

use super::model::Model;
use crate::program::{Actor, Step};

type Act = fn(&mut Model, Actor) -> Option<()>;

const ACTS: &[(usize, Act)] = &[
    (8, peers::peer_connects),
    (16, peers::peer_sends),
    (4, peers::peer_ends),
    (9, sockets::accept),
    (16, bytes::receive),
    (10, bytes::send),
    (4, sockets::connect),
    (5, processes::fork),
    (3, processes::thread),
    (1, processes::exec),
    (2, processes::exit),
    (3, processes::signal),
    (2, processes::start),
    (1, processes::handle),
    (1, processes::engine),
    (4, descriptors::dup),
    (7, descriptors::close),
    (3, sockets::shutdown),
    (3, readiness::create_set),
    (7, readiness::change_set),
    (8, readiness::wait_in_set),
    (7, readiness::poll),
    (4, readiness::select),
    (5, descriptors::set_option),
    (4, descriptors::get_option),
    (4, descriptors::ask),
    (2, descriptors::set_nonblocking),
    (3, descriptors::pass),
    (3, descriptors::take),
    (3, bytes::send_file),
    (5, bytes::splice),
    (1, bytes::tee),
    (3, sockets::listen),
    (1, observe),
    (2, sockets::nonsense),
];

/// The weights of the first three, which are the peer's.
const PEERS: usize = 8 + 16 + 4;

/// Draws until one is possible.
pub fn one(model: &mut Model) {
    let total: usize = ACTS.iter().map(|(weight, _)| weight).sum();
    for _ in 0..30 {
        let mut drawn = model.below(total);
        // The peer acts by itself.
        let nobody_needed = drawn < PEERS;
        for (weight, act) in ACTS {
            if drawn >= *weight {
                drawn -= weight;
                continue;
            }
            let actor = model.idle().or(nobody_needed.then_some(0));
            if let Some(actor) = actor
                && act(model, actor).is_some()
            {
                return;
            }
            break;
        }
    }
    // Everyone waits, and the peer has nothing to do: let somebody go on.
    wake_all(model);
    model.steps.push(Step::Observe);
}

fn observe(model: &mut Model, _: Actor) -> Option<()> {
    model.steps.push(Step::Observe);
    Some(())
}
