//! The payload of what leaves: from the send areas of sessions, and from files, which are read here, as
//! often as their bytes have to leave.

use core::sync::atomic::AtomicU8;

use queue_pair::{Area, copy_in, copy_out, copy_out_sum};
use tcp::{ConnId, Extent, Outgoing};
use wire::checksum::Sum;

use crate::fast::memory::{Held, Lack, Memory, Place};

/// Why there is no payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPayload {
    /// It lies nowhere.
    Nowhere,
    /// This byte of a file is not in memory.
    Away(Extent),
    /// The file does not have it any more.
    Gone,
}

impl NoPayload {
    fn of(lack: Lack, extent: Extent) -> Self {
        match lack {
            Lack::Away(behind) => Self::Away(Extent {
                addr: extent.addr + behind as u64,
                len: extent.len - behind as u32,
            }),
            Lack::Gone => Self::Gone,
        }
    }
}

/// What sending has found out about files.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Connections that wait for this part of a file, which is to be fetched.
    pub away: Vec<(ConnId, Extent)>,
    /// Connections whose file does not have what they are to send.
    pub gone: Vec<ConnId>,
    /// Where somebody reads a file for whom more of it is to be asked for.
    pub marks: Vec<Extent>,
    /// The one that has just been refused for want of its payload.
    pub refused: Option<ConnId>,
}

impl Findings {
    /// `held` has been read where an extent of it says.
    #[inline]
    fn note_read(&mut self, held: &Held, extent: Extent, offset: u64) {
        if held.readers.is_at_mark(offset) {
            self.marks.push(extent);
        }
    }

    /// Whether there is nothing to be seen to.
    pub fn is_empty(&self) -> bool {
        self.away.is_empty() && self.gone.is_empty() && self.marks.is_empty()
    }
}

/// Writes what an extent stands for to `to`, which is as long; and what it sums up to, if that is asked.
#[inline]
pub(super) fn write(
    memory: &Memory,
    findings: &mut Findings,
    extent: Extent,
    to: &mut [u8],
    summed: bool,
) -> Result<Sum, NoPayload> {
    match memory.place(extent) {
        Some(Place::Memory(from)) if summed => {
            let folded = copy_out_sum(from, to);
            Ok(Sum::from_folded(folded, to.len()))
        }
        Some(Place::Memory(from)) => {
            copy_out(from, to);
            Ok(Sum::ZERO)
        }
        Some(Place::File(held, offset)) => {
            let read = held.file.read(to, offset);
            read.map_err(|lack| NoPayload::of(lack, extent))?;
            findings.note_read(held, extent, offset);
            Ok(if summed { Sum::of(to) } else { Sum::ZERO })
        }
        None => Err(nowhere(extent)),
    }
}

/// Whether some of it is in files.
pub(super) fn is_in_files(out: &Outgoing<'_>) -> bool {
    let mut extents = out.payload.iter();
    extents.any(|extent| Memory::file_of(*extent).is_some())
}

/// The payload in one piece of scratch memory.
pub(super) fn put_together<'a>(
    memory: &Memory,
    findings: &mut Findings,
    scratch: &'a Area,
    out: &Outgoing<'_>,
) -> Result<&'a [AtomicU8], NoPayload> {
    let whole = scratch.slice(0, out.payload_len);
    let whole = whole.map_err(|_| NoPayload::Nowhere)?;
    let mut at = 0;
    let mut through = [0; 2048];
    for extent in out.payload {
        let end = at + extent.len as usize;
        let to = whole.get(at..end).ok_or(NoPayload::Nowhere)?;
        match memory.place(*extent) {
            Some(Place::Memory(from)) => {
                let step = through.len();
                for (from, to) in from.chunks(step).zip(to.chunks(step)) {
                    let through = &mut through[..from.len()];
                    copy_out(from, through);
                    copy_in(to, through);
                }
            }
            Some(Place::File(held, offset)) => {
                let read = held.file.read_in(to, offset);
                read.map_err(|lack| NoPayload::of(lack, *extent))?;
                findings.note_read(held, *extent, offset);
            }
            None => return Err(nowhere(*extent)),
        }
        at = end;
    }
    Ok(whole)
}

/// What there is no place for: a host has said of a file that it sends nothing more from it, or it is a
/// defect of ours.
#[cold]
fn nowhere(extent: Extent) -> NoPayload {
    match Memory::file_of(extent) {
        Some(_) => NoPayload::Gone,
        None => NoPayload::Nowhere,
    }
}
