//! Keeps the stock of sockets for receive queues that may come.

use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

use netdev::xdp::Stock;

use super::client::Opener;
use crate::all_or_none::AbortOnPanic;

/// How long after a failure the next try is made.
const PAUSE: Duration = Duration::from_secs(60);

/// A thread that has the opener replace what is taken from `stock`, as long as that is used.
///
/// # Errors
/// There are no more threads.
pub fn restock(stock: &Arc<Stock>, taken: Receiver<()>, opener: Opener) -> io::Result<()> {
    let stock = Arc::downgrade(stock);
    let thread = std::thread::Builder::new().name("stock".to_owned());
    thread
        .spawn(move || {
            let _all_or_none = AbortOnPanic;
            while taken.recv().is_ok() {
                while !fill(&stock, &opener) {
                    std::thread::sleep(PAUSE);
                }
            }
        })
        .map(drop)
}

/// Whether nothing is to be tried again: all is there, or nobody will have it, or make it.
fn fill(stock: &Weak<Stock>, opener: &Opener) -> bool {
    while let Some(stock) = stock.upgrade().filter(|stock| stock.lacks()) {
        match opener.socket() {
            Ok(socket) => stock.add(socket),
            Err(error) => {
                tracing::warn!(%error, "there is no new socket for receive queues that may come");
                return !opener.is_there();
            }
        }
    }
    true
}
