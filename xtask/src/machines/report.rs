//! The table.

use super::emulator::{Emulator, Nic, Outcome};

/// Columns: what they are called, the part of the check that knows, and by which name it says so.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("kernel", "check", "kernel"),
    ("XDP", "serving", "xdp"),
    ("checksums", "serving", "checksum"),
    ("who cuts large segments", "check", "segments"),
    ("buffers a frame", "serving", "buffers"),
    ("zero copy", "serving", "zero_copy"),
    ("page", "serving", "page"),
    ("down", "serving", "down"),
    ("up", "serving", "up"),
    ("served without engine", "serving", "without_engine"),
    ("after restart", "serving", "restart"),
    ("frames to the engine", "serving", "frames"),
    ("of its frames, to the kernel", "serving", "fell_back"),
    ("wrong checksums", "serving", "checksum_errors"),
    ("nginx", "programs", "nginx"),
    ("redis", "programs", "redis"),
    ("MTU 9000", "jumbo", "jumbo"),
    ("frames by queue", "queues", "by_queue"),
    ("fewer queues and more", "queues", "changed"),
    ("responder", "respond", "respond"),
    ("a VLAN's device", "vlans", "vlan"),
    ("tags of VLANs", "vlans", "tags"),
];

/// One machine in a line.
pub fn line(outcome: &Outcome) -> String {
    let said = COLUMNS
        .iter()
        .map(|(title, part, name)| format!("{title}: {}", outcome.of_part(part, name)));
    said.collect::<Vec<_>>().join(", ")
}

/// The page that a run of everything writes.
pub fn document(rows: &[Outcome], megabytes: u32, emulator: &Emulator) -> String {
    let version = &emulator.version;
    let lacking = if emulator.has(Nic::Igb) {
        String::new()
    } else {
        format!(
            "- *igb* is not here: QEMU {version}, with which this was made, has none; from 8.0 it has.\n"
        )
    };
    let mut text = format!(
        "# Machines\n\n\
         Made by `cargo xtask machines --write`; it is a run of its own, not part of the gate. Each line is a\n\
         machine in an emulator, with a kernel of Debian's and two interfaces on one wire. In it an engine, `outboard\n\
         serve` and a Python program under `outboard run` serve a client on the kernel's TCP: a page, {megabytes} MB\n\
         each way with their hashes compared, the page again from the kernel while the engine is killed, and\n\
         {megabytes} MB from a new engine. Checksums are completed by the device only where that was proven when\n\
         the engine started. Then an engine serves {megabytes} MB by a VLAN device on the interface, and one is tried on\n\
         the interface below it: where the device takes the tags of VLANs off, the engine has it leave them on until\n\
         it ends; of a veth, both ends have to be told before it starts.\n\n\
         - *zero copy*: the driver puts frames into the engine's memory itself, and takes them from there.\n\
         - *of its frames, to the kernel*: for whichever reason, also because the engine did not come in time.\n\
         - *tso off*: QEMU 7.2's e1000e and vmxnet3 would cut large segments into IP fragments; both ends do without.\n\
         {lacking}\
         - *nginx* with two workers serves 30 clients at once and the file, *redis* takes and gives 667 KB: both\n  \
           unmodified, by `outboard run`.\n\
         - *MTU 9000*: {megabytes} MB each way on interfaces for frames of that size; where a frame has one buffer, the\n  \
           engine takes and sends 3,832 bytes of it. QEMU's vmxnet3 drops what is longer than its first buffer, 3,072\n  \
           bytes, unless large receive offload was on when the device started (*lro on at its start*); the kernel\n  \
           turns it off for an XDP program. Tried each time: with it off, and no engine, not one megabyte comes to\n  \
           the kernel's TCP.\n\
         - *frames by queue*: of forty connections, one after another, with two receive queues. *The device uses\n  \
           one*: by the driver's count, too, nothing comes to the second; the emulator's vmxnet3 knows no other.\n\
         - *fewer queues and more*: `ethtool -L` takes the second queue away after a reload, and gives it back,\n  \
           while a client loads; nothing it gets is wrong. *Not by the driver under XDP*: it lets nobody change\n  \
           the number while an XDP program runs. *Not supported by the driver*: nor while none runs.\n\
         - *responder*: `outboard respond`, in the driver and on AF_XDP.\n\n\
         A part of the check that does not end is ended, and its cells say after how many seconds. Emulation says\n\
         nothing about speed.\n\n"
    );
    let titles: Vec<&str> = COLUMNS.iter().map(|(title, ..)| *title).collect();
    text += &format!("| interface | {} |\n", titles.join(" | "));
    text += &format!("| --- |{}\n", " --- |".repeat(COLUMNS.len()));
    for row in rows {
        let cells = COLUMNS
            .iter()
            .map(|(_, part, name)| row.of_part(part, name));
        let cells: Vec<&str> = cells.collect();
        text += &format!("| {} | {} |\n", row.nic.name(), cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::COLUMNS;

    /// What has other columns was made by another command.
    #[test]
    fn the_page_is_one_that_this_command_makes() {
        let page = include_str!("../../../docs/machines.md");
        let lines = page.lines().filter(|line| line.starts_with("| "));
        let rows: Vec<Vec<&str>> = lines
            .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
            .collect();
        let (titles, machines) = rows.split_first().expect("a table");
        let known = COLUMNS.iter().map(|(title, ..)| *title);
        let wanted: Vec<&str> = std::iter::once("interface").chain(known).collect();
        assert_eq!(*titles, wanted);
        assert!(machines.len() > 8, "{} machines", machines.len());
        for machine in machines {
            assert_eq!(machine.len(), wanted.len(), "{machine:?}");
        }
    }
}
