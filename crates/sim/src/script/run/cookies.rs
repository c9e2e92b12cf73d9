//! Fast Open cookies (RFC 7413): which one a stack gives nobody knows before. The script calls it by any
//! bytes, and brings it back by those.

use crate::script::packet::{Segment, TcpOption};

/// The stack's cookies: in the script, on the wire.
#[derive(Debug, Default)]
pub(super) struct Cookies(Vec<(Vec<u8>, Vec<u8>)>);

impl Cookies {
    /// A segment of the script's, with the cookies that it means.
    pub(super) fn for_wire(&self, segment: &mut Segment) {
        for option in segment.options.iter_mut().flatten() {
            if let TcpOption::FastOpen(cookie) = option
                && let Some((_, live)) = self.0.iter().find(|(named, _)| named == cookie)
            {
                cookie.clone_from(live);
            }
        }
    }

    /// A segment of the stack's, with the cookies that the script knows; `expected` is how it names one
    /// that is new.
    pub(super) fn for_script(&mut self, segment: &mut Segment, expected: &Segment) {
        let named = expected.options.iter().flatten().find_map(|o| match o {
            TcpOption::FastOpen(named) if !named.is_empty() => Some(named),
            _ => None,
        });
        for option in segment.options.iter_mut().flatten() {
            let TcpOption::FastOpen(cookie) = option else {
                continue;
            };
            if cookie.is_empty() {
                continue;
            }
            let is_new = !self.0.iter().any(|(_, live)| live == cookie);
            if is_new && let Some(named) = named {
                self.0.push((named.clone(), cookie.clone()));
            }
            if let Some((named, _)) = self.0.iter().find(|(_, live)| live == cookie) {
                cookie.clone_from(named);
            }
        }
    }
}
