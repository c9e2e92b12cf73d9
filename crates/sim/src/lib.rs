//! Virtual time, links with faults, and worlds of TCP stacks
