//! LAWS (Shivam and Chase, *On the Elusive Benefits of Protocol Offload*, 2003): the peak
//! throughput before and after offloading, from ratios alone.

use crate::ModelError;
use crate::error::{non_negative, positive, within};
use serde::Serialize;

/// The inputs of LAWS. Costs are CPU seconds for a unit of data on a reference processor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Laws {
    /// a: application work of a unit of data, seconds.
    pub application: f64,
    /// o: protocol overhead of a unit of data, seconds.
    pub overhead: f64,
    /// X: how long the host takes in units of the reference (2: half as fast).
    pub host_scale: f64,
    /// Y: the same of the engine.
    pub engine_scale: f64,
    /// B: the bandwidth of the wire, units of data a second.
    pub bandwidth: f64,
    /// p: the share of the overhead that is offloaded, 0 to 1.
    pub offloaded: f64,
    /// β: the structural factor: below 1 where offloading removes work (copies), above where it
    /// adds some.
    pub structure: f64,
}

/// Peak throughput in units of data a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Throughput {
    /// min(B, 1/((a+o)X)).
    pub before: f64,
    /// min(B, 1/((a+(1−p)o)X), 1/(p·o·β·Y)).
    pub after: f64,
}

/// The peak throughput before and after.
///
/// # Errors
/// An input outside its domain.
pub fn laws(input: &Laws) -> Result<Throughput, ModelError> {
    let application = non_negative("application cost", input.application)?;
    let overhead = positive("overhead cost", input.overhead)?;
    let host = positive("host scale", input.host_scale)?;
    let engine = positive("engine scale", input.engine_scale)?;
    let bandwidth = positive("bandwidth", input.bandwidth)?;
    let share = within("offloaded share", input.offloaded, 0.0, 1.0)?;
    let structure = positive("structural factor", input.structure)?;
    // A stage without work does not bound the throughput: 1/0 is infinite, as it should be.
    let rate = |cost: f64, scale: f64| 1.0 / (cost * scale);
    Ok(Throughput {
        before: bandwidth.min(rate(application + overhead, host)),
        after: bandwidth
            .min(rate(application + (1.0 - share) * overhead, host))
            .min(rate(share * overhead * structure, engine)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_offload_of_a_host_bound_stream_gains_until_the_engine_binds() {
        let mut input = Laws {
            application: 1.0,
            overhead: 1.0,
            host_scale: 1.0,
            engine_scale: 1.0,
            bandwidth: 10.0,
            offloaded: 1.0,
            structure: 1.0,
        };
        let even = laws(&input).unwrap();
        assert_eq!((even.before, even.after), (0.5, 1.0));
        input.engine_scale = 4.0;
        assert_eq!(laws(&input).unwrap().after, 0.25);
        input.offloaded = 0.0;
        assert_eq!(laws(&input).unwrap().after, 0.5);
    }
}
