"""Serves the files of the directory SITE, by ASGI."""

import os


async def application(scope, receive, send):
    assert scope["type"] == "http"
    name = os.path.basename(scope["path"])
    with open(os.path.join(os.environ["SITE"], name), "rb") as file:
        body = file.read()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
