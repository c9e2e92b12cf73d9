//! The engine: workers, sessions, control socket, neighbours and routes
#![forbid(unsafe_code)]
