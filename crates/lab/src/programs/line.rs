//! A line of the table.

use super::trial;

/// A program on both stacks.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) kernel: trial::Trial,
    pub(super) engine: trial::Trial,
}
