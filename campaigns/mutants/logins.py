"""Mutants of logins: who logs in as whom. Hostile logins must notice them (`campaigns.logins`)."""

from __future__ import annotations

import hmac
import re
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from campaigns import logins
from campaigns.mutants.mutant import Mutant
from kwire.security.oauth import signed
from kwire.security.oauth.tokens import BearerToken, base64url_decoded
from kwire.security.principals import Principal
from kwire.security.sasl import plain, scram
from kwire.security.sasl.oauthbearer import InitialResponse, ServerOAuthBearer
from kwire.security.sasl.plain import ServerPlain
from kwire.server.authentication.login import Login
from kwire.server.oauth import keys

_ANYTHING_IS_EQUAL = SimpleNamespace(digest=hmac.digest, compare_digest=lambda *_: True)


def _any_password() -> Any:
    return patch.object(plain, "hmac", _ANYTHING_IS_EQUAL)


def _any_proof() -> Any:
    return patch.object(scram, "hmac", _ANYTHING_IS_EQUAL)


def _any_identity() -> Any:
    respond = ServerPlain.respond

    def act_as(self: ServerPlain, token: bytes) -> bytes:
        identity, _, rest = token.partition(b"\0")
        answer = respond(self, b"\0" + rest)
        self.principal = Principal("User", identity.decode()) if identity else self.principal
        return answer

    return patch.object(ServerPlain, "respond", act_as)


def _another_principal() -> Any:
    finish = Login._finish

    def forget(self: Login) -> int:
        self._previous = None
        return finish(self)

    return patch.object(Login, "_finish", forget)


def _another_mechanism() -> Any:
    handshake = Login._handshake

    def agree(self: Login, request: Any) -> Any:
        if self._previous is not None:
            self._previous = self._previous._replace(mechanism=request.body.mechanism)
        return handshake(self, request)

    return patch.object(Login, "_handshake", agree)


def _any_text() -> Any:
    def parsed(pattern: re.Pattern[str], message: bytes, name: str) -> Any:
        return pattern.fullmatch(message.decode())

    return patch.object(scram, "_parsed", parsed)


def _any_signature() -> Any:
    def payload(token: str, *_: object) -> bytes:
        return base64url_decoded(token.split(".")[1])

    return patch.object(signed, "verified_payload", payload)


def _any_time() -> Any:
    return patch.object(signed, "_in_time", lambda *_: 2_000_000)


def _any_issuer() -> Any:
    original = signed.accepted
    return patch.object(
        signed, "accepted", lambda claims, rules, now_ms: original(claims, rules._replace(issuer=None), now_ms)
    )


def _any_audience() -> Any:
    return patch.object(signed, "_check_audience", lambda *_: None)


def _any_token_identity() -> Any:
    original = ServerOAuthBearer._accepted

    def act_as(self: ServerOAuthBearer, first: InitialResponse, token: BearerToken) -> bytes:
        name = first.identity or token.subject
        return original(self, first, token._replace(subject=name))

    return patch.object(ServerOAuthBearer, "_accepted", act_as)


def _many_fetches() -> Any:
    return patch.object(keys, "UNKNOWN_KEY_PAUSE_S", 0.0)


MUTANTS: dict[str, Mutant] = {
    "any-password": Mutant("the comparison of passwords", _any_password, logins.run_seeds, 10),
    "any-proof": Mutant("the comparison of proofs", _any_proof, logins.run_seeds, 10),
    "any-identity": Mutant("no login on behalf of another", _any_identity, logins.run_seeds, 10),
    "another-principal": Mutant("the same principal in a reauthentication", _another_principal, logins.run_seeds, 10),
    "another-mechanism": Mutant("the same mechanism in a reauthentication", _another_mechanism, logins.run_seeds, 10),
    "any-signature": Mutant("the signatures of OAuth tokens", _any_signature, logins.run_seeds, 10),
    "any-time": Mutant("the time in which an OAuth token is valid", _any_time, logins.run_seeds, 10),
    "any-issuer": Mutant("the issuer of OAuth tokens", _any_issuer, logins.run_seeds, 10),
    "any-audience": Mutant("the audience of OAuth tokens", _any_audience, logins.run_seeds, 10),
    "any-token-identity": Mutant("an OAuth token is for its subject only", _any_token_identity, logins.run_seeds, 10),
    "many-fetches": Mutant("few fetches for unknown keys of tokens", _many_fetches, logins.run_seeds, 10),
    "any-text": Mutant("malformed messages are refused", _any_text, logins.run_seeds, 10),
}
