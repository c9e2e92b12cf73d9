//! The one shape of experiments: what varies, what is compared, what is measured, and what a source
//! found; apart from that, how it is measured.
//!
//! | file | what |
//! | --- | --- |
//! | `declaration` | what an experiment says of itself |
//! | `below` | what a claim of it compares with |
//! | `left_out` | what would be in it, if what it needs were installed |
//! | `bench` | what measures, and what comes of one measurement |
//! | `used` | what programs used in it, and what the engine says of itself |
//! | `surroundings` | the clock, and what the machine did meanwhile |
//! | `order` | which measurements there are, and in which order |
//! | `runner` | measures until the intervals are narrow, or the time is up, or someone interrupts |
//! | `watched` | what has to be narrow |
//! | `directory` | where a run keeps every measurement, so that it can go on |
//! | `analysis` | estimates, what holds of the source's findings, what makes a run doubtful |
//! | `stages` | the queueing models: one queue, or two in a row |
//! | `fitted` | a queueing model, fitted at some loads and held against others |
//! | `lacks` | what such a model lacks where it misses |
//! | `document` | a report as parts, written as Markdown and as HTML |
//! | `picture` | plots |
//! | `by_core` | what each core did |
//! | `by_program` | what programs used, and what the engine says of itself |
//! | `of_source` | a source's figures beside ours, in a report |
//! | `beside` | model and measurement in a report |
//! | `by_stage` | what was fitted, of one stage and of two |
//! | `report` | the files that a run leaves |
//! | `group` | the page of several runs that were made by one command |
//! | `apart` | where two declarations of an experiment are apart |
//! | `comparison` | two runs of the same experiment |
//!
//! A [`Bench`] knows nothing of rounds, and the runner nothing of networks: it is tested with a
//! bench that answers from a table.

pub mod analysis;
pub mod apart;
pub mod below;
pub mod bench;
mod beside;
mod by_core;
mod by_program;
mod by_stage;
pub mod comparison;
mod course;
pub mod declaration;
pub mod directory;
pub mod document;
pub mod fitted;
pub mod group;
pub mod lacks;
pub mod left_out;
mod marks;
mod of_source;
pub mod order;
pub mod picture;
mod plot;
pub mod report;
mod rules;
pub mod runner;
mod stages;
pub mod surroundings;
pub mod used;
mod watched;

pub use bench::{At, Bench, Sample};
pub use declaration::Experiment;
pub use directory::Directory;
pub use rules::{End, Rules};
pub use runner::Runner;
