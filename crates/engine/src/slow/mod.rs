//! The slow half of the engine: what is rare, and may take its time. It talks to people, to programs
//! that attach, and to the kernel.
//!
//! | module | what |
//! | --- | --- |
//! | [`control`] | the control socket, and everything else that is rare and polled |
//! | [`kernel`] | what is asked of the kernel and told to it |

pub mod control;
pub mod kernel;
