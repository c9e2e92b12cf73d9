//! The stateless responder as the other end.

use stateless::client::Verify;
use stateless::responder::Responder;
use stateless::responder::settings::Settings;
use stateless::responder::tables::Tables;

use super::Peer;

/// A responder, and the answers that it has made.
pub struct Stateless {
    responder: Responder,
    answers: Vec<Vec<u8>>,
}

impl Stateless {
    pub fn new() -> Self {
        let settings = Settings::new([7; 16], vec![80..=80]);
        let tables = Tables::new([]);
        Self {
            responder: Responder::new(settings, tables),
            answers: Vec::new(),
        }
    }
}

impl Peer for Stateless {
    fn receive(&mut self, _now_ns: u64, frame: &[u8]) {
        let answers = &mut self.answers;
        self.responder
            .respond(frame, |answer| answers.push(answer.to_vec()));
    }

    fn turn(&mut self, _now_ns: u64) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.answers)
    }

    fn next_timeout(&mut self) -> Option<u64> {
        None
    }

    fn verify(_paths: &[String]) -> Verify {
        Verify::Same
    }
}
