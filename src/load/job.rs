//! What is to be done.

use super::options::Args;
use super::target::Target;
use super::url::Url;

/// A load, ready to be run as often as it takes.
pub(super) struct Job<'a> {
    pub(super) args: &'a Args,
    pub(super) url: Url,
    pub(super) target: Target,
}
