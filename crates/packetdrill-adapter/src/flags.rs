//! `--so_flags`: `name=value` separated by commas or blanks. `ip=` and `mtu=`, and Linux's sysctl
//! names with or without what comes before `tcp_`.

use std::net::IpAddr;

/// What the runner asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// The addresses of the stack.
    pub(crate) addresses: Vec<IpAddr>,
    /// The MTU, if it is not 1500 (1520 for IPv6).
    pub(crate) mtu: Option<u16>,
    /// Everything else.
    pub(crate) settings: Vec<(String, String)>,
    /// What could not be read.
    pub(crate) complaints: Vec<String>,
}

/// Reads flags; what makes no sense is a complaint and changes nothing.
pub(crate) fn parse(text: &str) -> Flags {
    let mut flags = Flags::default();
    let words = text.split([',', ';']).map(str::trim);
    for word in words.filter(|word| !word.is_empty()) {
        let Some((name, value)) = word.trim_start_matches('-').split_once('=') else {
            flags
                .complaints
                .push(format!("{word:?}: expected name=value"));
            continue;
        };
        let value = value.trim().trim_matches(['"', '\'']);
        match name.trim() {
            "ip" | "local_ip" => match value.parse() {
                Ok(address) => flags.addresses.push(address),
                Err(_) => flags.complaints.push(format!("{value:?} is no address")),
            },
            "mtu" => match value.parse() {
                Ok(mtu) if mtu >= 576 => flags.mtu = Some(mtu),
                _ => flags.complaints.push(format!("{value:?} is no MTU")),
            },
            name => flags.settings.push((name.to_owned(), value.to_owned())),
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_told_apart() {
        let flags = parse("ip=192.0.2.1, mtu=1400,tcp_rmem=4096 65536 65536,nonsense,mtu=x,");
        assert_eq!(flags.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(flags.mtu, Some(1400));
        let rmem = ("tcp_rmem".to_owned(), "4096 65536 65536".to_owned());
        assert_eq!(flags.settings, [rmem]);
        assert_eq!(flags.complaints.len(), 2);
    }
}
