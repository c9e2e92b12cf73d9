//! Whether features of an interface are as they were to be. `ethtool -K` succeeds, too, where a feature stays as it was
//! because another one is not there that it needs.

use anyhow::{Result, bail};

/// What `ethtool -K` calls a feature, and what `ethtool -k` does.
const NAMES: [(&str, &str); 6] = [
    ("tx", "tx-checksumming"),
    ("rx", "rx-checksumming"),
    ("sg", "scatter-gather"),
    ("tso", "tcp-segmentation-offload"),
    ("gso", "generic-segmentation-offload"),
    ("gro", "generic-receive-offload"),
];

/// Holds what `ethtool -k` has printed against what `ethtool -K` was told.
///
/// # Errors
/// A feature is not as it was to be.
pub fn check(told: &str, printed: &str) -> Result<()> {
    let words: Vec<&str> = told.split(' ').collect();
    let is = |long: &str| {
        let mut lines = printed.lines().map(str::trim);
        let state = lines.find_map(|line| line.strip_prefix(long)?.strip_prefix(": "));
        // "off [fixed]", say.
        state.and_then(|state| state.split(' ').next())
    };
    for pair in words.chunks(2) {
        let &[short, wanted] = pair else {
            bail!("{told} is not features and their states");
        };
        let Some((_, long)) = NAMES.iter().find(|(known, _)| *known == short) else {
            bail!("no feature {short} is known");
        };
        match is(long) {
            Some(state) if state == wanted => {}
            Some(state) => bail!("{long} was to be {wanted}, and is {state}"),
            None => bail!("ethtool does not say whether there is {long}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    const PRINTED: &str = "Features for server0:
rx-checksumming: off
tx-checksumming: on
\ttx-checksum-ip-generic: on
scatter-gather: off [requested on]
\ttx-scatter-gather: off [requested on]
tcp-segmentation-offload: off
generic-segmentation-offload: off [requested on]
generic-receive-offload: on
";

    #[test]
    fn a_feature_that_stays_as_it_was_is_an_error() {
        check("tx on rx off tso off gro on", PRINTED).unwrap();
        let said = |told: &str| check(told, PRINTED).unwrap_err().to_string();
        assert_eq!(
            said("tx on sg on"),
            "scatter-gather was to be on, and is off"
        );
        assert_eq!(said("lro off"), "no feature lro is known");
        assert!(said("tx").contains("is not features"));
        let said = check("gro on", "").unwrap_err().to_string();
        assert!(said.contains("generic-receive-offload"), "{said}");
    }
}
