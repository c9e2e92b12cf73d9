//! Where, and when, the kernel takes in what an interface of a world receives.

use crate::tool;
use crate::world::{Side, World};
use anyhow::Result;
use std::process::Command;
use std::time::Duration;

/// Has it done on this core (receive packet steering), as by a NIC whose interrupt is there. A veth has it done
/// where the sender is.
///
/// # Errors
/// The kernel cannot do that.
pub fn on_core(world: &World, side: Side, core: usize) -> Result<()> {
    set(world, side, "queues/rx-*/rps_cpus", &mask(core))
}

/// Has frames gathered for so long before they are taken in, as by a NIC that moderates its interrupts; not at all,
/// if it is no time. There is nothing to be moderated where the interface is not polled (NAPI): a veth is where
/// it has GRO, or an XDP program.
///
/// # Errors
/// The kernel cannot do that.
pub fn gathered(world: &World, side: Side, time: Duration) -> Result<()> {
    // The interrupt is put off once more for each time that something came.
    let put_off = u8::from(!time.is_zero()).to_string();
    set(world, side, "napi_defer_hard_irqs", &put_off)?;
    set(
        world,
        side,
        "gro_flush_timeout",
        &time.as_nanos().to_string(),
    )
}

/// Writes into files of the interface, which are in `/sys` as the namespace sees it.
fn set(world: &World, side: Side, files: &str, value: &str) -> Result<()> {
    const WRITE: &str =
        "for file in /sys/class/net/\"$1\"/$2; do echo \"$3\" >\"$file\" || exit 1; done";
    let mut command = Command::new("ip");
    command.args(["netns", "exec", world.name(side)]).args([
        "sh",
        "-c",
        WRITE,
        "sh",
        side.interface(),
        files,
        value,
    ]);
    tool::output(&mut command, files).map(drop)
}

/// A core as the kernel reads sets of them: words of 32 in hexadecimal digits, the greatest first.
fn mask(core: usize) -> String {
    format!(
        "{:x}{}",
        1_u32 << (core % 32),
        ",00000000".repeat(core / 32)
    )
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn a_core_is_a_bit_of_a_word() {
        assert_eq!([0, 1, 31].map(mask), ["1", "2", "80000000"]);
        assert_eq!([32, 69].map(mask), ["1,00000000", "20,00000000,00000000"]);
    }
}
