//! What a stranger writes into the shared memory: orders about anything, with any value.

use queue_pair::{ConnectBlock, FastOpen, OptionKind, Submission};

use super::questions::Known;
use super::script::Script;

/// The next submission.
pub fn submission(known: &Known, script: &mut Script<'_>) -> Submission {
    let conn = known.conn(script);
    match script.below(24) {
        0 | 1 => Submission::Send {
            conn,
            addr: script.number(),
            len: script.number() as u32,
            more: script.bit(),
            consumed: script.number(),
        },
        2 => Submission::SendAt {
            conn,
            addr: script.number(),
            len: script.number() as u32,
            more: script.bit(),
            at: script.number(),
        },
        3 => Submission::Consumed {
            conn,
            total: script.number(),
        },
        4 => Submission::Shutdown {
            conn,
            at: script.number(),
        },
        5 => Submission::ShutdownRead { conn },
        6 => Submission::Close {
            conn,
            abort: script.bit(),
            at: script.number(),
        },
        7 => Submission::Acquire { conn },
        8 => Submission::SetOption {
            conn,
            option: script.one_of(&OptionKind::ALL[..]).expect("options"),
            value: script.number(),
        },
        9 => Submission::NameListenersBell {
            listener: known.listener(script),
            bell: script.bit().then(|| script.number() as u8 % 64),
        },
        10..=11 => Submission::Credit {
            listener: known.listener(script),
            total: script.number() as u32,
            waits: script.bit(),
        },
        12 => Submission::GiveBack { conn },
        13 => Submission::Post {
            conn,
            addr: script.number(),
            len: script.number() as u32,
            from: script.number(),
        },
        14..=16 => Submission::SendFile {
            conn,
            file: file(script),
            offset: script.number(),
            len: script.number() as u32,
            more: script.bit(),
            at: if script.bit() { 0 } else { script.number() },
        },
        17 => Submission::ForgetFile { file: file(script) },
        18 => Submission::LetSynGo { conn },
        19 => Submission::TakeError { conn },
        20 => Submission::NonBlocking {
            conn,
            on: script.bit(),
        },
        21 => Submission::Cancel {
            token: script.below(4) as u64,
        },
        22 => Submission::AskLocal {
            token: script.below(4) as u64,
        },
        _ => Submission::Connect {
            token: script.below(4) as u64,
            addr: script.number(),
        },
    }
}

/// One of the first names that a file can get, mostly.
fn file(script: &mut Script<'_>) -> u16 {
    match script.below(8) {
        0 => script.number() as u16,
        _ => script.below(3) as u16,
    }
}

/// What it points to when it opens a connection: to the peer's port 7, or to what the script says.
pub fn block(script: &mut Script<'_>) -> Vec<u8> {
    if script.bit() {
        let peer = std::net::SocketAddr::new(crate::world::PEER, 7);
        let mut block = ConnectBlock::new(peer);
        let all = [FastOpen::No, FastOpen::Hold, FastOpen::Ask];
        block.fast_open = script.one_of(&all).unwrap_or_default();
        return block.encode().to_vec();
    }
    let count = script.below(64);
    script.take(count).to_vec()
}
