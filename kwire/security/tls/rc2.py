"""Decryption with RC2 (RFC 2268): how Java 8 and OpenSSL 1 encrypted the certificates of PKCS12 files, with 40 bits.

It is not secure any more, and only used to read old files. The package cryptography has RC2 with 128 bits only.
"""

from __future__ import annotations

from typing import Final

BLOCK_BYTES: Final = 8
_TABLE: Final = bytes.fromhex(
    "d978f9c419ddb5ed28e9fd794aa0d89dc67e37832b76538e624c6488448bfba2"
    "179a59f587b34f1361456d8d09817d32bd8f40eb86b77b0bf09521225c6b4e82"
    "54d66593ce60b21c7356c014a78cf1dc1275ca1f3bbee4d1423dd430a33cb626"
    "6fbf0eda4669075727f21d9bbc944303f811c7f690ef3ee706c3d52fc8661ed7"
    "08e8eade8052eef784aa72ac354d6a2a961ad2715a1549744b9fd05e0418a4ec"
    "c2e0416e0f51cbcc2491af50a1f47039997c3a8523b8b47afc02365b25559731"
    "2d5dfa98e38a92ae05df2910676cbac9d300e6cfe19ea82c6316013f58e289a9"
    "0d38341bab33ffb0bb480c5fb9b1cd2ec5f3db47e5a59c770aa62068fe7fc1ad"
)
_SHIFTS: Final = (1, 2, 3, 5)
_MIX_ROUNDS: Final = (5, 6, 5)
"""Mixing rounds in each of three runs; a mashing round is between two runs (RFC 2268, section 3)."""


def decrypt_cbc(key: bytes, vector: bytes, data: bytes) -> bytes:
    """Decrypt whole blocks, chained; all bits of the key are effective. ValueError if the data is not whole blocks."""
    if len(data) % BLOCK_BYTES:
        raise ValueError("not whole blocks")
    words, found, previous = _expand(key), bytearray(), vector
    for start in range(0, len(data), BLOCK_BYTES):
        block = data[start : start + BLOCK_BYTES]
        found += bytes(a ^ b for a, b in zip(_decrypt(words, block), previous, strict=True))
        previous = block
    return bytes(found)


def _expand(key: bytes) -> list[int]:
    """The 64 words of a key."""
    expanded = bytearray(key)
    while len(expanded) < 128:
        expanded.append(_TABLE[(expanded[-1] + expanded[-len(key)]) & 0xFF])
    expanded[-len(key)] = _TABLE[expanded[-len(key)]]
    for index in reversed(range(128 - len(key))):
        expanded[index] = _TABLE[expanded[index + 1] ^ expanded[index + len(key)]]
    return [int.from_bytes(expanded[index : index + 2], "little") for index in range(0, 128, 2)]


def _decrypt(words: list[int], block: bytes) -> bytes:
    state = [int.from_bytes(block[index : index + 2], "little") for index in range(0, BLOCK_BYTES, 2)]
    position = 63
    for phase, rounds in enumerate(_MIX_ROUNDS):
        if phase:
            for index in reversed(range(4)):
                state[index] = (state[index] - words[state[index - 1] & 63]) & 0xFFFF
        for _ in range(rounds):
            for index in reversed(range(4)):
                shift = _SHIFTS[index]
                turned = (state[index] >> shift | state[index] << (16 - shift)) & 0xFFFF
                before, second, third = state[index - 1], state[index - 2], state[index - 3]
                state[index] = (turned - words[position] - (before & second) - (~before & third)) & 0xFFFF
                position -= 1
    return b"".join(word.to_bytes(2, "little") for word in state)
