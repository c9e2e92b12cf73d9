//! What the model refuses, with the value that was refused and what would have been accepted.

/// An input outside the domain of a formula.
///
/// Every variant carries the offending value, so that a message can quote it and a program can act
/// on it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A value that has to be a finite number greater than zero is not.
    #[error("{what} must be a finite number greater than 0, not {value}")]
    NotPositive {
        /// The name of the input.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// A value that has to be a finite number of at least zero is not.
    #[error("{what} must be a finite number of at least 0, not {value}")]
    Negative {
        /// The name of the input.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// A value lies outside its interval.
    #[error("{what} must {}, not {value}", domain(*low, *high))]
    OutOfRange {
        /// The name of the input.
        what: &'static str,
        /// What was given.
        value: f64,
        /// The least value accepted.
        low: f64,
        /// The greatest value accepted.
        high: f64,
    },
    /// A count that has to be at least one is zero.
    #[error("{what} must be at least 1")]
    Zero {
        /// The name of the input.
        what: &'static str,
    },
    /// A moment does not exist: the tail is too heavy.
    #[error(
        "moment {order} of {distribution} does not exist: it needs {needs}; \
         bound the tail (bounded Pareto) and state the bound"
    )]
    NoMoment {
        /// The distribution, with its parameters.
        distribution: String,
        /// Which moment was asked for: 1 is the mean.
        order: u32,
        /// The condition that fails.
        needs: String,
    },
    /// A moment exists, but a double-precision number cannot hold it.
    #[error(
        "moment {order} of {distribution} is out of the range of numbers; \
         choose a unit of time in which it is moderate"
    )]
    TooGreat {
        /// The distribution, with its parameters.
        distribution: String,
        /// Which moment was asked for: 1 is the mean.
        order: u32,
    },
    /// Moments that no random variable has.
    #[error(
        "a mean square of {second} is less than the square of the mean, {mean}: no time varies so"
    )]
    Impossible {
        /// E\[X\].
        mean: f64,
        /// E\[X²\].
        second: f64,
    },
    /// The queue has no steady state at this load.
    #[error(
        "unstable: {queue} has a utilisation of {utilisation:.4} at {arrival_rate} requests a second; \
         below {stable_below} a second it is stable"
    )]
    Unstable {
        /// Which queue.
        queue: &'static str,
        /// The offered utilisation, at least 1.
        utilisation: f64,
        /// The arrival rate that was given, a second.
        arrival_rate: f64,
        /// The rate below which a steady state exists, a second.
        stable_below: f64,
    },
    /// Too few samples for what was asked.
    #[error("{what} needs at least {needed} samples, not {given}")]
    TooFewSamples {
        /// What was to be computed.
        what: &'static str,
        /// How many it takes.
        needed: usize,
        /// How many there were.
        given: usize,
    },
    /// The inputs do not determine the answer (for example, all loads are the same).
    #[error("{what} cannot be determined: {why}")]
    Undetermined {
        /// What was to be computed.
        what: &'static str,
        /// What is missing.
        why: &'static str,
    },
    /// A policy that is none.
    #[error("no policy follows: {0}")]
    Policy(policy::Inconsistent),
}

/// An interval in words; one that ends where the numbers end is open there.
fn domain(low: f64, high: f64) -> String {
    match (low == f64::MIN, high == f64::MAX) {
        (true, true) => "be a finite number".into(),
        (true, false) => format!("be at most {high}"),
        (false, true) => format!("be a finite number of at least {low}"),
        (false, false) if low == high => format!("be {low}"),
        (false, false) => format!("lie between {low} and {high}"),
    }
}

/// Refuses what is not a finite number greater than zero.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, ModelError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(ModelError::NotPositive { what, value })
    }
}

/// Refuses what is not a finite number of at least zero.
pub(crate) fn non_negative(what: &'static str, value: f64) -> Result<f64, ModelError> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(ModelError::Negative { what, value })
    }
}

/// Refuses what lies outside `low..=high`.
pub(crate) fn within(
    what: &'static str,
    value: f64,
    low: f64,
    high: f64,
) -> Result<f64, ModelError> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        Err(ModelError::OutOfRange {
            what,
            value,
            low,
            high,
        })
    }
}

/// Refuses a count of zero.
pub(crate) fn at_least_one(what: &'static str, value: usize) -> Result<usize, ModelError> {
    if value == 0 {
        Err(ModelError::Zero { what })
    } else {
        Ok(value)
    }
}

/// Refuses a utilisation of one or more; `capacity` is the arrival rate at which it would be one.
pub(crate) fn stable(
    queue: &'static str,
    arrival_rate: f64,
    capacity: f64,
) -> Result<f64, ModelError> {
    let utilisation = arrival_rate / capacity;
    if utilisation < 1.0 {
        Ok(utilisation)
    } else {
        Err(ModelError::Unstable {
            queue,
            utilisation,
            arrival_rate,
            stable_below: capacity,
        })
    }
}
