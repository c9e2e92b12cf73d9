//! How the library is linked.

fn main() {
    // Once loaded it stays. The standard library inside it leaves a destructor with every thread
    // that has called it, and such a thread may end after the runner's dlclose.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
