//! The requests that are made of what was said, in either way of making a load.

use anyhow::Result;
use stateless::client::request::{Common, Requests};

use super::job::Job;

/// All of them.
pub fn all(job: &Job<'_>) -> Result<Requests> {
    let args = job.args;
    let patterns = job.url.patterns(&args.paths, args.sizes.as_deref())?;
    let common = Common {
        host: job.url.host.clone(),
        headers: args.headers.clone(),
        head_only: args.head,
    };
    Ok(Requests::new(&common, &patterns)?)
}
