#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""How does a server close the connections that fall silent? Usage: [PORT [SECONDS]]"""
import asyncio
import sys

from twheel.aio import Timeouts


async def main(port: int = 7700, silence: float = 30) -> None:
    """Serves until it is ended. Each line from a client is a heartbeat."""
    timeouts = Timeouts()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        timer = timeouts.call_later(silence, writer.transport.abort)
        try:
            while line := await reader.readline():
                timer.restart()
                writer.write(line)
        except ConnectionError:
            pass
        finally:
            timer.cancel()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main(*map(int, sys.argv[1:2]), *map(float, sys.argv[2:3])))
