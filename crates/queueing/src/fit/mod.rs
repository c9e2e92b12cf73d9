//! From measurements to the model's inputs, and from the model back to measurements.
//!
//! | module | does |
//! | --- | --- |
//! | [`regression`] | service times from utilisation or busy time at several loads, with intervals |
//! | [`likelihood`] | distributions from samples, by maximum likelihood; the tail index |
//! | [`agreement`] | how well a model agrees: relative error with a bootstrap interval, Kolmogorov–Smirnov |

pub mod agreement;
pub mod likelihood;
pub mod regression;
