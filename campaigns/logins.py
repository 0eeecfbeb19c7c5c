"""Hostile logins: streams of frames that somebody sends who knows bob's password, but not alice's.

    .venv/bin/python -m campaigns.logins --count 10000 --seed 1 --jobs 2

A seed is 1,000 streams. Each is a login as a client does it (PLAIN, SCRAM or OAUTHBEARER, tokens as frames or in
requests, alone or after alice has logged in), of bob, of alice with a wrong password or a forged OAuth token
(`harness.hostile_tokens`), with what was overheard of alice's own login, or on behalf of another. Most are damaged:
bytes changed, cut and added, frames left out, repeated and exchanged. Whatever comes, the broker's side must hold these
rules:

- it replies, or the frame is invalid, which closes the connection; nothing else is raised;
- nobody is alice, and bob is nobody but bob; who logs in again stays who he is, with the same mechanism;
- an undamaged login of bob succeeds;
- a response is at most a few times as long as its request, apart from ApiVersions;
- a frame takes at most half a second of CPU;
- tokens with unknown keys have the issuer's keys fetched once in ten seconds.
"""

from __future__ import annotations

import asyncio
import random
import struct
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final

from campaigns.seeds import Found, main, run_all
from harness.hostile_tokens import AUDIENCE, ISSUER, Tokens, made, unknown_key
from harness.oauth_issuer import jwk, jwks
from harness.processor.cpu_time import CpuTime
from harness.services import services_with
from kwire.base.doors import Clock
from kwire.base.futures import is_later
from kwire.cluster.metadata.image import ClusterImage
from kwire.codec.message import Message
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.protocol import ApiKey, decode, response_header_version
from kwire.handlers.registry import Registry
from kwire.net.connection import InvalidFrame
from kwire.security.oauth.keys import KeySet
from kwire.security.oauth.settings import KeysSettings
from kwire.security.oauth.signed import SignedTokens, TokenRules
from kwire.security.principals import Principal
from kwire.security.sasl.oauthbearer import ServerOAuthBearer
from kwire.security.sasl.plain import ServerPlain
from kwire.security.sasl.scram import ScramLookup, ServerScram
from kwire.security.scram_credentials import ScramMechanism, credential_of
from kwire.server.authentication.login import Login, LoginRules, Reply, Session, Step
from kwire.server.authentication.settings import LoginSettings, Mechanism
from kwire.server.oauth.keys import IssuerKeys
from kwire.testing.frames import request_frame

STREAMS: Final = 1000
TIME_MAX_S: Final = 0.5
RESPONSE_MAX_BYTES: Final = 4096
RESPONSE_FACTOR: Final = 8
PASSWORDS: Final = {"alice": "alice-secret", "bob": "bob-secret"}
PLAIN, SCRAM, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, SCRAM, OAUTHBEARER)
HASH: Final = ScramMechanism.SHA_256
SALT: Final = b"salt"
SALTED: Final = {name: HASH.salted_password(password, SALT, 4096) for name, password in PASSWORDS.items()}
CREDENTIALS: Final = {name: credential_of(HASH, salted, SALT, 4096) for name, salted in SALTED.items()}
ALICE, BOB = (Principal("User", name) for name in PASSWORDS)
REGISTRY: Final = Registry()
CLOCK: Final = Clock(lambda: 1_000_000, lambda: 1000.0, lambda: 1000.0)
SERVICES: Final = services_with(advertised_apis=REGISTRY.advertised(), supported_features={}, image_source=ClusterImage)

Frame = bytes | Callable[[bytes], bytes]
"""A frame without its size, or what makes it from the frame received last."""


class BrokenRule(Exception):
    """The broker's side did what it must not do."""


