"""Threads echo while another one forks children that look at every connection.

Answers 'fork' on a connection of its own with how many children ended and how many hung.
"""
import os, signal, socket, threading, time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(64)
conns = []


def echo(conn):
    while True:
        data = conn.recv(4096)
        if not data:
            return
        if data == b"fork":
            conn.sendall(b"%d %d" % fork_often())
        else:
            conn.sendall(data)


def fork_often():
    ended = hung = 0
    for _ in range(150):
        child = os.fork()
        if child == 0:
            for conn in conns:
                try:
                    conn.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                except OSError:
                    pass
                conn.close()
            os._exit(0)
        begin = time.time()
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.time() - begin > 20:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                hung += 1
                break
            time.sleep(0.0005)
        else:
            ended += 1
    return ended, hung


while True:
    conn, _ = listener.accept()
    conns.append(conn)
    threading.Thread(target=echo, args=(conn,), daemon=True).start()
