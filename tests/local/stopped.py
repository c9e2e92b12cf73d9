"""Connects to itself as often as the file says, or speaks on a connection from the beginning."""
import os, socket, sys, time

address, file = ("127.0.0.1", 5005), sys.argv[1]
listener = socket.create_server(address)


def both():
    client = socket.create_connection(address)
    server, _ = listener.accept()
    return client, server


def speak(client, server):
    client.sendall(b"hello")
    assert server.recv(100) == b"hello"


def asked():
    while True:
        try:
            with open(file) as words:
                if words := words.read():
                    os.unlink(file)
                    return words
        except FileNotFoundError:
            pass
        time.sleep(0.01)


kept = both()
while True:
    if (times := int(asked())) == 0:
        speak(*kept)
    for _ in range(times):
        ends = both()
        speak(*ends)
        for end in ends:
            end.close()
    print("done", flush=True)
