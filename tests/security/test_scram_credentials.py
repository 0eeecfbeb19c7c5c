"""What is kept of a SCRAM password, against the examples of the RFCs."""

from __future__ import annotations

import base64
import hashlib

from kwire.security.scram_credentials import MECHANISMS, ScramCredential, ScramMechanism, make_credential

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCES = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def test_the_example_of_rfc_7677_is_verified_by_the_credential() -> None:
    credential = make_credential(ScramMechanism.SHA_256, "pencil", SALT, 4096)
    without_proof = f"c=biws,r={NONCES}"
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={NONCES},s={base64.b64encode(SALT).decode()},i=4096,{without_proof}"
    signature = ScramMechanism.SHA_256.hmac(credential.stored_key, message.encode())
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=True))
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    server_signature = ScramMechanism.SHA_256.hmac(credential.server_key, message.encode())
    assert base64.b64encode(server_signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_mechanisms_have_kafkas_codes_and_names() -> None:
    assert MECHANISMS == {"SCRAM-SHA-256": ScramMechanism.SHA_256, "SCRAM-SHA-512": ScramMechanism.SHA_512}
    assert [int(each) for each in ScramMechanism] == [1, 2]
    assert len(make_credential(ScramMechanism.SHA_512, "p", b"s", 4096).server_key) == 64


def test_a_password_is_its_utf_8_and_not_normalised() -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    made = [make_credential(ScramMechanism.SHA_256, text, b"salt", 4096) for text in (composed, decomposed)]
    assert made[0] != made[1]


def test_a_credential_does_not_show_its_keys() -> None:
    assert repr(ScramCredential(b"salt", b"stored", b"server", 4096)) == "ScramCredential(iterations=4096)"
