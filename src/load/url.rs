//! What is asked for: the server, the paths and their sizes.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail};
use queueing::Distribution;
use stateless::client::request::{MAX_PATTERNS, Pattern};

/// Sizes that stand for a distribution: its quantiles, equally likely.
const QUANTILES: usize = 128;

/// What stands for a size in a path.
const PLACEHOLDER: &str = "{size}";

/// A URL with its server's address.
#[derive(Debug, Clone, PartialEq)]
pub struct Url {
    /// The Host header.
    pub host: String,
    /// Where the server is.
    pub server: SocketAddr,
    /// Path and query.
    pub path: String,
}

impl Url {
    /// Reads one, and looks its host up.
    pub fn parse(text: &str) -> Result<Self> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some((scheme, _)) => {
                bail!("{scheme}: the client speaks HTTP without encryption; write http://...")
            }
            None => text,
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(at);
        if host.is_empty() {
            bail!("{text:?} names no server: write http://ADDRESS[:PORT]/PATH");
        }
        // A name or address without a port, bracketed if it is IPv6.
        let port_given = host
            .rsplit_once(':')
            .is_some_and(|(before, port)| !port.contains(']') && !before.ends_with(':'));
        let full = if port_given {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        if host.starts_with('[') != host.contains(']') {
            bail!(
                "{host:?} has half of its brackets: write an IPv6 address as http://[fd00::1]:80/"
            );
        }
        let port = full.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) {
            bail!(
                "{host:?} has no port that there is: write http://ADDRESS:PORT/, from 1 to 65535"
            );
        }
        let server = full
            .to_socket_addrs()
            .with_context(|| format!("cannot find the server {host:?}"))?
            .next()
            .with_context(|| format!("{host:?} has no address"))?;
        Ok(Self {
            host: host.to_owned(),
            server,
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
        })
    }

    /// The patterns of requests: this URL's path and further ones, with sizes put in.
    pub fn patterns(&self, further: &[String], sizes: Option<&str>) -> Result<Vec<Pattern>> {
        let sizes = sizes.map(read_sizes).transpose()?;
        let mut paths = vec![(self.path.clone(), 1.0)];
        for text in further {
            paths.push(weighted(text));
        }
        let mut patterns = Vec::new();
        for (path, weight) in paths {
            if !path.starts_with('/') {
                bail!("the path {path:?} must begin with a slash");
            }
            if !path.contains(PLACEHOLDER) {
                patterns.push(Pattern { path, weight });
                continue;
            }
            let Some(sizes) = &sizes else {
                bail!("{path:?} has a {PLACEHOLDER}: say which, by --sizes");
            };
            let total: f64 = sizes.iter().map(|(_, share)| share).sum();
            for (size, share) in sizes {
                patterns.push(Pattern {
                    path: path.replace(PLACEHOLDER, &size.to_string()),
                    weight: weight * share / total,
                });
            }
        }
        if sizes.is_some() && !self.path.contains(PLACEHOLDER) && further.is_empty() {
            bail!("--sizes needs a {PLACEHOLDER} in the path, to be put there");
        }
        if patterns.len() > MAX_PATTERNS {
            bail!(
                "{} paths: at most {MAX_PATTERNS} are possible",
                patterns.len()
            );
        }
        Ok(patterns)
    }
}

/// A text and the weight behind its last star, which is 1 if there is none.
fn weighted(text: &str) -> (String, f64) {
    if let Some((before, weight)) = text.rsplit_once('*')
        && let Ok(weight) = weight.parse()
    {
        return (before.to_owned(), weight);
    }
    (text.to_owned(), 1.0)
}

/// A number with k, m or g behind it (thousands).
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, scale) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'm' | 'M') => (&text[..at], 1e6),
        (at, 'g' | 'G') => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|number| number * scale)
}

