#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""How twheelctl reaches twheeld: by names and TLS with libcurl, only by addresses if it is
static.

  reach_test.py TWHEELD [NAME...]

TWHEELCTL and TWHEELCTL_STATIC name the two programs.
"""
import os
import socket
import ssl
import subprocess
import threading

from limits import HANG
from rig import Daemon, Redis, dir_, equal, free_ports, run_all, test

CTL, STATIC = os.environ["TWHEELCTL"], os.environ["TWHEELCTL_STATIC"]
TOKEN = "a-token-0123456789"


def write(name, text):
    path = os.path.join(dir_, name)
    with open(path, "w") as f:
        f.write(text)
    return path


token = write("token", TOKEN + "\n")
port, tls_port = free_ports(2)
one = Daemon(Redis(), f"--token-file={token}", listen=f"127.0.0.1:{port}")
equal(one.client().call("PUT", "/v1/queues/reached", {})[0], 201)


def ctl(program, server, *options, command=("queue", "list"), env=None):
    """Return: status, output, error."""
    p = subprocess.run([program, *command, f"--server={server}", f"--token-file={token}",
                        *options], capture_output=True, text=True, timeout=HANG,
                       env={**os.environ, **(env or {})})
    return p.returncode, p.stdout, p.stderr


def reaches(program, server, *options):
    status, out, err = ctl(program, server, *options)
    assert status == 0 and "\nreached " in "\n" + out, (server, status, out, err)


def certificate(name, host):
    """Create a self-signed certificate. Return: its file."""
    path = os.path.join(dir_, name)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{host}", "-keyout", path + ".key",
                    "-out", path + ".crt"], check=True, capture_output=True)
    return path + ".crt"


CERT = certificate("server", "twheeld.localhost")


def forward(client):
    """Forward a request like a TLS proxy in front of the daemon."""
    with client, socket.create_connection(("127.0.0.1", port)) as to:
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(65536) or b"\r\n\r\n"
        # One answer for each connection, so that the end of the connection is its end.
        to.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        while data := to.recv(65536):
            client.sendall(data)


def terminate():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERT, CERT[:-4] + ".key")
    with socket.create_server(("127.0.0.1", tls_port)) as server:
        while True:
            client, _ = server.accept()
            try:
                forward(context.wrap_socket(client, server_side=True))
            except OSError:
                client.close()


threading.Thread(target=terminate, daemon=True).start()


@test("both programs reach an address and a Unix socket")
def addresses():
    for program in (CTL, STATIC):
        for server in (f"127.0.0.1:{port}", f"http://127.0.0.1:{port}/", f"localhost:{port}",
                       f"unix:{one.path}"):
            reaches(program, server)
        status, _, err = ctl(program, "127.0.0.1:1")
        equal((status, err), (
            3, "twheelctl: twheeld at 127.0.0.1:1: Connection refused\n"), program)
        status, _, err = ctl(program, "unix:/nowhere")
        equal((status, err), (
            3, "twheelctl: twheeld at unix:/nowhere: No such file or directory\n"), program)


@test("with libcurl twheelctl reaches a name, over HTTP and over TLS with --cacert")
def names():
    reaches(CTL, f"twheeld.localhost:{port}")
    reaches(CTL, f"http://twheeld.localhost:{port}")
    reaches(CTL, f"https://twheeld.localhost:{tls_port}", f"--cacert={CERT}")
    status, _, err = ctl(CTL, "none.invalid:7733")
    equal(status, 3)
    assert "none.invalid" in err.split(": ", 2)[2], err


@test("a certificate that nobody has signed, or one for another name, is refused with the reason")
def certificates():
    other = certificate("other", "other.localhost")
    for server, options in ((f"https://twheeld.localhost:{tls_port}", ()),
                            (f"https://twheeld.localhost:{tls_port}", (f"--cacert={other}",)),
                            (f"https://localhost:{tls_port}", (f"--cacert={CERT}",))):
        status, _, err = ctl(CTL, server, *options)
        equal(status, 3, err)
        assert "SSL" in err, err
        assert TOKEN not in err


@test("an invalid server is refused before anything is sent: exit status 2")
def refused():
    for program in (CTL, STATIC):
        for server in ("nothing", "http://", "unix:" + "x" * 200, f"127.0.0.1:{port}/path",
                       f"http://127.0.0.1:{port}/path", f"http://127.0.0.1:{port}?path",
                       "ftp://h:1"):
            status, _, err = ctl(program, server)
            equal(status, 2, f"{server}: {err}")
            assert f'"{server}"' in err, err


@test("a static program explains in one sentence why it supports neither names nor TLS")
def static():
    for server, options, begin in (
            (f"twheeld.localhost:{port}", (), f'"twheeld.localhost:{port}"'),
            (f"https://127.0.0.1:{tls_port}", (), f'"https://127.0.0.1:{tls_port}"'),
            (f"127.0.0.1:{port}", (f"--cacert={CERT}",), "--cacert")):
        status, out, err = ctl(STATIC, server, *options)
        equal((status, out), (2, ""))
        assert err.startswith(f"twheelctl: {begin}: this twheelctl is static, "), err
        assert "TLS" in err and err.count("\n") == 1, err


if __name__ == "__main__":
    run_all()
