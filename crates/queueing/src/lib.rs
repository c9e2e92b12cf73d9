//! The queueing model of a server with and without an offload engine: formulas only
#![forbid(unsafe_code)]
