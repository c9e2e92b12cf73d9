//! Which listeners and connections the engine takes. Steered packets do not pass netfilter, so
//! the engine has lists of its own: prefixes of the remote address and ranges of the local port
//! for listeners, of the remote port for connections that it opens.

use std::net::IpAddr;

use serde::Deserialize;

/// Denied first, then allowed; an empty `allow` allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// What is taken, if it is not denied.
    pub allow: Vec<Rule>,
    /// What is never taken.
    pub deny: Vec<Rule>,
}

/// A rule matches where all of what it names matches.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Remote addresses, as `10.0.0.0/8`; any if not given.
    #[serde(default)]
    pub prefix: Option<Prefix>,
    /// Ports, as `80` or `8000-8999`; any if not given.
    #[serde(default)]
    pub ports: Option<PortRange>,
}

/// An address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Ports from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl Access {
    /// Whether a listener on `port` may be offloaded at all.
    pub fn admits_listener(&self, port: u16) -> bool {
        // A rule with a prefix speaks of peers, not of the whole listener.
        let whole = |rule: &&Rule| rule.prefix.is_none();
        let denied = self.deny.iter().filter(whole).any(|r| r.matches_port(port));
        let allowed = self.allow.is_empty() || self.allow.iter().any(|r| r.matches_port(port));
        allowed && !denied
    }

    /// Whether a peer at `remote` may use `port`.
    pub fn admits_peer(&self, remote: IpAddr, port: u16) -> bool {
        let matches = |rule: &Rule| rule.matches_port(port) && rule.matches_address(remote);
        !self.deny.iter().any(matches) && (self.allow.is_empty() || self.allow.iter().any(matches))
    }

    /// Whether there is any rule at all: without one, nothing needs to be asked per peer.
    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

impl Rule {
    fn matches_port(&self, port: u16) -> bool {
        self.ports
            .is_none_or(|range| (range.first..=range.last).contains(&port))
    }

    fn matches_address(&self, address: IpAddr) -> bool {
        self.prefix.is_none_or(|prefix| prefix.contains(address))
    }
}

impl Prefix {
    /// Whether `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        fn same(a: u128, b: u128, bits: u32, length: u8) -> bool {
            let ignored = bits - u32::from(length);
            a.checked_shr(ignored).unwrap_or(0) == b.checked_shr(ignored).unwrap_or(0)
        }
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                same(u32::from(a).into(), u32::from(b).into(), 32, self.length)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128, self.length),
            _ => false,
        }
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refuse = || format!("`{text}` is not a prefix, write 10.0.0.0/8 or fd00::/8");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text.as_str(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().map_err(|_| refuse())?,
            None => bits,
        };
        if length > bits {
            return Err(refuse());
        }
        Ok(Self { address, length })
    }
}

impl TryFrom<String> for PortRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refuse = || format!("`{text}` is not a port range, write \"80\" or \"8000-8999\"");
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let range = Self {
            first: first.trim().parse().map_err(|_| refuse())?,
            last: last.trim().parse().map_err(|_| refuse())?,
        };
        if range.first > range.last {
            return Err(refuse());
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(text: &str) -> Access {
        toml::from_str(text).expect("valid")
    }

    #[test]
    fn nothing_said_allows_everything() {
        let access = access("");
        assert!(access.is_open());
        assert!(access.admits_listener(22));
        assert!(access.admits_peer("10.1.2.3".parse().unwrap(), 80));
    }

    #[test]
    fn denied_goes_before_allowed() {
        let access = access(
            "allow = [{ ports = \"80-443\" }]\ndeny = [{ ports = \"81\" }, { prefix = \"10.9.0.0/16\" }]",
        );
        assert!(access.admits_listener(80));
        assert!(!access.admits_listener(81));
        assert!(!access.admits_listener(8080));
        assert!(access.admits_peer("10.8.0.1".parse().unwrap(), 80));
        assert!(!access.admits_peer("10.9.200.1".parse().unwrap(), 80));
    }

    #[test]
    fn prefixes_count_bits() {
        let prefix = Prefix::try_from("fd00:1::/32".to_owned()).expect("valid");
        assert!(prefix.contains("fd00:1:2::3".parse().unwrap()));
        assert!(!prefix.contains("fd00:2::".parse().unwrap()));
        assert!(!prefix.contains("10.0.0.1".parse().unwrap()));
        let all = Prefix::try_from("0.0.0.0/0".to_owned()).expect("valid");
        assert!(all.contains("255.1.1.1".parse().unwrap()));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["10.0.0.0/33", "ten", "10.0.0.0/x"] {
            let error = Prefix::try_from(text.to_owned()).expect_err("refused");
            assert!(error.contains("10.0.0.0/8"), "{error}");
        }
        for text in ["90-80", "http", "70000"] {
            let error = PortRange::try_from(text.to_owned()).expect_err("refused");
            assert!(error.contains("8000-8999"), "{error}");
        }
    }
}
