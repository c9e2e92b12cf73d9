//! The shared memory between a host process and the engine: regions, rings, descriptors, doorbells
