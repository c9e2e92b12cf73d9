"""Serves the files of the directory SITE, by WSGI."""

import os


def application(environ, start_response):
    name = os.path.basename(environ["PATH_INFO"])
    with open(os.path.join(os.environ["SITE"], name), "rb") as file:
        body = file.read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
