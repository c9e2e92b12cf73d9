//! The interposed socket calls that let an unmodified program run on the engine
