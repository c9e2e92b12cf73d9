//! The file that describes a server, and the flags for a single class.

use super::preset;
use super::written::{Growing, Rates, Seconds, Written};
use anyhow::{Context, Result, bail};
use queueing::Distribution;
use queueing::offload::{Class, Discipline, Feeding, Stage, System};
use serde::Deserialize;
use std::path::Path;

/// A server as the study takes it.
#[derive(Debug, Clone)]
pub struct Server {
    /// The size classes; the arrival rate of each is its share of all.
    pub classes: Vec<Class>,
    /// The greatest size of each class but the last, bytes, if they are known.
    pub sizes: Option<Vec<u64>>,
    /// The machines.
    pub system: System,
    /// The loads to look at; without them, up to saturation.
    pub rates: Option<Rates>,
    /// Where the inputs come from, for the answer to state.
    pub origin: String,
    /// Whether the server's time is known by its parts (Xa, Xp, Xo). If not, all of it stands in
    /// `protocol` without engine and in `overhead` with it.
    pub split: bool,
}

impl Server {
    /// Whether a queue has bounded room.
    pub fn bounded(&self) -> bool {
        self.system.host.room.is_some() || self.system.engine.room.is_some()
    }

    /// A placement in words.
    pub fn offloaded(&self, offloaded: &[bool]) -> String {
        if offloaded.iter().all(|offloaded| *offloaded) {
            return "everything".into();
        }
        let pairs = self.classes.iter().zip(offloaded);
        let names: Vec<&str> = pairs
            .filter_map(|(class, offloaded)| offloaded.then_some(class.name.as_str()))
            .collect();
        if names.is_empty() {
            "nothing".into()
        } else {
            names.join(", ")
        }
    }
}

/// A single class by flags.
#[derive(clap::Args)]
pub struct Single {
    /// Application work of a request on the host (Xa), such as 50us
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true, value_parser = Seconds::parse)]
    application: Option<Seconds>,
    /// Protocol processing of a request on the host (Xp); with --preset, it may grow with the size:
    /// 80us+3us/KB
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true, value_parser = Growing::parse, requires = "application")]
    protocol: Option<Growing>,
    /// The host's overhead of talking to the engine (Xo); it may grow as -p
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true, value_parser = Growing::parse, requires = "application")]
    overhead: Option<Growing>,
    /// Control work on the engine (Xc)
    #[arg(short = 'k', long, value_name = "TIME", allow_hyphen_values = true, value_parser = Seconds::parse, requires = "application")]
    control: Option<Seconds>,
    /// Protocol processing of a request on the engine (Xq); it may grow as -p
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true, value_parser = Growing::parse, requires = "application")]
    engine_time: Option<Growing>,
    /// Sizes of what is asked for, in classes as published: WebStone's mix, SPECweb99's, what SURGE
    /// requests, or SURGE's files, each as often
    #[arg(long, value_name = "NAME", requires = "application", value_parser = preset::NAMES)]
    preset: Option<String>,
    /// Cores of the host
    #[arg(long, value_name = "N", default_value_t = 1, requires = "application")]
    cores: usize,
    /// Cores of the engine
    #[arg(long, value_name = "N", default_value_t = 1, requires = "application")]
    engine_cores: usize,
    /// Room for requests a queue, at the host and at the engine, the one in service included
    /// (without: no bound); the answers are then simulated
    #[arg(long, value_name = "N", requires = "application")]
    room: Option<usize>,
    /// The host's order of service: fcfs (event-driven) or sharing (prefork, threads)
    #[arg(long, value_name = "ORDER", default_value = "fcfs", requires = "application",
          value_parser = ["fcfs", "sharing"])]
    discipline: String,
}

impl Single {
    /// Whether one is described.
    pub fn is_given(&self) -> bool {
        self.application.is_some()
    }

