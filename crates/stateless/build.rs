//! Compiles the BPF programs of this crate.

fn main() {
    bpf_build::compile(&["responder", "witness"]);
}
