//! The slow half of the engine: what is rare, and may take its time. It talks to people, to programs
//! that attach, and to the kernel.
//!
//! | module | what |
//! | --- | --- |
//! | [`control`] | the control socket and its connections |
//! | [`desk`] | what is asked there, and answered |
//! | [`errands`] | what a program can hold up, done by threads that nobody waits for |
//! | [`kernel`] | what is asked of the kernel and told to it |

pub mod control;
pub mod desk;
pub mod errands;
pub mod kernel;
