//! What other tools of the kind are told, and this one is told otherwise.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// Options of other tools of the kind, so that who tries them learns what there is instead.
#[derive(clap::Args)]
pub struct Foreign {
    #[arg(short = 't', long, hide = true, value_name = "N")]
    threads: Option<u32>,
    #[arg(short = 's', long, hide = true, value_name = "SCRIPT")]
    script: Option<PathBuf>,
    #[arg(short = 'm', long, hide = true, value_name = "METHOD")]
    method: Option<String>,
    #[arg(short = 'z', hide = true, value_name = "TIME")]
    for_time: Option<String>,
    #[arg(short = 'D', hide = true, value_name = "SECONDS")]
    for_seconds: Option<String>,
    #[arg(short = 'K', long, hide = true, allow_hyphen_values = true, num_args = 0..=1)]
    keepalive: Option<Option<String>>,
    #[arg(long, visible_aliases = ["h2", "http-version", "h1", "alpn-list", "npn-list"], hide = true,
          num_args = 0..=1)]
    http2: Option<Option<String>>,
    #[arg(long, visible_aliases = ["tls", "cert", "cacert", "key", "ciphers"], hide = true,
          num_args = 0..=1)]
    insecure: Option<Option<String>>,
    #[arg(long, visible_aliases = ["body", "form", "post", "upload-file"], hide = true, num_args = 0..=1)]
    data: Option<Option<String>>,
    #[arg(long, visible_aliases = ["query-per-second"], hide = true, value_name = "RATE")]
    qps: Option<String>,
    #[arg(short = 'x', long, hide = true, value_name = "URL")]
    proxy: Option<String>,
    #[arg(long, visible_aliases = ["no-keepalive"], hide = true)]
    disable_keepalive: bool,
    #[arg(long, hide = true, num_args = 0..=1)]
    redirect: Option<Option<String>>,
}

impl Foreign {
    /// Refuses what was given of them, with what to say instead.
    pub fn check(&self) -> Result<()> {
        for (given, name, instead) in [
            (
                self.threads.is_some_and(|threads| threads != 1),
                "-t",
                "the client is one thread on one receive queue, which is seldom the limit; for \
                 more, start it several times, each with its own --ports; how long it lasts is -d TIME, \
                 and how long an answer may take --timeout TIME",
            ),
            (
                self.script.is_some(),
                "-s",
                "there are no scripts; say what is asked for by --path, --sizes and -H; how long an answer may \
                 take is --timeout TIME, and a soft start --ramp TIME",
            ),
            (
                self.method.as_deref().is_some_and(|method| method != "GET"),
                "-m",
                "requests are GET, or HEAD by --head: others carry a body, and a stateless client \
                 has none to repeat; there are no streams (h2load does HTTP/2)",
            ),
            (
                self.for_time.is_some(),
                "-z",
                "the time is -d TIME here, such as -d 10s",
            ),
            (
                self.for_seconds.is_some(),
                "-D",
                "the time is -d TIME here, such as -d 10s, and requests have no bodies",
            ),
            (
                self.keepalive.is_some(),
                "--keepalive",
                "connections stay unless --close or -k N says otherwise",
            ),
            (
                self.http2.is_some(),
                "--http2",
                "it speaks HTTP/1.1 only; h2load does HTTP/2 and 3",
            ),
            (
                self.insecure.is_some(),
                "--insecure",
                "there is no TLS: encryption needs a session on the client, which it has none of; \
                 use oha, wrk or h2load",
            ),
            (
                self.data.is_some(),
                "--data",
                "requests have no bodies, since a stateless client has none to repeat; use oha or h2load",
            ),
            (
                self.qps.is_some(),
                "--qps",
                "requests a second are -R RATE here",
            ),
            (
                self.proxy.is_some(),
                "-x",
                "it asks the server itself, by no proxy",
            ),
            (
                self.disable_keepalive,
                "--disable-keepalive",
                "a connection for each request is --close here",
            ),
            (
                self.redirect.is_some(),
                "--redirect",
                "redirections are counted by their status, and not followed",
            ),
        ] {
            if given {
                bail!("{name}: {instead}");
            }
        }
        Ok(())
    }
}
