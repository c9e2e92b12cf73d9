//! An echo server on tokio, as its documentation has it: `tokio_echo ADDRESS:PORT [THREADS]`.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().expect("tokio_echo ADDRESS:PORT [THREADS]");
    let threads = arguments
        .next()
        .map_or(2, |threads| threads.parse().expect("a number of threads"));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_io()
        .build()?
        .block_on(serve(&address))
}

async fn serve(address: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut bytes = vec![0; 16 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                if stream.write_all(&bytes[..read]).await.is_err() {
                    return;
                }
            }
        });
    }
}
