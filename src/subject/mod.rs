//! `outboard subject`: the programs that `outboard lab run tcp-servers` measures, the same over sockets and
//! over each way of the native interface, and what else experiments need. Not shown: the lab starts them.

mod channel;
mod course;
mod echo;
mod fast_cgi;
mod hold;
mod median;
mod random;
mod send;
mod sender;
mod sink;
mod store;
mod stream;
mod switch;
mod used;
mod web;

use anyhow::Result;
use std::process::ExitCode;

/// Send, receive or echo in one way, and print what it cost
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(clap::Subcommand)]
enum Subject {
    Send(send::Args),
    Stream(stream::Args),
    Echo(echo::Args),
    Channel(channel::Args),
    FastCgi(fast_cgi::Args),
    Course(course::Args),
    Hold(hold::Args),
    Sink(sink::Args),
    Store(store::Args),
    Switch(switch::Args),
    Web(web::Args),
}

/// Runs it, and prints a line of JSON if it ends by itself.
pub fn run(args: &Args) -> Result<ExitCode> {
    let found = match &args.subject {
        Subject::Send(args) => send::run(args)?,
        Subject::Stream(args) => stream::run(args)?,
        Subject::Channel(args) => channel::run(args)?,
        Subject::Course(args) => course::run(args)?,
        Subject::Sink(args) => sink::run(args)?,
        Subject::Switch(args) => match switch::run(args)? {
            Some(found) => found,
            None => return Ok(ExitCode::SUCCESS),
        },
        Subject::FastCgi(args) => {
            fast_cgi::run(args)?;
            return Ok(ExitCode::SUCCESS);
        }
        Subject::Store(args) => {
            store::run(args)?;
            return Ok(ExitCode::SUCCESS);
        }
        Subject::Hold(args) => {
            hold::run(args)?;
            return Ok(ExitCode::SUCCESS);
        }
        Subject::Web(args) => {
            web::run(args)?;
            return Ok(ExitCode::SUCCESS);
        }
        Subject::Echo(args) => {
            echo::run(args)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    println!("{found}");
    Ok(ExitCode::SUCCESS)
}
