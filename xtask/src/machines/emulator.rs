//! One machine: started, watched, and what the check in it said.

use super::kernels::Kernel;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// How long a machine may run, in seconds: longer than all parts of the check together may take (`check.sh`).
const LIMIT: &str = "2700";
/// The check, whose first file runs the others.
const SCRIPTS: [(&str, &str); 7] = [
    ("check.sh", include_str!("check/check.sh")),
    ("serving.sh", include_str!("check/serving.sh")),
    ("programs.sh", include_str!("check/programs.sh")),
    ("jumbo.sh", include_str!("check/jumbo.sh")),
    ("queues.sh", include_str!("check/queues.sh")),
    ("respond.sh", include_str!("check/respond.sh")),
    ("vlans.sh", include_str!("check/vlans.sh")),
];
/// The emulator.
const PROGRAM: &str = "qemu-system-x86_64";
/// Makes a wire of two taps, and runs the command in its arguments.
const WIRE: &str = include_str!("wire.sh");
/// What has to be said of something for a machine to count as one that works.
const HOLDS: &[(&str, &str)] = &[
    ("page", "yes"),
    ("down", "yes"),
    ("up", "yes"),
    ("without_engine", "yes"),
    ("restart", "yes"),
    ("stop", "0"),
    ("nginx", "yes"),
    ("redis", "yes"),
    ("respond", "yes"),
    ("vlan", "yes"),
    ("fell_back", "0"),
    ("checksum_errors", "0"),
];

/// The same where a device may lack it: what may be said instead.
const HOLDS_OR: &[(&str, &[&str])] = &[
    ("tags", &["stay on", "are left on", "has to leave them on"]),
    (
        "jumbo",
        &[
            "yes",
            "yes (lro on at its start: with it off, not without an engine either)",
            "not the device",
        ],
    ),
    (
        "changed",
        &[
            "yes",
            "one only",
            "not by the driver under XDP",
            "not supported by the driver",
        ],
    ),
];

/// A kind of network interface, and of the wire between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nic {
    /// Paravirtual, without any offload
    VirtioNet,
    /// Paravirtual, with all offloads and two queues, by a bridge of the host's
    VirtioNetTap,
    /// Intel 82574, without native XDP
    E1000e,
    /// VMware's, with native XDP
    Vmxnet3,
    /// Intel 82576, with native XDP and several queues, where the emulator has it
    Igb,
    /// A pair of the kernel's own, with two queues
    Veth,
}

impl Nic {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::VirtioNet,
        Self::VirtioNetTap,
        Self::E1000e,
        Self::Vmxnet3,
        Self::Igb,
        Self::Veth,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-net",
            Self::VirtioNetTap => "virtio-net, by a tap",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
            Self::Igb => "igb",
            Self::Veth => "veth",
        }
    }

    /// A word for its files.
    fn word(self) -> String {
        self.name().replace(", by a ", "-")
    }

    /// The emulator's options for one of its two ends.
    fn options(self, end: u8) -> Option<[String; 2]> {
        let hub = format!("hubport,id=end{end},hubid=0");
        let tap = format!("tap,id=end{end},ifname=end{end},script=no,downscript=no,queues=2");
        let (wire, device) = match self {
            Self::VirtioNet => (hub, "virtio-net-pci"),
            Self::VirtioNetTap => (tap, "virtio-net-pci,mq=on,vectors=6"),
            Self::E1000e => (hub, "e1000e"),
            Self::Vmxnet3 => (hub, "vmxnet3"),
            Self::Igb => (hub, "igb"),
            Self::Veth => return None,
        };
        let device = format!("{device},netdev=end{end},mac=52:54:00:00:00:0{end}");
        Some([wire, device])
    }
}

/// The emulator, as far as it matters which one it is.
pub struct Emulator {
    /// Its version, as it says it.
    pub version: String,
    devices: String,
}

