"""Accepts a connection, stops its engine, does all that asks an engine something, and lets it go on."""
import os, signal, socket, sys, time

address, engine = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
listener = socket.create_server(address)
print("listens", flush=True)
conn, _ = listener.accept()
assert conn.recv(100) == b"hello"

os.kill(engine, signal.SIGSTOP)
began = time.monotonic()
for _ in range(3):
    conn.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
# What the kernel can do instead, it does.
other = socket.create_server((address[0], 0))
for _ in range(3):
    client = socket.create_connection(other.getsockname())
    server, _ = other.accept()
    client.sendall(b"by the kernel")
    assert server.recv(100) == b"by the kernel"
    client.close()
    server.close()
other.close()
# Ten seconds each is what a connection is worth, and nothing of this hangs on one.
assert time.monotonic() - began < 8, time.monotonic() - began
os.kill(engine, signal.SIGCONT)

conn.sendall(b"still here")
assert conn.recv(100) == b"and I"
# And its listener is the engine's still.
second, _ = listener.accept()
second.sendall(b"as before")
assert second.recv(100) == b""
print("done", flush=True)
