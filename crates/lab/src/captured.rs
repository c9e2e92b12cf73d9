//! What the engine says of the frames that it handles, and when: the files of `outboard capture` (pcapng).

use anyhow::{Context, Result, bail};

/// A segment in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When the engine handled it, in nanoseconds since 1970.
    pub at: u64,
    /// The address that it is from.
    pub from: [u8; 4],
    /// Bytes of data in it.
    pub data: usize,
}

const SECTION: u32 = 0x0a0d_0d0a;
const PACKET: u32 = 6;
const ORDER: u32 = 0x1a2b_3c4d;
/// What a packet's block has before the frame and behind it: type, length, interface, time, two lengths; length.
const BEFORE: usize = 28;
const LEAST: usize = 12;

/// The segments of TCP over IPv4 in a capture of one interface, whose times are nanoseconds.
///
/// # Errors
/// It is none, it is broken off, or it is of a machine with another order of bytes.
pub fn segments(file: &[u8]) -> Result<Vec<Segment>> {
    let (mut rest, mut found) = (file, Vec::new());
    let word = |bytes: &[u8], at: usize| -> Result<u32> {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        Ok(u32::from_ne_bytes(four.context("the capture is cut off")?))
    };
    if word(file, 0)? != SECTION || word(file, 8)? != ORDER {
        bail!("this is no capture of this machine");
    }
    while !rest.is_empty() {
        let length = word(rest, 4)? as usize;
        let block = rest.get(..length).filter(|_| length >= LEAST);
        let block = block.context("the capture is cut off")?;
        if word(block, 0)? == PACKET {
            let at = u64::from(word(block, 12)?) << 32 | u64::from(word(block, 16)?);
            let end = BEFORE + word(block, 20)? as usize;
            let frame = block.get(BEFORE..end).context("a frame is cut off")?;
            found.extend(segment(at, frame));
        }
        rest = &rest[length..];
    }
    Ok(found)
}

fn segment(at: u64, frame: &[u8]) -> Option<Segment> {
    const ETHERNET: usize = 14;
    const IPV4: [u8; 2] = [8, 0];
    const TCP: u8 = 6;
    let packet = frame.get(ETHERNET..).filter(|_| frame[12..14] == IPV4)?;
    let head = usize::from(packet.first()? & 15) * 4;
    let total = usize::from(u16::from_be_bytes(*packet.get(2..4)?.first_chunk()?));
    let segment = packet.get(head..total).filter(|_| packet[9] == TCP)?;
    let options = usize::from(segment.get(12)? >> 4) * 4;
    Some(Segment {
        at,
        from: *packet.get(12..16)?.first_chunk()?,
        data: segment.len().checked_sub(options)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{ORDER, PACKET, SECTION, Segment, segments};

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (12 + body.len().next_multiple_of(4)) as u32;
        let mut block = [kind.to_ne_bytes(), length.to_ne_bytes()].concat();
        block.extend(body);
        block.resize(length as usize - 4, 0);
        block.extend(length.to_ne_bytes());
        block
    }

    fn packet(at: u64, frame: &[u8]) -> Vec<u8> {
        let length = (frame.len() as u32).to_ne_bytes();
        let (high, low) = ((at >> 32) as u32, at as u32);
        let mut body = [
            [0; 4],
            high.to_ne_bytes(),
            low.to_ne_bytes(),
            length,
            length,
        ]
        .concat();
        body.extend(frame);
        block(PACKET, &body)
    }

    /// A segment with options of 12 bytes and so much data, in a frame that is longer than its packet.
    fn frame(from: u8, data: u8, protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 52 + data, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, from, 10, 0, 0, 9]);
        frame.extend([0; 12]);
        frame.push(8 << 4);
        frame.resize(14 + 52 + usize::from(data), 7);
        frame.extend([0; 3]);
        frame
    }

    #[test]
    fn segments_are_found_among_all_else() {
        let mut file = block(SECTION, &[&ORDER.to_ne_bytes()[..], &[0; 12]].concat());
        file.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0]));
        let late = 5_000_000_007;
        file.extend(packet(3, &frame(1, 64, 6)));
        file.extend(packet(4, &frame(1, 64, 17)));
        file.extend(packet(5, &[0; 20]));
        file.extend(packet(late, &frame(2, 0, 6)));
        let at = |at, from, data| Segment {
            at,
            from: [10, 0, 0, from],
            data,
        };
        assert_eq!(segments(&file).unwrap(), [at(3, 1, 64), at(late, 2, 0)]);
        for length in 0..file.len() {
            let cut = segments(&file[..length]);
            assert!(cut.is_err() || cut.unwrap().len() < 2, "{length}");
        }
        assert!(segments(&[7; 64]).is_err());
    }
}
