//! The table.

use super::emulator::Outcome;

/// Columns: what they are called, and what a machine said of it.
const COLUMNS: &[(&str, &str)] = &[
    ("kernel", "kernel"),
    ("XDP", "xdp"),
    ("checksums", "checksum"),
    ("buffers a frame", "buffers"),
    ("zero copy", "zero_copy"),
    ("page", "page"),
    ("down", "down"),
    ("up", "up"),
    ("served without engine", "without_engine"),
    ("after restart", "restart"),
    ("frames to the engine", "frames"),
    ("of its frames, to the kernel", "fell_back"),
    ("wrong checksums", "checksum_errors"),
    ("nginx", "nginx"),
    ("redis", "redis"),
    ("MTU 9000", "jumbo"),
    ("frames by queue", "by_queue"),
    ("fewer queues and more", "changed"),
    ("responder", "respond"),
    ("a VLAN's device", "vlan"),
    ("tags of VLANs", "tags"),
];

/// One machine in a line.
pub fn line(outcome: &Outcome) -> String {
    let said = COLUMNS
        .iter()
        .map(|(title, name)| format!("{title}: {}", outcome.value(name)));
    said.collect::<Vec<_>>().join(", ")
}

/// The page that a run of everything writes.
pub fn document(rows: &[Outcome], megabytes: u32) -> String {
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
         - *e1000e* and *vmxnet3* send no large segments (tso off): the emulator cuts them into IP fragments.\n\
         - *nginx* with two workers serves 30 clients at once and the file, *redis* takes and gives 667 KB: both\n  \
           unmodified, by `outboard run`.\n\
         - *MTU 9000*: {megabytes} MB each way in frames of that size.\n\
         - *frames by queue*: of forty connections, one after another, with two receive queues.\n\
         - *fewer queues and more*: `ethtool -L` takes the second queue away after a reload, and gives it back,\n  \
           while a client loads; nothing it gets is wrong. *Not the driver*: it lets nobody change the number\n  \
           while an XDP program runs.\n\
         - *responder*: `outboard respond`, in the driver and on AF_XDP.\n\n\
         Emulation says nothing about speed.\n\n"
    );
    let titles: Vec<&str> = COLUMNS.iter().map(|(title, _)| *title).collect();
    text += &format!("| interface | {} |\n", titles.join(" | "));
    text += &format!("| --- |{}\n", " --- |".repeat(COLUMNS.len()));
    for row in rows {
        let cells: Vec<&str> = COLUMNS.iter().map(|(_, name)| row.value(name)).collect();
        text += &format!("| {} | {} |\n", row.nic.name(), cells.join(" | "));
    }
    text
}
