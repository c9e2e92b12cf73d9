//! Conditional requests (RFC 9110, section 13): what a client's validators say about a file.

use super::request::Request;
use std::time::{Duration, SystemTime};

/// What identifies one state of a file.
#[derive(Clone, Debug)]
pub struct Validators {
    /// Its entity tag, quotes included; always a strong one.
    pub etag: String,
    /// When it was last changed, to the second.
    pub modified: SystemTime,
}

/// What the conditions of a request ask for.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on; the flag says whether a Range header counts.
    Proceed {
        /// Whether the condition on the range (If-Range), if there is one, holds.
        ranges: bool,
    },
    /// 304: the client has it already.
    NotModified,
    /// 412: it is not what the client wants to act on.
    Failed,
}

/// Evaluates the conditions in the order of section 13.2.2.
pub fn evaluate(request: &Request, file: &Validators) -> Verdict {
    if let Some(list) = &request.if_match {
        if !names(list, &file.etag, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if let Some(date) = parse_date(request.if_unmodified_since.as_deref())
        && file.modified > date
    {
        return Verdict::Failed;
    }
    if let Some(list) = &request.if_none_match {
        if names(list, &file.etag, Comparison::Weak) {
            return Verdict::NotModified;
        }
    } else if let Some(date) = parse_date(request.if_modified_since.as_deref())
        && file.modified <= date
    {
        return Verdict::NotModified;
    }
    let ranges = match request.if_range.as_deref() {
        None => true,
        Some(tag) if tag.contains('"') => names(tag, &file.etag, Comparison::Strong),
        // A date must match exactly (section 13.1.5).
        Some(date) => parse_date(Some(date)) == Some(file.modified),
    };
    Verdict::Proceed { ranges }
}

#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags names `etag` (section 8.8.3.2), or is `*`.
fn names(list: &str, etag: &str, comparison: Comparison) -> bool {
    let mut rest = list.trim();
    if rest == "*" {
        return true;
    }
    // Not split at commas: a tag may hold one.
    while !rest.is_empty() {
        let (weak, tag) = match rest.strip_prefix("W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let Some(end) = tag.strip_prefix('"').and_then(|inner| inner.find('"')) else {
            return false;
        };
        let (tag, after) = tag.split_at(end + 2);
        if tag == etag && !(weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    false
}

fn parse_date(value: Option<&str>) -> Option<SystemTime> {
    httpdate::parse_http_date(value?).ok()
}

/// `time` without its fraction of a second, which HTTP dates do not have.
pub fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::{Request, Validators, Verdict, evaluate};
    use std::time::{Duration, SystemTime};

    const TIME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const PROCEED: Verdict = Verdict::Proceed { ranges: true };

    fn judge(set: impl FnOnce(&mut Request)) -> Verdict {
        let file = Validators {
            etag: "\"a,b\"".into(),
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
        };
        let mut request = Request::default();
        set(&mut request);
        evaluate(&request, &file)
    }

    #[test]
    fn tags_are_found_in_lists_weakly_for_reading_strongly_for_acting() {
        let none_match = |list: &str| judge(|request| request.if_none_match = Some(list.into()));
        assert_eq!(none_match("\"x\", \"a,b\""), Verdict::NotModified);
        assert_eq!(none_match("W/\"a,b\""), Verdict::NotModified);
        assert_eq!(none_match("*"), Verdict::NotModified);
        assert_eq!(none_match("\"x\""), PROCEED);
        assert_eq!(none_match("a,b"), PROCEED);
        let matches = |list: &str| judge(|request| request.if_match = Some(list.into()));
        assert_eq!(matches("\"a,b\""), PROCEED);
        assert_eq!(matches("W/\"a,b\""), Verdict::Failed);
    }

    #[test]
    fn dates_count_only_where_there_is_no_tag() {
        let since = |date: &str| judge(|request| request.if_modified_since = Some(date.into()));
        assert_eq!(since(TIME), Verdict::NotModified);
        assert_eq!(since(EARLIER), PROCEED);
        assert_eq!(since("yesterday"), PROCEED);
        let both = judge(|request| {
            request.if_modified_since = Some(TIME.into());
            request.if_none_match = Some("\"x\"".into());
        });
        assert_eq!(both, PROCEED);
        let unmodified = judge(|request| request.if_unmodified_since = Some(EARLIER.into()));
        assert_eq!(unmodified, Verdict::Failed);
    }

    #[test]
    fn a_range_counts_only_of_the_same_state() {
        let if_range = |value: &str| judge(|request| request.if_range = Some(value.into()));
        assert_eq!(if_range("\"a,b\""), PROCEED);
        assert_eq!(if_range(TIME), PROCEED);
        for other in ["\"x\"", "W/\"a,b\"", EARLIER, "nonsense"] {
            assert_eq!(
                if_range(other),
                Verdict::Proceed { ranges: false },
                "{other}"
            );
        }
    }
}
