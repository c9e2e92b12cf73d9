//! What crosses the wire between the peer and the programs.

use std::fs;

/// How many frames the interfaces of the calling thread's network have received and sent. 0 if that cannot be
/// read.
pub fn frames() -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    table.lines().filter_map(frames_of).sum()
}

/// Of a line: the name, eight figures of what was received, eight of what was sent, packets the second of each.
fn frames_of(line: &str) -> Option<u64> {
    let (_, figures) = line.split_once(':')?;
    let figure = |index| figures.split_whitespace().nth(index)?.parse::<u64>().ok();
    Some(figure(1)? + figure(9)?)
}

#[cfg(test)]
mod tests {
    use super::frames_of;

    #[test]
    fn frames_of_both_directions_count() {
        let head = " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs";
        assert_eq!(frames_of(head), None);
        let line = "  veth0: 1200 11 0 0 0 0 0 0 900 31 0 0 0 0 0 0";
        assert_eq!(frames_of(line), Some(42));
    }
}