@cache
def tokens() -> Tokens:
    """OAuth tokens, made once in a process."""
    return made(CLOCK.time_ms() // 1000)


class Broker:
    """The logins of a listener, with randomness of a seed. ``fetches``: how often the issuer's keys were fetched."""

    def __init__(self, seed: int) -> None:
        numbers = random.Random(-seed).randbytes
        self.fetches = 0
        keys = jwks(jwk("RSA"), jwk("P-256"))

        async def fetch() -> bytes:
            self.fetches += 1
            return keys

        source = IssuerKeys(KeySet.parse(keys), fetch, KeysSettings("http://issuer"), CLOCK)
        check = SignedTokens(TokenRules(ISSUER, (AUDIENCE,)), source, CLOCK.time_ms)
        mechanisms = {
            PLAIN: Mechanism(lambda: ServerPlain(PASSWORDS), 10_000),
            SCRAM: Mechanism(lambda: ServerScram(HASH, ScramLookup(CREDENTIALS.get, b"secret"), numbers), 10_000),
            OAUTHBEARER: Mechanism(lambda: ServerOAuthBearer(check), 10_000),
        }
        self._rules = LoginRules(LoginSettings(mechanisms, "SASL_PLAINTEXT"), SERVICES, REGISTRY, CLOCK)
        self.overheard = [self._overhear(number) for number in range(3)]
        """First and last message of alice's own logins."""

    def login(self, previous: Session | None = None) -> Login:
        """The next connection."""
        return Login(self._rules, previous)

    def _overhear(self, number: int) -> tuple[bytes, bytes]:
        login = self.login()
        first = f"n=alice,r=overheard{number}"
        login.receive(memoryview(handshake(SCRAM, 0)))
        reply = login.receive(memoryview(b"n,," + first.encode()))
        assert isinstance(reply, Reply)
        assert reply.frame is not None
        last = client_final("alice", SALTED["alice"], first, reply.frame[4:].decode())
        done = login.receive(memoryview(last))
        assert isinstance(done, Reply)
        assert done.step is Step.COMPLETE
        return b"n,," + first.encode(), last


# -- what clients send ------------------------------------------------------------------------------------------------


def frame(request: Message, version: int) -> bytes:
    """A request without its size."""
    return request_frame(request, version, 7, "client")[4:]


def handshake(mechanism: str, version: int) -> bytes:
    """The choice of a mechanism."""
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def client_final(name: str, salted: bytes, first: str, server_first: str) -> bytes:
    """The last message of SCRAM, with the proof of a salted password."""
    credential = credential_of(HASH, salted, SALT, 4096)
    bare = f"c=biws,r={server_first.split(',', 1)[0][2:]}"
    signature = HASH.hmac(credential.stored_key, f"{first},{server_first},{bare}".encode())
    key = HASH.hmac(salted, b"Client Key")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{bare},p={b64encode(proof).decode()}".encode()


class Script:
    """One login before it is damaged."""

    def __init__(self, chance: random.Random, broker: Broker) -> None:
        self._chance = chance
        self._broker = broker
        self._wrapped = chance.randrange(4)  # 0: tokens are frames; else the version of SaslAuthenticate, plus 1
        self.succeeds = False
        self.mechanism = chance.choice(MECHANISMS)
        self.frames: list[Frame] = []
        if chance.random() < 0.5:
            software = ApiVersionsRequest(client_software_name="c", client_software_version="1")
            self.frames.append(frame(software, chance.choice((0, 3, 4))))
        self.frames.append(handshake(self.mechanism, min(self._wrapped, 1)))
        self.frames += {PLAIN: self._plain, SCRAM: self._scram, OAUTHBEARER: self._oauthbearer}[self.mechanism]()

    def _token(self, token: bytes) -> bytes:
        if not self._wrapped:
            return token
        return frame(SaslAuthenticateRequest(auth_bytes=token), self._wrapped - 1)

    def _challenge(self, received: bytes) -> str:
        if self._wrapped:
            version = self._wrapped - 1
            start = 8 + response_header_version(ApiKey.SASL_AUTHENTICATE, version)
            received = decode(SaslAuthenticateResponse, version, received, start)[0].auth_bytes
        else:
            received = received[4:]
        return received.decode()

    def _plain(self) -> list[Frame]:
        tokens = [
            b"\0bob\0bob-secret",
            b"bob\0bob\0bob-secret",
            b"alice\0bob\0bob-secret",
            b"\0alice\0bob-secret",
            b"alice\0alice\0",
            b"\0alice\0alice",
        ]
        chosen = self._chance.randrange(len(tokens))
        self.succeeds = chosen < 2
        return [self._token(tokens[chosen])]

    def _scram(self) -> list[Frame]:
        kind = self._chance.randrange(5)
        if kind == 4:
            return [self._token(self._chance.choice(self._broker.overheard)[index]) for index in (0, 1)]
        self.succeeds = kind == 0
        name, salted, header = [
            ("bob", SALTED["bob"], "n,,"),
            ("alice", SALTED["bob"], "n,,"),
            ("bob", SALTED["bob"], "n,a=alice,"),
            ("bob,n=alice", SALTED["bob"], "n,,"),
        ][kind]
        first = f"n={name},r=nonce{self._chance.randrange(100)}"

        def last(received: bytes) -> bytes:
            return self._token(client_final(name, salted, first, self._challenge(received)))

        return [self._token(f"{header}{first}".encode()), last]

    def _oauthbearer(self) -> list[Frame]:
        chance, found = self._chance, tokens()
        self.succeeds = chance.random() < 0.3
        identity = "a=bob" if chance.random() < 0.2 else ""
        if self.succeeds:
            token = chance.choice(found.good)
        elif chance.random() < 0.2:
            token, identity = chance.choice(found.good), "a=alice"
        elif chance.random() < 0.3:
            token = unknown_key(found.good[0], chance)
        else:
            token = chance.choice(list(found.bad.values()))
        extension = "\x01traceId=1" if chance.random() < 0.1 else ""
        first = f"n,{identity},\x01auth=Bearer {token}{extension}\x01\x01".encode()
        return [self._token(first), *([] if self.succeeds else [self._token(b"\x01")])]

    def damage(self) -> None:
        """Change the order of the frames, or what is in them."""
        self.succeeds = False
        for _ in range(self._chance.randint(1, 3)):
            self._damage_order() if self._chance.random() < 0.2 else self._damage_frame()

    def _damage_order(self) -> None:
        chance, frames = self._chance, self.frames
        at = chance.randrange(len(frames))
        kind = chance.randrange(4)
        if kind == 0 and len(frames) > 1:
            del frames[at]
        elif kind == 1:
            frames.insert(at, frames[chance.randrange(len(frames))])
        elif kind == 2:
            frames.insert(
                at, frame(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), chance.choice((1, 9, 12)))
            )
        else:
            chance.shuffle(frames)

    def _damage_frame(self) -> None:
        at = self._chance.randrange(len(self.frames))
        what = self.frames[at]
        seed = self._chance.randrange(1 << 30)
        if isinstance(what, bytes):
            self.frames[at] = damaged(random.Random(seed), what)
        else:
            make = what
            self.frames[at] = lambda received: damaged(random.Random(seed), make(received))


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Bytes with one change."""
    changed = bytearray(data)
    at = chance.randrange(len(changed) + 1)
    kind = chance.randrange(5)
    if kind == 0 and at < len(changed):
        changed[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del changed[at : at + chance.randrange(1, 9)]
    elif kind == 2:
        changed[at:at] = chance.choice(
            (b"\0", b",", b"=", b"\xff", b"alice", b",r=x", b"n=alice,", b"\x7f\xff\xff\xff")
        )
    elif kind == 3:
        changed[at : at + 4] = chance.randbytes(4)
    else:
        changed[at:at] = chance.randbytes(chance.choice((1, 2, 60, 3000)))
    return bytes(changed)


# -- what the broker's side does --------------------------------------------------------------------------------------


async def run_stream(chance: random.Random, broker: Broker) -> str:
    """Send one stream. Returns how it ended; `BrokenRule`."""
    script = Script(chance, broker)
    before = None
    if chance.random() < 0.3:
        before = Session(chance.choice((ALICE, BOB)), chance.choice(MECHANISMS), False, 1010.0, True)
    if chance.random() < 0.8:
        script.damage()
    login = broker.login(before)
    end = await _converse(login, script.frames)
    session = login.session
    if session is not None and session.principal != BOB:
        raise BrokenRule(f"bob has become {session.principal}")
    if session is not None and before is not None and before[:2] != session[:2]:
        raise BrokenRule(f"{before.principal} with {before.mechanism} has become {session}")
    if script.succeeds and before is None and end != "complete":
        raise BrokenRule(f"bob's login ended so: {end}")
    return end


async def _converse(login: Login, frames: list[Frame]) -> str:
    received = b""
    for each in frames:
        try:
            sent = each if isinstance(each, bytes) else each(received)
        except Exception:  # a client that does not understand the broker's answer hangs up
            return "left"
        reply: Any = None
        with CpuTime() as spent, suppress(InvalidFrame):
            reply = login.receive(memoryview(bytearray(sent)))
        if spent.seconds > TIME_MAX_S:
            raise BrokenRule(f"a frame of {len(sent)} bytes took {spent.seconds:.2f} s")
        if reply is None:
            return "invalid"
        if is_later(reply):
            if login.session is not None:
                raise BrokenRule("a session before the end of the login")
            reply = await reply
        _check(login, reply, len(sent))
        if reply.step is not Step.MORE:
            return str(reply.step.name.lower())
        received = reply.frame or b""
    return "open"


def _check(login: Login, reply: Reply, sent: int) -> None:
    """The rules of a single reply."""
    if (login.session is not None) != (reply.step is Step.COMPLETE):
        raise BrokenRule(f"{reply.step} with the session {login.session}")
    if reply.frame is None:
        if reply.step is not Step.FAILED:
            raise BrokenRule("no answer")
    elif struct.unpack_from(">i", reply.frame)[0] != len(reply.frame) - 4:
        raise BrokenRule("a response with a wrong size")
    elif len(reply.frame) > RESPONSE_MAX_BYTES + RESPONSE_FACTOR * sent:
        raise BrokenRule(f"{len(reply.frame)} bytes respond to {sent}")


def run_seed(seed: int) -> tuple[Counter[str], str | None]:
    """1,000 streams: how they ended, and what was wrong."""
    return asyncio.run(_run_seed(seed))


async def _run_seed(seed: int) -> tuple[Counter[str], str | None]:
    happened: Counter[str] = Counter()
    broker = Broker(seed)
    for number in range(STREAMS):
        try:
            happened[await run_stream(random.Random(seed * STREAMS + number), broker)] += 1
            if broker.fetches > 1:
                raise BrokenRule("the issuer's keys are fetched again within ten seconds")
        except BrokenRule as error:
            return happened, f"seed {seed}, stream {number}: {error}"
        except Exception as error:
            return happened, f"seed {seed}, stream {number}: {error!r}"
    return happened, None


def run_seeds(first: int, count: int) -> Found:
    """Run some seeds; see `campaigns.seeds`."""
    return run_all(range(first, first + count), run_seed, "seeds")


if __name__ == "__main__":
    sys.exit(main("logins", "logins", __doc__, run_seeds, count=10_000))
