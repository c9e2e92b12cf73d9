"""An echo server that forks for each connection."""

import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 512
    max_children = 400
Server(('0.0.0.0', int(sys.argv[1])), Echo).serve_forever()
