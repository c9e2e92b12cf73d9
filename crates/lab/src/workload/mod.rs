//! What clients of published benchmarks ask for: sizes, popularity, pauses and arrivals, drawn from
//! the published parameters, the same from the same seed.
//!
//! | file | what |
//! | --- | --- |
//! | `distribution` | bounded Pareto and lognormal distributions, with the functions that they are tested by |
//! | `surge` | SURGE: files, popularity, pauses, embedded objects |
//! | `users` | SURGE's users: their files, what each asks for, and when |
//! | `mixes` | WebStone's and SPECweb99's mixes, and classes 0 to 4 |
//! | `arrivals` | Poisson arrivals |
//! | `files` | file sets on disk |
//! | `access_log` | requests of a Common or Combined Log |
//! | `replay` | such a log as requests to be made again, and the files that they need |
//! | `agreement` | the Kolmogorov–Smirnov statistic |

pub mod access_log;
pub mod agreement;
pub mod arrivals;
pub mod distribution;
pub mod files;
pub mod mixes;
pub mod replay;
pub mod surge;
pub mod users;
