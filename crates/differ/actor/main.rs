//! The interpreter of a program: makes the calls that the stage tells it to make, and says what
//! they returned.
//!
//! The calls go through libc, where an interposer sees them. What stage and actor say to each other
//! goes by system calls that are made directly (rustix), so the interposer is none the wiser; the
//! descriptors for that have numbers beyond those of the program.

mod address;
mod calls;
mod control;
mod errors;
mod setting;
mod slots;

use control::Control;
use differ::outcome::{Outcome, Reply};
use differ::program::{Actor, Call};
use differ::setting::Setting;
use std::collections::BTreeMap;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, started, rest @ ..] = &arguments[..]
        && started == calls::started::NAME
    {
        calls::started::write(rest);
    }
    let given: Setting = serde_json::from_str(&arguments[1]).expect("a setting");
    let path = given.control.clone();
    setting::SETTING.set(given).expect("set once");
    calls::process::catch_interrupts();
    let actor = match arguments.get(2..4) {
        // After an exec: who we are, and our names for what we hold.
        Some([actor, held]) => {
            let held: BTreeMap<u8, i32> = serde_json::from_str(held).expect("slots");
            slots::set_all(held);
            actor.parse().expect("an actor")
        }
        _ => {
            control::connect_all(&path);
            0
        }
    };
    serve(actor);
}

/// Obeys until the stage is gone.
fn serve(mut actor: Actor) {
    let mut control = Control::of(actor);
    control.reply(&Reply::Here(own_process(), own_thread()));
    while let Some((step, call)) = control.command() {
        let outcome = match call {
            Call::Fork { child } => match calls::process::fork() {
                Ok(true) => {
                    actor = child;
                    control = Control::of(actor);
                    control.reply(&Reply::Here(own_process(), own_thread()));
                    continue;
                }
                Ok(false) => Outcome::Value(1),
                Err(outcome) => outcome,
            },
            Call::Thread { new } => {
                std::thread::spawn(move || serve(new));
                Outcome::Value(0)
            }
            Call::Exec => calls::process::exec(actor),
            call => calls::make(step, &call),
        };
        control.reply(&Reply::Returned(outcome));
    }
}

fn own_process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn own_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
