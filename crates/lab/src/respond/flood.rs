//! A flood of SYNs at the highest rate that one core sends, and what became of them.

use super::responder::{Plan, end, start_with, target};
use crate::flood::SynFlood;
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;

/// One flood: frames at each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flood {
    /// SYNs that the sender's interface was given.
    sent: u64,
    /// Of these, lost on the way: the server's interface had no room.
    lost: u64,
    /// SYNs that the responder saw and answered.
    answered: u64,
    /// Frames that came back to the client's interface.
    back: u64,
    seconds: f64,
}

impl Flood {
    /// SYNs a second that were sent.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    /// SYNs that arrived and were not answered.
    pub fn unanswered(&self) -> u64 {
        (self.sent - self.lost.min(self.sent)).saturating_sub(self.answered)
    }

    /// Part of what was sent, for a step.
    fn share(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.sent.max(1) as f64
    }

    pub fn to_json(self) -> Value {
        json!({
            "sent": self.sent,
            "seconds": self.seconds,
            "syns_per_second": self.rate(),
            "lost_before_the_responder": self.lost,
            "answered": self.answered,
            "unanswered": self.unanswered(),
            "back": self.back,
        })
    }

    pub fn describe(&self) -> String {
        format!(
            "SYN flood: {:.0} SYNs/s sent; lost before the responder {:.3} %, unanswered by it {}, \
             answers that came back {:.1} %",
            self.rate(),
            self.share(self.lost),
            self.unanswered(),
            self.share(self.back)
        )
    }
}

/// Floods a responder for as long as a measurement takes.
pub(super) fn measure(plan: &Plan, world: &World) -> Result<Flood> {
    let responder = start_with(&plan.binary, world, &["--json"])?;
    let (lost, back) = client(world)?;
    let flood = SynFlood::start(world, target())?;
    std::thread::sleep(plan.window);
    let report = flood.stop()?;
    let (lost_after, back_after) = client(world)?;
    end(responder)?;
    Ok(Flood {
        sent: report.sent,
        lost: lost_after - lost,
        answered: answered(world)?.min(report.sent),
        back: (back_after - back).min(report.sent),
        seconds: report.took.as_secs_f64(),
    })
}

/// SYNs that a responder has answered, by its own counts, which it was to print and has by its end. Those that were sent
/// to see whether it answers are among them; they are a handful.
pub(crate) fn answered(world: &World) -> Result<u64> {
    let log = fs::read_to_string(world.scratch().join("respond.log"))?;
    let last = log.lines().rfind(|line| line.starts_with('{'));
    let last: Value = serde_json::from_str(last.context("the responder said nothing")?)?;
    let count = |name: &str| last["counters"][name].as_u64().context(name.to_owned());
    Ok(count("syns")?.min(count("frames_out")?))
}

/// Frames that the client's interface could not hand over, and that it received.
pub(crate) fn client(world: &World) -> Result<(u64, u64)> {
    let interface = Side::Client.interface();
    let name = world.name(Side::Client);
    let shown = tool::run(&format!("ip -n {name} -s -j link show dev {interface}"))?;
    let shown: Value = serde_json::from_str(&shown)?;
    let count = |way: &str, what: &str| {
        let value = shown[0]["stats64"][way][what].as_u64();
        value.with_context(|| format!("ip does not say {way} {what}"))
    };
    Ok((count("tx", "dropped")?, count("rx", "packets")?))
}