/// Sizes in bytes, and their shares.
fn read_sizes(text: &str) -> Result<Vec<(u64, f64)>> {
    let size = |text: &str| {
        number(text)
            .filter(|size| *size >= 0.0 && *size <= 1e12)
            .with_context(|| format!("{text:?} is no size: write bytes, such as 64, 8k or 1m"))
    };
    let Some((kind, of)) = text.split_once(':') else {
        return text
            .split(',')
            .map(|one| {
                let (text, share) = weighted(one);
                Ok((size(&text)? as u64, share))
            })
            .collect();
    };
    let fields: Vec<&str> = of.split([',', '-']).collect();
    let distribution = match (kind, &fields[..]) {
        ("exp", [mean]) => Distribution::exponential(1.0 / size(mean)?.max(1.0)),
        ("lognormal", [mean, scv]) => Distribution::log_normal_from_mean_and_scv(
            size(mean)?,
            scv.parse().context("lognormal:MEAN,SCV")?,
        ),
        ("pareto", [low, high, alpha]) => Distribution::bounded_pareto(
            size(low)?,
            size(high)?,
            alpha.parse().context("pareto:LOW,HIGH,ALPHA")?,
        ),
        ("uniform", [low, high]) => {
            let (low, high) = (size(low)?, size(high)?);
            let step = (high - low) / (QUANTILES - 1) as f64;
            return Ok((0..QUANTILES)
                .map(|index| ((low + step * index as f64) as u64, 1.0))
                .collect());
        }
        _ => bail!("{text:?} is no distribution of sizes: see --help"),
    }
    .with_context(|| format!("the sizes {text:?}"))?;
    Ok((0..QUANTILES)
        .map(|index| {
            let middle = (index as f64 + 0.5) / QUANTILES as f64;
            (distribution.quantile(middle) as u64, 1.0)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_as_people_write_them() {
        for (text, host, server, path) in [
            ("http://10.0.0.1/", "10.0.0.1", "10.0.0.1:80", "/"),
            ("10.0.0.1:8080", "10.0.0.1:8080", "10.0.0.1:8080", "/"),
            ("http://[fd00::1]/a?b", "[fd00::1]", "[fd00::1]:80", "/a?b"),
            ("http://[fd00::1]:81", "[fd00::1]:81", "[fd00::1]:81", "/"),
            ("http://10.0.0.1?s=5", "10.0.0.1", "10.0.0.1:80", "/?s=5"),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!(
                (
                    url.host.as_str(),
                    url.server.to_string().as_str(),
                    url.path.as_str()
                ),
                (host, server, path)
            );
        }
        for text in [
            "https://10.0.0.1/",
            "http:///x",
            "",
            "http://10.0.0.1:port/",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    fn patterns(path: &str, further: &[&str], sizes: Option<&str>) -> Result<Vec<Pattern>> {
        let further: Vec<_> = further.iter().map(|path| (*path).to_owned()).collect();
        Url::parse(&format!("http://10.0.0.1{path}"))?.patterns(&further, sizes)
    }

    #[test]
    fn paths_have_weights_and_sizes() {
        let two = patterns("/a", &["/b*3"], None).unwrap();
        assert_eq!((two[1].path.as_str(), two[1].weight), ("/b", 3.0));
        let sized = patterns("/?s={size}", &[], Some("1k,10k*3")).unwrap();
        assert_eq!(sized[0].path, "/?s=1000");
        assert_eq!(
            (sized[1].path.as_str(), sized[1].weight),
            ("/?s=10000", 0.75)
        );
        assert!(patterns("/{size}", &[], None).is_err());
        assert!(patterns("/", &[], Some("1k")).is_err());
        assert!(patterns("/", &["b"], None).is_err());
    }

    #[test]
    fn a_distribution_is_its_quantiles() {
        for (text, least, most) in [
            ("exp:10k", 9_000.0, 10_500.0),
            ("lognormal:8k,1", 7_000.0, 8_200.0),
            ("uniform:1k-3k", 1_990.0, 2_010.0),
            ("pareto:1k,1m,1.2", 4_000.0, 6_000.0),
        ] {
            let sizes = read_sizes(text).expect(text);
            let mean = sizes.iter().map(|(size, _)| *size as f64).sum::<f64>() / sizes.len() as f64;
            assert!((least..most).contains(&mean), "{text}: {mean}");
        }
        for text in ["exp:", "nothing:1", "1k,x", "uniform:1k"] {
            assert!(read_sizes(text).is_err(), "{text}");
        }
    }
}
