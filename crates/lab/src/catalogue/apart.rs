//! Beside kernel and engine an engine on a core of its own, as that of 003 had a machine of its own: the third core, where
//! there is one. With two cores it is the client's, which is said in the roles and on top of the report.

use super::Setup;
use super::bed::{Bed, CLIENT_CORE, ROLES, STACKS};
use crate::experiment::declaration::Claim;
use crate::experiment::left_out::LeftOut;
use crate::world::World;
use anyhow::Result;

/// What a report calls it.
pub const APART: &str = "engine apart";
/// All three.
pub const SUBJECTS: [&str; 3] = [STACKS[0], STACKS[1], APART];

/// The core of an engine that has one of its own, of a machine with so many: the third, where there is one.
pub const fn core_of_its_own(cores: usize) -> usize {
    if cores > 2 { 2 } else { CLIENT_CORE }
}

/// Cores of this machine.
pub fn cores_here() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What is on which core, on a machine with so many.
pub fn roles(cores: usize) -> String {
    let place = match core_of_its_own(cores) {
        CLIENT_CORE => {
            "on core 1 together with the client, as there are two cores only: neither has that core for itself"
        }
        _ => "on core 2, its own: the kernel has a core less than it",
    };
    format!("{ROLES}; the engine of `{APART}` {place}")
}

/// What a machine with so many cores has not.
pub fn left_out(cores: usize) -> Vec<LeftOut> {
    let shares = core_of_its_own(cores) == CLIENT_CORE;
    let why = format!(
        "there are two cores, and `{APART}` is on the client's, where each of the two is late by what the other does"
    );
    let missing = shares.then(|| LeftOut::of_machine("a core for the engine alone", why));
    missing.into_iter().collect()
}

/// The same claims of the engine apart, since that of the source had a machine of its own: each in the words that it has,
/// and these.
pub fn claims(of_shared: &[Claim], words: &str) -> Vec<Claim> {
    let each = of_shared.iter().map(|claim| Claim {
        says: format!("{}, {words}", claim.says),
        subject: APART.into(),
        ..claim.clone()
    });
    each.collect()
}

/// What one of the three is measured on, without a server.
pub fn bed(setup: &Setup, subject: &str) -> Result<Bed> {
    if subject != APART {
        return Bed::bare(setup, subject);
    }
    let core = core_of_its_own(cores_here());
    Bed::with_engine_on(setup, STACKS[1], World::new()?, core)
}

#[cfg(test)]
mod tests {
    use super::{APART, left_out, roles};

    #[test]
    fn who_shares_a_core_is_said_in_the_roles_and_on_top() {
        let two = left_out(2);
        assert_eq!(two.len(), 1);
        assert!(two[0].is_of_machine());
        assert!(two[0].why.contains("the client's"), "{}", two[0]);
        let shared =
            "`engine apart` on core 1 together with the client, as there are two cores only";
        assert!(roles(2).contains(shared), "{}", roles(2));
        assert_eq!(left_out(3), []);
        let alone = format!("`{APART}` on core 2, its own");
        assert!(roles(4).contains(&alone), "{}", roles(4));
    }
}
