//! One machine: started, watched, and what the check in it said.

use super::kernels::Kernel;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// How long a machine may run: the emulator is slow, and other work may have the cores.
const LIMIT: &str = "900";
/// What has to be so for a machine to count as one that works.
const HOLDS: &[(&str, &str)] = &[
    ("page", "yes"),
    ("down", "yes"),
    ("up", "yes"),
    ("without_engine", "yes"),
    ("restart", "yes"),
    ("stop", "0"),
    ("vlan", "yes"),
    ("fell_back", "0"),
    ("checksum_errors", "0"),
];

/// A network interface that the emulator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nic {
    /// Paravirtual, without any offload
    VirtioNet,
    /// Intel 82574, without native XDP
    E1000e,
    /// VMware's, with native XDP
    Vmxnet3,
}

impl Nic {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::VirtioNet, Self::E1000e, Self::Vmxnet3];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-net",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    fn device(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-net-pci",
            other => other.name(),
        }
    }
}

/// What a machine said.
pub struct Outcome {
    /// Its interfaces.
    pub nic: Nic,
    values: HashMap<String, String>,
}

impl Outcome {
    fn read(nic: Nic, log: &str) -> Self {
        let values = log.lines().filter_map(|line| {
            // The first line of a console can follow what the firmware has written.
            let (_, said) = line.split_once("RESULT ")?;
            let (name, value) = said.trim().split_once(' ')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Self {
            nic,
            values: values.collect(),
        }
    }

    /// What was said of something; a dash if nothing was.
    pub fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("–", String::as_str)
    }

    /// Whether everything is as it has to be.
    pub fn holds(&self) -> bool {
        let frames = self.value("frames").parse::<u64>().unwrap_or(0);
        let tags = matches!(self.value("tags"), "stay on" | "has to leave them on");
        tags && frames > 0 && HOLDS.iter().all(|(name, value)| self.value(name) == *value)
    }
}

/// Runs the check on one machine.
pub fn check(
    kernel: &Kernel,
    nic: Nic,
    binaries: &Path,
    megabytes: u32,
    directory: &Path,
) -> Result<Outcome> {
    let check = directory.join("check.sh");
    std::fs::write(&check, include_str!("check.sh"))?;
    let path = directory.join(format!("{}-{}.log", kernel.name(), nic.name()));
    let log = File::create(&path).with_context(|| path.display().to_string())?;
    let mut command = Command::new("timeout");
    command.args([LIMIT, "qemu-system-x86_64"]);
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
    command.args(["-m", "3072", "-nographic", "-no-reboot"]);
    command.arg("-kernel").arg(kernel.bzimage()?);
    command.arg("-initrd").arg(kernel.image());
    command.arg("-append").arg(format!(
        "console=ttyS0 quiet panic=-1 check={},{},{megabytes}",
        check.display(),
        binaries.display()
    ));
    command.args([
        "-virtfs",
        "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
        "-nic",
        "none",
    ]);
    for end in 0..2 {
        command
            .arg("-netdev")
            .arg(format!("hubport,id=end{end},hubid=0"));
        let device = nic.device();
        command.arg("-device").arg(format!(
            "{device},netdev=end{end},mac=52:54:00:00:00:0{end}"
        ));
    }
    let ended = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("the emulator does not start")?;
    let said = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
    if !ended.success() {
        println!("the machine ended with {ended}: {}", path.display());
    }
    Ok(Outcome::read(nic, &said))
}

#[cfg(test)]
mod tests {
    use super::{HOLDS, Nic, Outcome};

    #[test]
    fn a_machine_works_if_everything_that_must_be_so_is() {
        let mut log =
            "\x1b[2JRESULT kernel 6.1\r\nRESULT frames 17\r\nRESULT tags stay on\r\nnoise\r\n"
                .to_owned();
        for (name, value) in HOLDS {
            assert!(!Outcome::read(Nic::E1000e, &log).holds());
            log += &format!("RESULT {name} {value}\r\n");
        }
        let outcome = Outcome::read(Nic::E1000e, &log);
        assert!(outcome.holds());
        assert_eq!(outcome.value("kernel"), "6.1");
        let turned = |line: &str| Outcome::read(Nic::E1000e, &format!("{log}{line}"));
        assert!(!turned("RESULT up no").holds());
        assert!(!turned("RESULT tags no").holds());
    }
}
