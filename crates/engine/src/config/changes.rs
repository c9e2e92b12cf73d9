//! A configuration that is read again: what can change in an engine that runs, and what cannot.

use super::Config;

/// Settings that change while the engine runs, without cost to its connections. Those of listeners
/// and connections are for the ones that come.
const LIVE: &[&str] = &[
    "access",
    "drain_seconds",
    "limits.accept_backlog",
    "limits.control_connections",
    "limits.forks",
    "limits.orphans",
    "limits.reports",
    "limits.requests_per_second",
    "limits.sessions",
    "limits.sessions_per_user",
    "limits.tickets",
    "moderation_microseconds",
    "placement",
    "placement_rate",
    "placements",
    "policy",
    "profile",
    "queues",
    "spin_microseconds",
    "tcp.congestion",
    "tcp.hop_limit",
    "tcp.pacing_burst",
    "tcp.syn_cookies",
];

/// What differs between two configurations, by the settings' full names, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changed in an engine that runs.
    pub live: Vec<String>,
    /// Changed by a new start only.
    pub at_start: Vec<String>,
}

impl Config {
    /// What differs in `new`.
    pub fn changes(&self, new: &Self) -> Changes {
        let (before, after) = (self.settings(), new.settings());
        let differs = |name: &&String| before.get(*name) != after.get(*name);
        let mut names: Vec<String> = before
            .keys()
            .chain(after.keys())
            .filter(differs)
            .cloned()
            .collect();
        if self.access != new.access {
            names.push("access".to_owned());
        }
        if self.placements != new.placements {
            names.push("placements".to_owned());
        }
        // What is in the file counts, not only which one it is.
        if self.policy != new.policy {
            names.push("policy".to_owned());
        }
        names.sort();
        names.dedup();
        let (live, at_start) = names
            .into_iter()
            .partition(|name| LIVE.contains(&name.as_str()));
        Changes { live, at_start }
    }

    /// Takes from `new` what can change in an engine that runs.
    pub(crate) fn take_live(&mut self, new: &Self) {
        self.access = new.access.clone();
        self.drain_seconds = new.drain_seconds;
        self.moderation_microseconds = new.moderation_microseconds;
        self.placement = new.placement;
        self.placement_rate = new.placement_rate;
        self.placements = new.placements.clone();
        self.policy = new.policy.clone();
        self.profile = new.profile;
        self.queues = new.queues.clone();
        self.spin_microseconds = new.spin_microseconds;
        self.limits.accept_backlog = new.limits.accept_backlog;
        self.limits.control_connections = new.limits.control_connections;
        self.limits.forks = new.limits.forks;
        self.limits.orphans = new.limits.orphans;
        self.limits.reports = new.limits.reports;
        self.limits.requests_per_second = new.limits.requests_per_second;
        self.limits.sessions = new.limits.sessions;
        self.limits.sessions_per_user = new.limits.sessions_per_user;
        self.limits.tickets = new.limits.tickets;
        self.tcp.congestion = new.tcp.congestion;
        self.tcp.hop_limit = new.tcp.hop_limit;
        self.tcp.pacing_burst = new.tcp.pacing_burst;
        self.tcp.syn_cookies = new.tcp.syn_cookies;
    }

    /// Every setting but the access lists, what is said of single listeners and a policy, by its full name.
    fn settings(&self) -> toml::Table {
        let mut all = toml::Table::new();
        // A configuration is made of numbers, names and switches: it can always be written.
        for (name, value) in toml::Table::try_from(self).unwrap_or_default() {
            match value {
                toml::Value::Table(table) => {
                    let full = |(key, value)| (format!("{name}.{key}"), value);
                    all.extend(table.into_iter().map(full));
                }
                value => {
                    all.insert(name, value);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policy::tests::{FROM_100, Written};

    #[test]
    fn every_setting_is_compared_and_told_apart() {
        let example = include_str!("../../../../docs/engine.toml");
        let settings = Config::default().settings();
        // The three that have no default are not written while they are not set.
        for line in example.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, _)) = line.split_once(" = ")
                && name != "allow"
                && name != "deny"
            {
                let known = settings
                    .keys()
                    .any(|key| key.rsplit('.').next() == Some(name));
                assert!(known, "{name} is not compared");
            }
        }
        assert!(settings.len() > 40, "{settings:#?}");
        let in_one = ["access", "placements", "policy"];
        for name in LIVE.iter().filter(|name| !in_one.contains(name)) {
            assert!(settings.contains_key(*name), "{name} is no setting");
        }
    }

    #[test]
    fn what_can_change_is_taken_and_the_rest_is_named() {
        let mut running = Config::default();
        let new = Config::parse(
            "new",
            "spin_microseconds = 99\ncore = 1\n[tcp]\nhop_limit = 7\nreceive_buffer = 9999\n\
             [metrics]\nlisten = \"127.0.0.1:1\"\n[access]\ndeny = [{ ports = \"81\" }]\n",
        )
        .expect("valid");
        let changes = running.changes(&new);
        assert_eq!(
            changes.live,
            ["access", "spin_microseconds", "tcp.hop_limit"]
        );
        assert_eq!(
            changes.at_start,
            ["core", "metrics.listen", "tcp.receive_buffer"]
        );
        running.take_live(&new);
        // Only what needs a start is still to come, and is named again.
        let left = running.changes(&new);
        assert_eq!((left.live.len(), left.at_start), (0, changes.at_start));
    }

    #[test]
    fn all_that_is_called_live_is_taken() {
        // Other values than the defaults, for everything that is live.
        let policy = Written::new("live", FROM_100);
        let settings = policy.setting()
            + "placement = \"kernel\"\nplacement_rate = 9\nprofile = \"latency\"\nqueues = [0]\nspin_microseconds = 99\nmoderation_microseconds = 9\ndrain_seconds = 3\n[tcp]\n\
             hop_limit = 7\ncongestion = \"reno\"\npacing_burst = 3\nsyn_cookies = false\n[limits]\n\
             accept_backlog = 9\ncontrol_connections = 99\norphans = 9\nreports = 9\nsessions = 9\n\
             sessions_per_user = 9\nforks = 9\ntickets = 9\nrequests_per_second = 9\n[placements]\n\"1.2.3.4:5\" = \"kernel\"\n[access]\ndeny = [{ ports = \"81\" }]\n";
        let new = Config::parse("new", &settings).expect("valid");
        let mut running = Config::default();
        assert_eq!(running.changes(&new).live, LIVE);
        running.take_live(&new);
        assert_eq!(running, new);
    }
}
