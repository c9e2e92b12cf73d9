//! Namespaces, workloads, samplers, experiments and reports
