//! Options that people know from other tools of the kind and that are not here: who tries one is told what
//! there is instead, rather than that it is unknown.

mod load;
mod others;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command, an option of its own that is a mere switch elsewhere, and what to write.
const SWITCHES: &[(&str, &str, &str)] = &[
    (
        "load",
        "--keep-alive",
        "-k N is how many requests a connection has: leave it out to keep connections alive, as ab's -k \
         does; --close makes one for each request",
    ),
    (
        "load",
        "--interface",
        "-i IFACE is the interface to the server; to ask for heads only, as ab's -i does, is --head",
    ),
    (
        "load",
        "--source",
        "-S ADDRESSES are those to come from; nothing is estimated that ab's -S could leave out",
    ),
    (
        "load",
        "--duration",
        "-d TIME is how long it lasts, such as 10s; -q prints less, which ab's -d is for",
    ),
];

/// A command, and what to say to an argument too many.
const EXCESS: &[(&str, &str)] = &[
    (
        "load",
        "one URL is asked: further paths are --path PATH*WEIGHT, and requests a second -R RATE",
    ),
    (
        "serve",
        "one directory is served: outboard serve DIR -p PORT",
    ),
];

/// What to say to an option that a command has not, if it is known from elsewhere, or that it has with
/// another meaning. `command` is what was called.
pub fn instead(command: &str, error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg)?;
    let option = argument.split(['=', ' ']).next().unwrap_or(argument);
    match error.kind() {
        ErrorKind::UnknownArgument if option.starts_with('-') => {
            let of_load = load::HABITS.iter().filter(|_| command == "load");
            let of_load = of_load.map(|(options, instead)| (*options, *instead));
            let others = others::HABITS.iter().filter(|(of, ..)| *of == command);
            let others = others.map(|(_, options, instead)| (*options, *instead));
            let (_, instead) = of_load
                .chain(others)
                .find(|(options, _)| options.contains(&option))?;
            Some(format!("{command} has no {option}: {instead}"))
        }
        ErrorKind::UnknownArgument => {
            let (_, instead) = EXCESS.iter().find(|(of, _)| *of == command)?;
            Some(format!("{argument} is one too many: {instead}"))
        }
        // No value at all.
        ErrorKind::InvalidValue if context(ContextKind::InvalidValue) == Some("") => {
            let mut switches = SWITCHES.iter();
            let (.., instead) = switches.find(|(of, name, _)| *of == command && *name == option)?;
            Some(instead.to_string())
        }
        _ => None,
    }
}
