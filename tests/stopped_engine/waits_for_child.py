"""Accepts a connection, stops its engine, forks, and does nothing but wait for the child, which has the connection."""
import os, signal, socket, subprocess, sys

address, engine = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
listener = socket.create_server(address)
print("listens", flush=True)
conn, _ = listener.accept()
assert conn.recv(100) == b"hello"

goes_on = subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {engine}"])
os.kill(engine, signal.SIGSTOP)
child = os.fork()
if child == 0:
    conn.sendall(b"from the child")
    assert conn.recv(100) == b"and on"
    conn.sendall(b"good bye")
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
goes_on.wait()
conn.close()
print("done", flush=True)
