//! Namespaces, workloads, samplers, experiments and reports
#![forbid(unsafe_code)]
