"""Reads the beginning of a stream, forks a child that only closes its copy, and reads on."""
import hashlib, os, socket, time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(16)
while True:
    conn, _ = listener.accept()
    got = b""
    while len(got) < 20000:
        got += conn.recv(20000 - len(got))
    child = os.fork()
    if child == 0:
        conn.close()
        listener.close()
        time.sleep(0.2)
        os._exit(0)
    conn.sendall(b"go")
    while True:
        data = conn.recv(65536)
        if not data:
            break
        got += data
    os.waitpid(child, 0)
    conn.sendall(hashlib.sha256(got).hexdigest().encode())
    conn.close()
