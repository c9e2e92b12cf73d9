"""Accepts two connections, stops its engine, and forks: each process goes on with one of them."""
import os, signal, socket, sys, time

address, engine = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
listener = socket.create_server(address)
print("listens", flush=True)
first, _ = listener.accept()
second, _ = listener.accept()
for conn in (first, second):
    assert conn.recv(100) == b"hello"

os.kill(engine, signal.SIGSTOP)
began = time.monotonic()
child = os.fork()
if child == 0:
    # Before the engine has heard of it.
    second.close()
    first.sendall(b"from the child")
    assert first.recv(100) == b"and on"
    first.sendall(b"good bye")
    os._exit(0)
# One that touches nothing, and one that has it all and ends.
for _ in range(2):
    other = os.fork()
    if other == 0:
        os._exit(0)
    os.waitpid(other, 0)
took = time.monotonic() - began
first.close()
time.sleep(0.2)
os.kill(engine, signal.SIGCONT)
assert took < 5, took
second.sendall(b"from the parent")
second.close()
third, _ = listener.accept()
third.sendall(b"as before")
assert third.recv(100) == b""
_, status = os.waitpid(child, 0)
assert status == 0, status
print("done", flush=True)