    /// The server that the flags describe.
    pub fn server(&self) -> Result<Server> {
        let Some(application) = self.application else {
            bail!(
                "say what to plan: --from FILE.toml, or a single class by -a, -p, -o and -e, \
                 such as: outboard plan -a 50us -p 80us -o 10us -e 60us"
            );
        };
        let Some(protocol) = self.protocol else {
            bail!(
                "-p is missing: the time that a request's protocols need on the host, such as -p 80us"
            );
        };
        let Some(engine) = self.engine_time else {
            bail!(
                "-e is missing: the time that a request's protocols need on the engine, such as -e 60us"
            );
        };
        let time = |seconds: Option<Seconds>| {
            Written::Mean(seconds.unwrap_or(Seconds(0.0))).distribution(Path::new(""))
        };
        let overhead = self.overhead.unwrap_or(Growing {
            fixed: Seconds(0.0),
            each_byte: 0.0,
        });
        let class = |name: &str, share: f64, sizes: Option<&Distribution>| -> Result<Class> {
            Ok(Class {
                name: name.into(),
                arrival_rate: share,
                application: time(Some(application))?,
                protocol: protocol.distribution(sizes)?,
                overhead: overhead.distribution(sizes)?,
                control: time(self.control)?,
                engine: engine.distribution(sizes)?,
            })
        };
        let (classes, sizes, origin) = match &self.preset {
            None => (
                vec![class("requests", 1.0, None)?],
                Vec::new(),
                "flags; every time exponential".to_owned(),
            ),
            Some(name) => {
                if [protocol, overhead, engine]
                    .iter()
                    .all(|time| time.each_byte == 0.0)
                {
                    bail!(
                        "with --preset a time has to grow with the size, such as -p 80us+3us/KB: \
                         otherwise all classes are the same"
                    );
                }
                let workload = preset::find(name)?;
                let parts = &workload.parts;
                let classes = parts
                    .iter()
                    .map(|part| class(&part.name, part.share, Some(&part.sizes)));
                (
                    classes.collect::<Result<_>>()?,
                    parts.iter().filter_map(|part| part.up_to_bytes).collect(),
                    format!(
                        "flags; {}; times that grow with the size vary with it alone, the others are \
                         exponential",
                        workload.origin
                    ),
                )
            }
        };
        let discipline = match self.discipline.as_str() {
            "sharing" => Discipline::ProcessorSharing,
            _ => Discipline::Fcfs,
        };
        let stage = |cores, discipline| Stage {
            cores,
            discipline,
            room: self.room,
            ..Stage::default()
        };
        Ok(Server {
            classes,
            sizes: Some(sizes),
            system: System {
                host: stage(self.cores, discipline),
                engine: stage(self.engine_cores, Discipline::Fcfs),
                shared: false,
            },
            rates: None,
            origin,
            split: true,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rates: Option<Rates>,
    #[serde(default)]
    shared_cores: bool,
    #[serde(default)]
    host: FileStage,
    #[serde(default)]
    engine: FileStage,
    class: Vec<FileClass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileStage {
    cores: usize,
    discipline: FileDiscipline,
    feeding: FileFeeding,
    room: Option<usize>,
}

impl Default for FileStage {
    fn default() -> Self {
        FileStage {
            cores: 1,
            discipline: FileDiscipline::Fcfs,
            feeding: FileFeeding::Separate,
            room: None,
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum FileDiscipline {
    Fcfs,
    Sharing,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum FileFeeding {
    Separate,
    Pooled,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileClass {
    name: String,
    share: f64,
    up_to_bytes: Option<u64>,
    application: Written,
    protocol: Written,
    #[serde(default = "Written::nothing")]
    overhead: Written,
    #[serde(default = "Written::nothing")]
    control: Written,
    engine: Written,
}

/// Reads a server's file.
pub fn read(path: &Path) -> Result<Server> {
    let text = std::fs::read_to_string(path).with_context(|| {
        format!(
            "cannot read --from {} (examples/plan.toml is one to begin with)",
            path.display()
        )
    })?;
    parse(&text, path).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str, path: &Path) -> Result<Server> {
    let file: File = toml::from_str(text)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let stage = |stage: &FileStage| Stage {
        cores: stage.cores,
        discipline: match stage.discipline {
            FileDiscipline::Fcfs => Discipline::Fcfs,
            FileDiscipline::Sharing => Discipline::ProcessorSharing,
        },
        feeding: match stage.feeding {
            FileFeeding::Separate => Feeding::Separate,
            FileFeeding::Pooled => Feeding::Pooled,
        },
        room: stage.room,
    };
    if file.class.is_empty() {
        bail!("there is no [[class]] in it");
    }
    for class in &file.class {
        if !(class.share.is_finite() && class.share >= 0.0) {
            bail!(
                "class {:?}: share must be a finite number of at least 0, not {}",
                class.name,
                class.share
            );
        }
    }
    let total: f64 = file.class.iter().map(|class| class.share).sum();
    if total <= 0.0 {
        bail!("the shares of the classes add up to {total}; they have to be above 0");
    }
    let classes = file
        .class
        .iter()
        .map(|class| {
            let part = |name: &str, written: &Written| -> Result<Distribution> {
                let place = || format!("class {:?}, {name}", class.name);
                let distribution = written.distribution(base).with_context(place)?;
                // The formulas need two moments; say so by name before anything is computed.
                distribution.moments().with_context(place)?;
                Ok(distribution)
            };
            Ok(Class {
                name: class.name.clone(),
                arrival_rate: class.share / total,
                application: part("application", &class.application)?,
                protocol: part("protocol", &class.protocol)?,
                overhead: part("overhead", &class.overhead)?,
                control: part("control", &class.control)?,
                engine: part("engine", &class.engine)?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let sizes = sizes(&file.class)?;
    Ok(Server {
        classes,
        sizes,
        system: System {
            host: stage(&file.host),
            engine: stage(&file.engine),
            shared: file.shared_cores,
        },
        rates: file.rates,
        origin: path.display().to_string(),
        split: true,
    })
}

/// The greatest sizes of all classes but the last, if every one of those has one.
fn sizes(classes: &[FileClass]) -> Result<Option<Vec<u64>>> {
    let but_last = &classes[..classes.len().saturating_sub(1)];
    for pair in but_last.windows(2) {
        if let (Some(smaller), Some(larger)) = (pair[0].up_to_bytes, pair[1].up_to_bytes)
            && larger <= smaller
        {
            bail!(
                "class {:?}: up_to_bytes = {larger} is not above the {smaller} of class {:?}; write \
                 the classes by ascending size",
                pair[1].name,
                pair[0].name
            );
        }
    }
    Ok(but_last.iter().map(|class| class.up_to_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: &str =
        "[[class]]\nname = \"all\"\nshare = 1\napplication = \"1ms\"\nengine = \"1ms\"\n";

    #[test]
    fn a_tail_without_a_second_moment_is_named_with_its_place() {
        let text = format!("{CLASS}protocol = {{ pareto = {{ scale = \"1ms\", alpha = 1.1 }} }}\n");
        let error = format!("{:#}", parse(&text, Path::new("x.toml")).unwrap_err());
        assert!(
            error.contains("class \"all\", protocol") && error.contains("alpha > 2"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let text = format!("{CLASS}protocol = \"1ms\"\nprotocl = \"2ms\"\n");
        let error = format!("{:#}", parse(&text, Path::new("x.toml")).unwrap_err());
        assert!(
            error.contains("line 7") && error.contains("protocl"),
            "{error}"
        );
    }
}
