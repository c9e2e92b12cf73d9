//! Buffers that are copied into the send area in turn.

use std::sync::atomic::AtomicU8;

use rustix::io::Errno;

/// What fills one stretch of the send area after another with what `parts` hold in turn, by `copy`: for
/// [`Socket::send_with`](crate::Socket::send_with).
pub fn gather<'a, T: 'a>(
    parts: impl IntoIterator<Item = &'a [T]>,
    copy: impl Fn(&[AtomicU8], &[T]),
) -> impl FnMut(&[AtomicU8]) -> Result<usize, Errno> {
    let mut parts = parts.into_iter();
    let mut part: &[T] = &[];
    move |mut room| {
        let mut filled = 0;
        while !room.is_empty() {
            if part.is_empty() {
                match parts.next() {
                    Some(next) => part = next,
                    None => break,
                }
                continue;
            }
            let len = part.len().min(room.len());
            copy(room, &part[..len]);
            (part, room) = (&part[len..], &room[len..]);
            filled += len;
        }
        Ok(filled)
    }
}
