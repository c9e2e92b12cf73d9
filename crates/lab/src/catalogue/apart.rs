//! Beside kernel and engine an engine on a core of its own, as that of 003 had a machine of its own: the third core, where
//! there is one. With two cores it is the client's, which is said in the roles and on top of the report. Beside it a kernel
//! with as many cores: what it does with frames that come is on that core.

use super::bed::{Bed, CLIENT_CORE, ROLES, STACKS};
use super::{Extent, Setup};
use crate::experiment::declaration::Claim;
use crate::experiment::left_out::LeftOut;
use crate::receiving;
use crate::world::{Side, World};
use anyhow::Result;

/// What a report calls it.
pub const APART: &str = "engine apart";
/// The kernel with as many cores as that engine and its server have.
pub const TWO_CORES: &str = "kernel, two cores";
/// Those of a first impression, which has no time for more.
pub const QUICK: [&str; 3] = [STACKS[0], STACKS[1], APART];

/// All that are compared.
pub fn subjects(extent: Extent) -> Vec<String> {
    let mut subjects = QUICK.to_vec();
    if extent == Extent::Full {
        subjects.insert(2, TWO_CORES);
    }
    subjects.into_iter().map(String::from).collect()
}

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
        _ => "on core 2, its own: `kernel` has a core less than it",
    };
    format!(
        "{ROLES}; the engine of `{APART}` {place}. `{TWO_CORES}` has the receive work of its server on that core, by receive \
         packet steering: it has as many cores"
    )
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
/// and these. Beside the kernel, as in the source, and beside one with as many cores, where that is measured.
pub fn claims(of_shared: &[Claim], words: &str, extent: Extent) -> Vec<Claim> {
    let each = of_shared.iter().flat_map(|claim| {
        let beside_kernel = Claim {
            says: format!("{}, {words}", claim.says),
            subject: APART.into(),
            ..claim.clone()
        };
        let is_of_both = extent == Extent::Full && claim.to == STACKS[0];
        let beside_two = is_of_both.then(|| Claim {
            says: format!("{}, beside a kernel with as many cores", beside_kernel.says),
            to: TWO_CORES.into(),
            ..beside_kernel.clone()
        });
        std::iter::once(beside_kernel).chain(beside_two)
    });
    each.collect()
}

/// What one of them is measured on, without a server.
pub fn bed(setup: &Setup, subject: &str) -> Result<Bed> {
    let core = core_of_its_own(cores_here());
    match subject {
        APART => Bed::with_engine_on(setup, STACKS[1], World::new()?, core),
        TWO_CORES => {
            let world = World::new()?;
            receiving::on_core(&world, Side::Server, core)?;
            Bed::in_world(setup, STACKS[0], world)
        }
        shared => Bed::of(setup, shared),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        APART, Bed, Extent, STACKS, Setup, TWO_CORES, bed, claims, core_of_its_own, cores_here,
    };
    use super::{left_out, roles, subjects};
    use crate::catalogue::bed::{RECEIVED, SERVER_CORE};
    use crate::experiment::declaration::{Bound, Citation, Claim};

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

    #[test]
    fn an_engine_apart_stands_beside_a_kernel_with_as_many_cores() {
        let shared = Claim {
            says: "It gains".into(),
            citation: Citation::goal(),
            measure: "rate".into(),
            subject: STACKS[1].into(),
            to: STACKS[0].into(),
            at: Vec::new(),
            ratio: Bound::AtLeast(1.0),
        };
        let figure = Claim {
            to: "".into(),
            ..shared.clone()
        };
        let told = |extent| -> Vec<(String, String)> {
            let claims = claims(&[shared.clone(), figure.clone()], "apart", extent);
            assert!(claims.iter().all(|claim| claim.subject == APART));
            claims
                .into_iter()
                .map(|claim| (claim.says, claim.to.subject))
                .collect()
        };
        let words = |says: &str, to: &str| (says.to_owned(), to.to_owned());
        let full = [
            words("It gains, apart", STACKS[0]),
            words(
                "It gains, apart, beside a kernel with as many cores",
                TWO_CORES,
            ),
            words("It gains, apart", ""),
        ];
        assert_eq!(told(Extent::Full), full);
        assert_eq!(told(Extent::Quick), [full[0].clone(), full[2].clone()]);
        let is_there = |extent| subjects(extent).iter().any(|name| name == TWO_CORES);
        assert!(is_there(Extent::Full) && !is_there(Extent::Quick));
    }

    #[test]
    fn a_kernel_receives_where_its_subject_has_it() {
        let test = "a_kernel_receives_where_its_subject_has_it";
        if crate::skip_without(test, &["ip"]) {
            return;
        }
        let setup = Setup {
            binary: "none".into(),
            log: None,
            kept: "none".into(),
            subjects: vec![TWO_CORES.into()],
        };
        let apart = |subject| bed(&setup, subject).unwrap().receives_on();
        assert_eq!(apart(TWO_CORES), 1 << core_of_its_own(cores_here()));
        assert_eq!(apart(STACKS[0]), 0);
        assert_eq!(apart(RECEIVED), 1 << SERVER_CORE);
        let with_it = |subject| Bed::of(&setup, subject).unwrap().receives_on();
        assert_eq!(with_it(RECEIVED), 1 << SERVER_CORE);
        assert_eq!(
            with_it("serve on the kernel, received on its core"),
            1 << SERVER_CORE
        );
        assert_eq!(with_it("serve on the kernel"), 0);
    }
}
