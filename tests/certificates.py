"""Certificates that tests make for servers on this machine."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM, not encrypted."""
        return self._written(serialization.NoEncryption())

    def encrypted_key_pem(self, password: str) -> bytes:
        """Return the private key in PEM, encrypted."""
        return self._written(serialization.BestAvailableEncryption(password.encode()))

    def _written(self, encryption: serialization.KeySerializationEncryption) -> bytes:
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def make_certificate(name: str, issuer: Certificate | None = None, *, expired: bool = False) -> Certificate:
    """
    Make a certificate for the address 127.0.0.1, and for no host name.

    :param issuer: the authority that signs it; None for a certificate that signs itself and may sign others.
    :param expired: whether its two days ended yesterday, instead of tomorrow.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    end = dt.datetime.now(dt.timezone.utc) + (-_DAY if expired else _DAY)
    signer = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - 2 * _DAY)
        .not_valid_after(end)
    )
    # Python 3.13 refuses certificates without key identifiers, and authorities without a key usage.
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (_usage(signs_others=issuer is None), True),
        (x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False),
        (x509.BasicConstraints(ca=issuer is None, path_length=None), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return Certificate(builder.sign(signer, hashes.SHA256()), key)


def _usage(*, signs_others: bool) -> x509.KeyUsage:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    none = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=signs_others, **none)
