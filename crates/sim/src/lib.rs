//! Virtual time, links with faults, and worlds of TCP stacks
#![forbid(unsafe_code)]
