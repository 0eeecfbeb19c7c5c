"""JAAS texts: which login modules a listener or a client uses, and their options.

Kafka's properties ``sasl.jaas.config`` hold login modules (``parse_jaas``)::

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="...";

and Java's JAAS files hold named contexts with login modules (``parse_jaas_file``)::

    KafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule required ...; };

Values need quotes unless they are words of letters, digits, ``.``, ``-``, ``_`` and ``$`` that do not begin with a
digit, a dot or ``-``. The two grammars differ as they do in Java: in a property the quotes may be single ones, and a
file expands ``${property}``. If an option is given twice, its last value counts. Errors are `ValueError` with one line
that names the position but does not quote the text, because it contains passwords; for the same reason a login module's
options are not in its repr. What lives elsewhere: the meaning of the modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kwire.security.names.tokenizer import COMMENT, DIGIT, END, QUOTE, TEXT, WHITESPACE, WORD, Syntax, Token, Tokenizer

FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
"""What the flag of a login module may be, in any case."""

NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


class LoginModule(NamedTuple):
    """A login module: the name of its class, its flag in capitals, and its options."""

    name: str
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule(name={self.name!r}, flag={self.flag!r}, options=...)"


def _table(more_letters: str) -> Syntax:
    """The default syntax of Java's tokenizer, with additional letters."""
    kinds = dict.fromkeys(range(33), WHITESPACE) | dict.fromkeys(range(160, 256), WORD)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + more_letters
    for characters, kind in ((letters, WORD), ("0123456789.-", DIGIT), ("\"'", QUOTE), ("/", COMMENT)):
        kinds |= {ord(character): kind for character in characters}
    return Syntax(kinds)


_PROPERTY: Final = _table("$_")
_FILE: Final = _table("$_*")


def parse_jaas(text: str) -> list[LoginModule]:
    """The login modules of a ``sasl.jaas.config``: at least one. Kafka requires exactly one; see `only_module`.

    Raises `ValueError` where Kafka refuses the text.
    """
    tokens = Tokenizer(text, _PROPERTY)
    modules = []
    while (first := tokens.next()).kind != END:
        modules.append(_property_module(first, tokens))
    if not modules:
        raise ValueError("the JAAS text has no login module")
    return modules


def only_module(text: str) -> LoginModule:
    """The login module of a ``sasl.jaas.config``. Raises `ValueError` if there is none or more than one."""
    modules = parse_jaas(text)
    if len(modules) > 1:
        raise ValueError(f"the JAAS text has {len(modules)} login modules, but should have one")
    return modules[0]


def parse_jaas_file(text: str, properties: Mapping[str, str] = NO_PROPERTIES) -> dict[str, list[LoginModule]]:
    """The login modules of each context of a JAAS file, by the context's name.

    ``properties`` replace ``${name}`` in values; in Java they are the system properties. Raises `ValueError` where Java
    refuses the file.
    """
    return _File(Tokenizer(text, _FILE), properties).contexts()


def _property_module(first: Token, tokens: Tokenizer) -> LoginModule:
    flag = tokens.next()
    if flag.kind == END:
        raise ValueError("the JAAS text ends before the flag of a login module")
    checked = _flag(flag)
    options, last = _property_options(tokens)
    if last.kind != ";":
        raise ValueError("the JAAS text ends without a semicolon")
    if not first.value:
        raise ValueError(f"the JAAS text has no login module's name at character {first.place}")
    return LoginModule(first.value, checked, options)


def _property_options(tokens: Tokenizer) -> tuple[dict[str, str], Token]:
    """Options up to the token that ends them. An option with an empty name is left out, as nothing can look it up."""
    options = {}
    while (key := tokens.next()).kind not in (END, ";"):
        if tokens.next().kind != "=" or (value := tokens.next()).value is None:
            raise ValueError(f"the JAAS text has no value for the option at character {key.place}")
        if key.value is not None:
            options[key.value] = value.value
    return options, key


def _flag(token: Token) -> str:
    flag = (token.value or "").upper()
    if flag not in FLAGS:
        raise ValueError(f"the JAAS text should have one of {', '.join(FLAGS)} at character {token.place}")
    return flag


class _File:
    """Reads the contexts of a JAAS file, one token ahead."""

    def __init__(self, tokens: Tokenizer, properties: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._properties = properties
        self._token = tokens.next()

    def contexts(self) -> dict[str, list[LoginModule]]:
        """All contexts. A context with an empty name is left out, as nothing can look it up."""
        found: dict[str | None, list[LoginModule]] = {}
        while self._token.kind != END:
            name = self._take()
            self._expect("{")
            modules = []
            while self._token.kind != "}":
                modules.append(self._module())
            self._expect("}")
            self._expect(";")
            if name.value in found:
                raise ValueError(f"the JAAS file has the context at character {name.place} twice")
            found[name.value] = modules
        return {name: modules for name, modules in found.items() if name is not None}

    def _module(self) -> LoginModule:
        name = self._text("a login module")
        flag = _flag(self._text("a flag"))
        options: dict[str, str] = {}
        while self._token.kind != ";":
            key = self._text("an option")
            self._expect("=")
            value = self._text("a value")
            options[key.value or ""] = _expand(value, self._properties)
        self._take()
        if not name.value:
            raise ValueError(f"the JAAS file has no login module's name at character {name.place}")
        return LoginModule(name.value, flag, options)

    def _take(self) -> Token:
        token, self._token = self._token, self._tokens.next()
        return token

    def _expect(self, kind: str) -> None:
        if (token := self._take()).kind != kind:
            raise ValueError(f"the JAAS file should have {kind} at character {token.place}")

    def _text(self, what: str) -> Token:
        if (token := self._take()).kind not in (TEXT, '"'):
            raise ValueError(f"the JAAS file should have {what} at character {token.place}")
        return token


def _expand(token: Token, properties: Mapping[str, str]) -> str:
    """A value in which ``${name}`` is replaced by the property; ``${{...}}`` stays as it is."""
    value, found, index = token.value or "", [], 0
    while (start := value.find("${", index)) >= 0:
        quoted = value.startswith("{", start + 2)
        end = value.find("}}", start + 2) + 1 if quoted else value.find("}", start)
        if end <= 0 or (quoted and end + 1 == len(value)):
            break
        found.append(value[index:start])
        found.append(value[start : end + 1] if quoted else _property(value[start + 2 : end], token, properties))
        index = end + 1
    expanded = "".join(found) + value[index:]
    if value and not expanded:
        raise ValueError(f"the JAAS file has a value at character {token.place} that is empty when expanded")
    return expanded


def _property(name: str, token: Token, properties: Mapping[str, str]) -> str:
    if name == "/":
        return "/"
    if name not in properties:
        raise ValueError(f"the JAAS file names a property at character {token.place} that is not set")
    return properties[name]
