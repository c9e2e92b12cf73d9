//! From measurements to the model's inputs, and from the model back to measurements.
//!
//! | module | does |
//! | --- | --- |
//! | [`regression`] | service times from utilisation or busy time at several loads, with intervals |
//! | [`two_stages`] | two stages in a row: services, their variability and the time alone, from busy shares and times |
//! | [`likelihood`] | distributions from samples, by maximum likelihood; the tail index |
//! | [`agreement`] | how well a model agrees: relative error with a bootstrap interval, Kolmogorov–Smirnov |

pub mod agreement;
pub mod likelihood;
pub mod regression;
pub mod two_stages;
