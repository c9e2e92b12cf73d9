"""An echo server by asyncio."""

import asyncio, sys
async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, '0.0.0.0', int(sys.argv[1]), backlog=512)
    await server.serve_forever()
asyncio.run(main())
