"""Opens a connection, stops its engine, opens another one meanwhile, and talks on both when the engine goes on."""
import os, signal, socket, sys, threading, time

peer, engine = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
first = socket.create_connection(peer, timeout=60)
first.sendall(b"hello")
assert first.recv(100) == b"hello"

os.kill(engine, signal.SIGSTOP)
opened = []
opens = threading.Thread(target=lambda: opened.append(socket.create_connection(peer, timeout=60)))
opens.start()
first.sendall(b"meanwhile")
time.sleep(1)
os.kill(engine, signal.SIGCONT)

opens.join(60)
assert opened, "it is opened by whoever can"
assert first.recv(100) == b"meanwhile"
for conn in [first, opened[0]]:
    conn.sendall(b"and on")
    assert conn.recv(100) == b"and on"
    conn.close()
print("done", flush=True)
