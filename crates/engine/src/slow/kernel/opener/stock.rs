//! Keeps the stock of sockets for receive queues that may come.

use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use netdev::xdp::Stock;

use super::client::Opener;
use crate::all_or_none::AbortOnPanic;

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
                fill(&stock, &opener);
            }
        })
        .map(drop)
}

fn fill(stock: &Weak<Stock>, opener: &Opener) {
    while let Some(stock) = stock.upgrade().filter(|stock| stock.lacks()) {
        match opener.socket() {
            Ok(socket) => stock.add(socket),
            Err(error) => {
                tracing::warn!(%error, "there is no new socket for receive queues that may come");
                return;
            }
        }
    }
}
