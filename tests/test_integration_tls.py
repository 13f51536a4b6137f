"""
A connection over TLS, which has no halves and wraps its transport.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from transport_fakes import RecordingFactory, RecordingReceiver
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ClientEndpoint, serverFromString, wrapClientTLS
from twisted.internet.ssl import Certificate, optionsForClientTLS

from acp_twisted.limits import Limits, MiB
from acp_twisted.transports.stream import ServerFactory, connect


def write_certificate(directory: Path) -> tuple[Path, Path]:
    """
    A certificate for "localhost" that vouches for itself.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_file, certificate_file = directory / "key.pem", directory / "certificate.pem"
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return key_file, certificate_file


# Twisted still hands pyOpenSSL its own certificate objects.
@pytest.mark.filterwarnings("ignore:.*X509:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*PKey:DeprecationWarning")
@pytest_twisted.ensureDeferred
async def test_tls(tmp_path: Path) -> None:
    """
    Messages of all sizes go both ways over TLS, a paused peer holds the output back, and what was sent before a close
    arrives.
    """
    from twisted.internet import reactor

    any_reactor: Any = reactor
    key, certificate = write_certificate(tmp_path)
    limits = Limits(exit_grace=300.0)
    receivers = RecordingFactory(limits)
    factory = ServerFactory(receivers, any_reactor)
    server = serverFromString(any_reactor, f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={certificate}")
    port: Any = await server.listen(factory)
    trusted = Certificate.loadPEM(certificate.read_bytes())
    endpoint = wrapClientTLS(
        optionsForClientTLS("localhost", trusted), TCP4ClientEndpoint(any_reactor, "127.0.0.1", port.getHost().port)
    )
    got: Deferred[None] = Deferred()

    def on_message(message: bytes) -> None:
        if message == b"last":
            got.callback(None)

    client = RecordingReceiver(on_message)
    connection = await connect(endpoint, client, limits, any_reactor)
    connection.send(b"ask")
    while not receivers.receivers or not receivers.receivers[0].messages:
        await _turn(any_reactor)
    ours = receivers.receivers[0]
    connection.pauseProducing()
    ours.transport.send(b"x" * 8 * MiB)
    ours.transport.send(b"last")
    assert "writing paused" in ours.names
    ours.transport.close()
    for _ in range(20):
        await _turn(any_reactor)
    assert ours.transport.unsent > 0
    connection.resumeProducing()
    await got
    await client.gone
    await ours.gone
    assert client.messages == [b"x" * 8 * MiB, b"last"]
    assert str(ours.error) == "the connection was closed"
    await maybeDeferred(port.stopListening)


async def _turn(reactor: Any) -> None:
    """
    Let the reactor do something.
    """
    turn: Deferred[None] = Deferred()
    reactor.callLater(0.01, turn.callback, None)
    await turn
