//! What a suite says of itself.

use std::collections::BTreeMap;

/// How each test of a suite ended: true if it passed. Those that were skipped are not in it.
pub type Results = BTreeMap<String, bool>;
