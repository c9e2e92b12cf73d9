//! Random programs.
//!
//! A model of what the program holds makes most calls sensible: who has which descriptor, what it
//! is, what is unread. It need not be right. What it takes for possible and is not, the kernel
//! answers with an error, and that must be the engine's answer too.

mod acts;
mod idioms;
mod model;

use crate::program::{Program, Step};
use model::Model;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Steps of the longest programs.
const LONGEST: usize = 45;

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let length = random.random_range(10..=LONGEST);
    let mut model = Model::new(random);
    idioms::prelude(&mut model);
    while model.steps.len() < length {
        if model.chance(12) {
            idioms::one(&mut model);
        } else {
            acts::one(&mut model);
        }
    }
    // What still waits gets what it waits for, so that a wake-up that is lost is seen.
    acts::wake_all(&mut model);
    // Those that do not end in order are killed in the end.
    if model.chance(70) {
        acts::exit_all(&mut model);
    }
    let mut steps: Vec<Step> = model.steps;
    steps.truncate(LONGEST + 25);
    Program {
        about: format!("seed {seed}"),
        steps,
    }
}

#[cfg(test)]
mod tests {
    use super::program;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_is_always_the_same_program() {
        assert_eq!(program(7), program(7));
        assert_ne!(program(7).steps, program(8).steps);
    }

    /// A kind of call that no seed draws is not tested.
    #[test]
    fn programs_make_every_kind_of_call() {
        let mut seen = BTreeSet::new();
        for seed in 0..800 {
            for step in program(seed).steps {
                let text = match step {
                    super::Step::Do(_, call) => call.name(),
                    super::Step::Peer(act) => format!("peer {act:?}"),
                    super::Step::Signal(_, signal) => format!("signal {signal:?}"),
                    super::Step::Engine(engine) => format!("engine {engine:?}"),
                    super::Step::Observe => "observe".into(),
                };
                let end = text.find(['(', '{']).unwrap_or(text.len());
                seen.insert(text[..end].trim().to_owned());
            }
        }
        let calls = [
            "socket",
            "bind",
            "listen",
            "accept",
            "connect",
            "read",
            "readv",
            "recv",
            "recvfrom",
            "recvmsg",
            "recvmmsg",
            "write",
            "writev",
            "send",
            "sendto",
            "sendmsg",
            "sendmmsg",
            "sendfile",
            "splice",
            "tee",
            "preadv2",
            "pwritev2",
            "readplain",
            "writeplain",
            "setsockopt Congestion",
            "getsockopt Zerocopy",
            "shutdown",
            "close",
            "dup",
            "pipe",
            "file",
            "pair",
            "pass",
            "take",
            "epollcreate",
            "epollcontrol",
            "epollwait",
            "poll",
            "select",
            "name",
            "unread",
            "setnonblocking",
            "flags",
            "fork",
            "thread",
            "exec",
            "exit",
            "setsockopt NoDelay",
            "getsockopt Error",
            "peer Connect",
            "peer Send",
            "peer Shutdown",
            "peer Close",
            "peer Reset",
            "signal Stop",
            "signal Continue",
            "signal Kill",
            "signal Interrupt",
            "start Spawn",
            "start System",
            "start Popen",
            "handle",
            "handled",
            "engine Stop",
            "engine Continue",
            "observe",
        ];
        for call in calls {
            assert!(seen.contains(call), "{call} is never drawn: {seen:?}");
        }
    }
}
