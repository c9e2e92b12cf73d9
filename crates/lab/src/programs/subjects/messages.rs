//! Brokers of messages, and sockets for them.

use super::super::clients::Client;
use super::super::place::PORT;
use super::super::serving::Reload;
use super::super::subject::{Clients, Subject};
use crate::zeromq;
use rustix::process::Signal;

/// Published once and kept by the broker, then received by a subscriber that comes later.
const KEPT: Client = Client::of(
    "mosquitto_pub -h $HOST -p $PORT -q 1 -r -t lab/$ID -f $FILE
     mosquitto_sub -h $HOST -p $PORT -q 1 -t lab/$ID -C 1 -N",
);

/// One message there, the same back; the rate is that of round trips on one connection.
const REQUEST: Client = Client {
    exchange: "$DIR/zeromq bring tcp://$HOST:$PORT <$FILE",
    at_once: None,
    rate: Some(
        r#"$DIR/zeromq ask tcp://$HOST:$PORT 64 2 | sed -n 's/.*"trips": \([0-9]*\).*/\1/p'"#,
    ),
};

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "mosquitto",
        packages: "mosquitto mosquitto-clients",
        program: "mosquitto",
        also: &["mosquitto_pub", "mosquitto_sub"],
        command: |place| {
            let text =
                format!("listener {PORT} 0.0.0.0\nallow_anonymous true\npersistence false\n");
            let configuration = place.write("mosquitto.conf", &text)?;
            Ok(place.command(&format!("-c {configuration}")))
        },
        clients: Clients::Run(&KEPT),
        reload: Some(Reload::Signal(Signal::HUP)),
        ..Subject::WEB
    },
    Subject {
        name: "ZeroMQ, REP and REQ",
        packages: "gcc libc6-dev libzmq3-dev",
        program: "cc",
        also: &zeromq::NEEDS,
        command: |place| {
            let program = zeromq::compile(&place.directory)?;
            let endpoint = format!("tcp://0.0.0.0:{PORT}");
            Ok(vec![
                program.display().to_string(),
                "answer".into(),
                endpoint,
            ])
        },
        clients: Clients::Run(&REQUEST),
        ..Subject::WEB
    },
];
