//! EMO (Gilfeather and Maccabe, *Modeling protocol offload for message-oriented communication*,
//! 2005): latency and host overhead of one message, as the sum of its parts.

use crate::ModelError;
use crate::error::{non_negative, positive};
use serde::Serialize;

/// One processor's work on a message: cycles, and how fast they run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Work {
    /// Cycles of protocol processing.
    pub cycles: f64,
    /// Cycles a second.
    pub rate: f64,
}

impl Work {
    fn seconds(&self) -> Result<f64, ModelError> {
        Ok(non_negative("cycles", self.cycles)? / positive("cycles a second", self.rate)?)
    }
}

/// The parts of a message's way through the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Emo {
    /// Protocol work on the NIC or engine.
    pub nic: Work,
    /// Protocol work of the host's operating system.
    pub host: Work,
    /// Work of the application on the message.
    pub application: Work,
    /// Moving the message and notice of it between NIC and host, seconds.
    pub nic_to_host: f64,
    /// Waking or notifying the application, seconds.
    pub host_to_application: f64,
    /// The part of moving and notifying that costs the host's processor (interrupts, copies),
    /// seconds.
    pub host_share: f64,
}

/// What EMO says of one message, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MessageCost {
    /// From the arrival of the message to the end of the application's work on it.
    pub latency: f64,
    /// Processor time of the host.
    pub overhead: f64,
}

/// Latency and overhead of one message.
///
/// # Errors
/// An input outside its domain.
pub fn emo(input: &Emo) -> Result<MessageCost, ModelError> {
    let host = input.host.seconds()?;
    let application = input.application.seconds()?;
    let moving = non_negative("time from NIC to host", input.nic_to_host)?;
    let waking = non_negative("time from host to application", input.host_to_application)?;
    let share = non_negative("host's share of moving", input.host_share)?;
    Ok(MessageCost {
        latency: input.nic.seconds()? + moving + host + waking + application,
        overhead: host + application + share,
    })
}
