//! Packet I/O: AF_XDP, AF_PACKET, a simulated device, and the steering program
