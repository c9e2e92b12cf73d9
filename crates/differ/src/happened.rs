//! What happened in the steps of a program.

use crate::outcome::Outcome;
use crate::peer::{State, View};
use crate::program::{Actor, Connection};
use std::collections::{BTreeMap, BTreeSet};

/// What happened in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// Calls that returned, by the step that made them.
    pub returned: BTreeMap<usize, Outcome>,
    /// Actors that came.
    pub came: BTreeSet<Actor>,
    /// Actors whose process died.
    pub died: BTreeSet<Actor>,
    /// Why the step was not taken, if it was not.
    pub skipped: Option<&'static str>,
    /// What became of a connection that the peer opened.
    pub connected: Option<State>,
    /// What the peer has, if the step looks.
    pub views: Option<BTreeMap<Connection, View>>,
    /// What had come to it by then.
    pub arrived: Arrived,
}

/// How many bytes the peer has of each connection. It is never another: when they come is a matter of time, and
/// what has come is compared where a step looks.
#[derive(Clone, Debug, Default)]
pub struct Arrived(pub(crate) BTreeMap<Connection, usize>);

impl PartialEq for Arrived {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Arrived {}

/// What happened in all steps, two beyond the program's included: a look at what the peer has, and
/// another after the death of all processes.
pub type Transcript = Vec<Happened>;
