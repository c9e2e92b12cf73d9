//! Tables of iptables-legacy that come while the engine runs: nobody tells of them, so it is looked now and then.

use std::time::{Duration, Instant};

use super::Desk;
use crate::slow::kernel::netfilter::OlderTables;

/// How often.
const PERIOD: Duration = Duration::from_secs(5);

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Older {
    tables: OlderTables,
    /// When it is looked next.
    due: Option<Instant>,
    /// Why all that is new is the kernel's, if it is.
    why: Option<String>,
}

impl Older {
    /// Why all that is new is the kernel's, if it is.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// When it is looked next.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Looks if it is due: whether something else is known now.
    fn look(&mut self, now: Instant) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.due = Some(now + PERIOD);
        let new = self.tables.new_ones();
        let why = (!new.is_empty()).then(|| {
            let new = new.join(", ");
            format!(
                "since the engine began there is a table that it does not look into ({new}), whose rules what is \
                 offloaded would not pass"
            )
        });
        let changes = why != self.why;
        self.why = why;
        changes
    }
}

impl Desk {
    /// Notices tables that come beside these.
    #[must_use]
    pub fn noticing(mut self, tables: OlderTables) -> Self {
        let listed = tables.are_listed();
        self.netfilter.older = Older {
            tables,
            due: listed.then(|| Instant::now() + PERIOD),
            why: None,
        };
        self
    }

    /// Looks for them, if that is due.
    pub(super) fn look_for_older_tables(&mut self, now: Instant) {
        if !self.netfilter.older.look(now) {
            return;
        }
        match (self.netfilter.older.why(), self.netfilter.follows) {
            (Some(why), true) => tracing::warn!(
                why,
                "all that is new is the kernel's until the engine is started again, which reads them; connections \
                 that are there stay as they are"
            ),
            (Some(why), false) => {
                tracing::warn!(why, "it is offloaded all the same: ignore_netfilter");
            }
            (None, _) => tracing::info!("there are no other tables of iptables any more"),
        }
        self.follow_netfilter(None);
    }
}
