//! What a program links with to use the engine: attach, sockets, readiness
#![forbid(unsafe_code)]