impl Emulator {
    /// The installed one.
    ///
    /// # Errors
    /// It does not start.
    pub fn installed() -> Result<Self> {
        let said = |arguments: &[&str]| -> Result<String> {
            let mut command = Command::new(PROGRAM);
            let output = command.args(arguments).output().context(PROGRAM)?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = said(&["--version"])?;
        let version = version.split_once("version ").map_or("", |(_, rest)| rest);
        Ok(Self {
            version: version.split_whitespace().next().unwrap_or("?").to_owned(),
            devices: said(&["-device", "help"])?,
        })
    }

    /// Whether it has such interfaces; which one it may lack is new.
    pub fn has(&self, nic: Nic) -> bool {
        nic != Nic::Igb || self.devices.contains("name \"igb\"")
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
        self.of_part(name, name)
    }

    /// The same of something that a part of the check says: what became of the part if it did not come to that.
    pub fn of_part(&self, part: &str, name: &str) -> &str {
        let said = self.values.get(name).or_else(|| self.values.get(part));
        said.map_or("–", String::as_str)
    }

    /// Whether everything is as it has to be.
    pub fn holds(&self) -> bool {
        let frames = self.value("frames").parse::<u64>().unwrap_or(0);
        // Some of many connections come to each queue.
        let mut by_queue = self.value("by_queue").split(", ");
        frames > 0
            && by_queue.all(|frames| frames != "0" && !frames.is_empty())
            && HOLDS.iter().all(|(name, one)| self.value(name) == *one)
            && HOLDS_OR
                .iter()
                .all(|(name, any)| any.contains(&self.value(name)))
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
    let scripts = directory.join("check");
    std::fs::create_dir_all(&scripts)?;
    for (name, text) in SCRIPTS {
        std::fs::write(scripts.join(name), text)?;
    }
    let path = directory.join(format!("{}-{}.log", kernel.name(), nic.word()));
    let log = File::create(&path).with_context(|| path.display().to_string())?;
    // In a network of its own, where what it connects to goes away with it.
    let mut command = Command::new("timeout");
    command.args([LIMIT, "unshare", "--net", "bash", "-c", WIRE, "wire"]);
    command.arg(PROGRAM);
    if nic == Nic::Igb {
        // On a bus for its virtual functions' registers.
        command.args(["-machine", "q35"]);
    }
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
    command.args(["-m", "3072", "-nographic", "-no-reboot"]);
    command.arg("-kernel").arg(kernel.bzimage()?);
    command.arg("-initrd").arg(kernel.image());
    let interfaces = if nic == Nic::Veth { "veth" } else { "emulated" };
    command.arg("-append").arg(format!(
        "console=ttyS0 quiet panic=-1 check={},{},{megabytes},{interfaces}",
        scripts.join("check.sh").display(),
        binaries.display()
    ));
    command.args([
        "-virtfs",
        "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
        "-nic",
        "none",
    ]);
    for [wire, device] in (0..2).filter_map(|end| nic.options(end)) {
        command.args(["-netdev", &wire, "-device", &device]);
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
    use super::{Emulator, HOLDS, HOLDS_OR, Nic, Outcome};

    #[test]
    fn a_machine_works_if_everything_that_must_be_so_is() {
        let mut log =
            "\x1b[2JRESULT kernel 6.1\r\nRESULT frames 17\r\nRESULT tags stay on\r\nnoise\r\n"
                .to_owned();
        let either = HOLDS_OR.iter().map(|(name, any)| (name, &any[0]));
        let wanted: Vec<_> = HOLDS.iter().map(|(name, one)| (name, one)).collect();
        for (name, value) in wanted.into_iter().chain(either) {
            assert!(!Outcome::read(Nic::E1000e, &log).holds());
            log += &format!("RESULT {name} {value}\r\n");
        }
        let outcome = Outcome::read(Nic::E1000e, &log);
        assert!(outcome.holds());
        assert_eq!(outcome.value("kernel"), "6.1");
        let turned = |line: &str| Outcome::read(Nic::E1000e, &format!("{log}{line}"));
        assert!(!turned("RESULT up no").holds());
        assert!(!turned("RESULT tags no").holds());
        assert!(turned("RESULT changed one only").holds());
        assert!(turned("RESULT by_queue 17, 4").holds());
        assert!(!turned("RESULT by_queue 21, 0").holds());
        assert!(turned("RESULT by_queue 21, 0 (the device uses one)").holds());
    }

    #[test]
    fn an_emulator_without_igb_has_all_others() {
        let with = |devices: &str| Emulator {
            version: "7.2".into(),
            devices: devices.into(),
        };
        let old = with("name \"e1000e\", bus PCI\n");
        let lacking: Vec<_> = Nic::ALL.into_iter().filter(|nic| !old.has(*nic)).collect();
        assert_eq!(lacking, [Nic::Igb]);
        assert!(with("name \"igb\", bus PCI, desc \"Intel\"\n").has(Nic::Igb));
    }

    #[test]
    fn a_part_that_does_not_end_stands_for_what_it_did_not_say() {
        let log = "RESULT nginx yes\nRESULT programs did not end in 400 s\nRESULT jumbo yes\n";
        let outcome = Outcome::read(Nic::Vmxnet3, log);
        assert_eq!(outcome.of_part("programs", "nginx"), "yes");
        assert_eq!(outcome.of_part("programs", "redis"), "did not end in 400 s");
        assert_eq!(outcome.of_part("queues", "changed"), "–");
        assert!(!outcome.holds());
    }
}
