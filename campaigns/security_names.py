"""Names and JAAS texts through Java's and Kafka's own classes and through kwire's: there must be no difference.

    .venv/bin/python -m campaigns.security_names --cases 1000000 --seed 1

Five kinds of cases in turn, drawn from the seed:

- dn: distinguished names (DER) of all types of attributes and texts, against ``X500Principal.getName()``;
- ssl: names through ``ssl.principal.mapping.rules``, against Kafka's ``SslPrincipalMapper``;
- kerberos: principals through ``sasl.kerberos.principal.to.local.rules``, against ``KerberosShortNamer``;
- jaas: texts of ``sasl.jaas.config``, against Kafka's ``JaasConfig``;
- file: JAAS files, against Java's ``ConfigFile``.

Both must give the same result, or both refuse. A regular expression that kwire refuses by name as not supported counts
as "unsupported". Java before 25 reads texts of old encodings differently: there such names are ASCII. ``--java`` names
another Java. No text has a capital sigma, which Java makes small by rules of its own for the ends of words, and no name
for a rule has a character beyond U+FFFF, which Java takes apart where it finds an empty match. A line of JSON is
printed, then the first differences. The exit status is 1 if there is any.
"""

from __future__ import annotations

import base64
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from campaigns.command_line import campaign_parser, report
from harness.paths import ROOT
from harness.processes.java_oracle import JavaOracle
from kwire.security.names.distinguished import format_name
from kwire.security.names.jaas import LoginModule, parse_jaas, parse_jaas_file
from kwire.security.names.java_regex import UnsupportedPattern
from kwire.security.names.kerberos import parse_kerberos_rules
from kwire.security.names.mapping import parse_mapping_rules

SOURCE = ROOT / "campaigns" / "java" / "SecurityNamesOracle.java"
BATCH = 1000
"""Cases that are asked together, all of one kind."""
DIFFERENCES_MAX = 20
NEW_JAVA = 25
"""The Java from which on texts of old encodings are read as what they are."""
PROPERTIES = {"some.property": "its value", "empty.property": ""}
REFUSED = "!"


class Case(NamedTuple):
    """A question: its fields for Java, and the function that gives kwire's answer in the same form."""

    kind: str
    fields: tuple[bytes, ...]
    ours: Callable[[], str]

    @property
    def question(self) -> str:
        """The line that asks Java."""
        return " ".join([self.kind, *(base64.b64encode(field).decode() for field in self.fields)])

    def answer(self) -> str | None:
        """kwire's answer; None if it does not support the case."""
        try:
            return self.ours()
        except UnsupportedPattern:
            return None
        except ValueError:
            return REFUSED


class Oracle(JavaOracle):
    """Java's and Kafka's classes of names and JAAS texts."""

    def __init__(self, java: str = "java") -> None:
        opened = ["--add-exports=java.base/sun.security.provider=ALL-UNNAMED"]
        opened += ["--add-opens=java.base/sun.security.provider=ALL-UNNAMED", "-Xss4m"]
        opened += [f"-D{name}={value}" for name, value in PROPERTIES.items()]
        super().__init__(SOURCE, opened, java)
        self.version = _version(java)


def _version(java: str) -> int:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    return int(done.stderr.split('"')[1].split(".")[0])


def encode(text: str) -> str:
    """A text as the oracle writes it."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


# --- distinguished names

KNOWN_TYPES = [bytes([0x55, 4, last]) for last in (3, 6, 7, 8, 9, 10, 11)]
KNOWN_TYPES += [bytes.fromhex("0992268993f22c640101"), bytes.fromhex("0992268993f22c640119")]
OTHER_TYPES = [bytes([0x55, 4, last]) for last in (4, 5, 12, 42, 43, 44, 46)]
OTHER_TYPES += [bytes.fromhex(each) for each in ("2a864886f70d010901", "2b0601040182371402", "8837", "28", "4f", "51")]
TEXT_TAGS = {0x0C: "utf-8", 0x13: "latin-1", 0x16: "latin-1", 0x14: "latin-1", 0x1B: "latin-1", 0x1E: "utf-16-be"}
OTHER_TAGS = (0x12, 0x1A, 0x1C, 0x04, 0x03, 0x02, 0x17, 0x01, 0x0D, 0x15, 0x1D)
SPECIAL = " ,=+<>#;\"\\/\r\n\t\0'()*-.@:?_"
BEYOND = "😀"
UNUSUAL = "äßéΠπςИ中文\u0130\u0131\u2028\u0085\ufeff\ufffe😀\ufffd\u0301"


def element(tag: int, content: bytes) -> bytes:
    """An element of ASN.1, DER."""
    size = len(content)
    length = bytes([size]) if size < 0x80 else size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([0x80 | len(length)]) if size >= 0x80 else b"") + length + content


def some_text(chance: random.Random, longest: int, *, unusual: float = 0.15) -> str:
    """A text with special characters, not all of them ASCII."""
    kinds = chance.choices(("abcdeXYZ019", SPECIAL, UNUSUAL), (1, 0.5, unusual), k=chance.randrange(longest + 1))
    return "".join(chance.choice(kind) for kind in kinds)


def dn_value(chance: random.Random, java: int) -> bytes:
    """A value of an attribute."""
    roll = chance.random()
    if roll < 0.12:
        return element(chance.choice(OTHER_TAGS), chance.randbytes(chance.randrange(6)))
    longest = chance.choice((4, 12, 12, 12, 300))
    if roll < 0.2:
        tag = 0x0C if java < NEW_JAVA else chance.choice(list(TEXT_TAGS))
        return element(tag, chance.randbytes(chance.randrange(longest)))
    tag = chance.choices(list(TEXT_TAGS), (8, 4, 2, 1, 1, 2 if java >= NEW_JAVA else 0))[0]
    text = some_text(chance, longest)
    if tag != 0x0C and java < NEW_JAVA:
        text = "".join(character for character in text if character.isascii())
    return element(tag, text.encode(TEXT_TAGS[tag], "replace"))


def dn_case(chance: random.Random, java: int) -> Case:
    """A distinguished name."""
    names = []
    for _ in range(chance.randrange(6)):
        attributes = []
        for _ in range(chance.choice((1, 1, 1, 1, 2, 3))):
            known = chance.random() < 0.75
            kind = chance.choice(KNOWN_TYPES if known else OTHER_TYPES)
            if chance.random() < 0.03:
                kind = bytes(chance.randrange(128, 256) for _ in range(chance.randrange(9))) + bytes(
                    [chance.randrange(128)]
                )
            attributes.append(element(0x30, element(6, kind) + dn_value(chance, java)))
        names.append(element(0x31, b"".join(attributes)))
    name = element(0x30, b"".join(names))
    return Case("dn", (name,), lambda: encode(format_name(name)))


# --- mapping rules


def literal_pattern(chance: random.Random, text: str) -> str:
    """A pattern for just this text, more or less."""
    if text and chance.random() < 0.1 and "\\E" not in text:
        return f"\\Q{text}\\E"
    found = []
    for character in text:
        if character in ".^$|?*+()[]{}\\/":
            found.append("\\" + character if chance.random() < 0.97 else character)
        elif chance.random() < 0.03:
            found.append(
                chance.choice((f"\\x{ord(character) % 256:02x}", f"\\x{{{ord(character):x}}}", "\\" + character))
            )
        else:
            found.append(character)
    return "".join(found)


CLASSES = ("\\w", "\\d", "\\s", "\\S", "\\W", "\\D", "[a-z]", "[A-Z0-9]", "[^,]", "[^=]", "[\\w.-]", "[]a-c]", "[^]x]",
           "\\p{Alpha}", "\\P{Digit}", "\\p{Upper}", "\\p{Lower}", "\\p{Punct}", "\\h", "\\v", "\\H", "[a\\-z]", "[-a]",
           "[a-]", "[\\d-x]", "[\\x41-\\x5a]", ".", "[^\\h]", "[a-c[x]]", "[a&&b]", "\\pL", "[&-]", "[a^]")  # fmt: skip
QUANTIFIERS = (
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,3}",
    "{0,}",
    "{1,}?",
    "*+",
    "++",
    "?+",
    "{2}+",
    "{,2}",
    "{2,1}",
)
ANCHORS = (
    "^",
    "$",
    "\\A",
    "\\z",
    "\\Z",
    "(?=.)",
    "(?!x)",
    "(?<=.)",
    "(?<!x)",
    "(?i)",
    "(?s)",
    "(?-i)",
    "(?:)",
    "()",
    "|",
)
NOISE = ("(", ")", "[", "]", "{", "}", "*", "+", "?", "\\", "|", "\\1", "\\2", "\\E", "\\Q", "(?<n>a)", "\\k<n>", "\\R",
         "\\cA", "\\07", "\\e", "\\y", "(?m)", "(?<1>", "\\b", "\\B", "{1}", "\\G", "[", "^*", "(?>a)")  # fmt: skip


UNBOUNDED_MAX = 3
"""Quantifiers without a limit, after which a pattern is literal: each multiplies the time that a failure takes."""
_UNBOUNDED = re.compile(r"[*+]|,\}")


def some_pattern(chance: random.Random, text: str, depth: int = 0) -> str:
    """A pattern that has something to do with a text: most often it matches."""
    found: list[str] = []
    index, wild = 0, chance.random() < 0.3
    while index < len(text):
        piece = text[index : index + chance.randrange(1, 8)]
        index += len(piece)
        if len(_UNBOUNDED.findall("".join(found))) >= UNBOUNDED_MAX:
            found.append(literal_pattern(chance, piece))
        elif wild and chance.random() < 0.3:
            found.append(wild_pattern(chance, piece))
        elif depth < 2 and chance.random() < 0.1:
            inner = some_pattern(chance, piece, depth + 1)
            found.append(f"({inner}){chance.choice(('', '?', '{0,2}', '{1,2}?', '|x', '?+', '{1}'))}")
        else:
            found.append(tame_pattern(chance, piece))
    return "".join(found)


def tame_pattern(chance: random.Random, piece: str) -> str:
    """A pattern that matches a piece of text, or nearly always."""
    literal, roll = literal_pattern(chance, piece), chance.random()
    if roll < 0.3:
        return literal
    if roll < 0.5:
        return chance.choice((".*", "(.*)", "(.*?)", ".+", "([^,]*)", ".*?", "(?<name>.*)", "(?s:.*)"))
    if roll < 0.65:
        return f"({chance.choice(('', '', '?:', '?i:', '?>', '?=.*', '?<n>'))}{literal})".replace("(?=.*", "(?=.*)(")
    if roll < 0.72:
        return f"(?:{literal}|{literal_pattern(chance, some_text(chance, 3))})"
    if roll < 0.8:
        return chance.choice(("(?i)", "(?s)", "(?-i)", "(?:)", "()", "(?!\\z)", "(?<!x)", "\\E\\Q\\E"[2:])) + literal
    if roll < 0.9:
        return "".join(
            f"{fitting_class(chance, each)}{chance.choice(('', '{1}', '{1,2}', '{1,2}?'))}" for each in piece
        )
    return f"{fitting_class(chance, piece[0])}{chance.choice(('+', '*', '+?'))}{literal_pattern(chance, piece[1:])}"


def fitting_class(chance: random.Random, character: str) -> str:
    """A class with a character, or nearly always."""
    if character.isascii() and character.isalpha():
        return chance.choice(
            ("\\w", "[a-zA-Z]", "\\p{Alpha}", "(?i:[a-z])", "[^,=]", ".", "(\\w)", "[\\w.-]", "\\S", "\\D")
        )
    if character.isascii() and character.isdigit():
        return chance.choice(("\\d", "[0-9]", "\\p{Digit}", "[^\\D]", "(\\d)", "\\w", "\\P{Alpha}", "\\H"))
    return chance.choice((".", "\\W", "[^\\w]", "[,=. -]", "\\p{Punct}", "[^a-z]", "\\V", "[\\s\\S]", "[^&]", "(.)"))


def wild_pattern(chance: random.Random, piece: str) -> str:
    """A pattern of any kind, also a wrong one."""
    roll = chance.random()
    if roll < 0.4:
        return chance.choice(CLASSES) + chance.choice(QUANTIFIERS)
    if roll < 0.7:
        return chance.choice(ANCHORS) + literal_pattern(chance, piece)
    return chance.choice(NOISE) + (piece if roll < 0.8 else "")


REPLACEMENTS = ("$1", "$2", "$1@$2", "$3$2$1", "$10", "$0", "user-$1", "$9", "$4 $5 $6", "", "\\$1", "$", "\\",
                "${name}", "${no}", "$12x", "x\\/y", "$99999999999", "$00", "$01", "a$1b$7c$8d", "Ä$1ß", "$$1",
                "$ 1")  # fmt: skip


def some_replacement(chance: random.Random, pattern: str) -> str:
    """A replacement, most often a right one for a pattern."""
    if "(" not in pattern and chance.random() < 0.8:
        return chance.choice(("", "x", "$0", "<$0>", "\\$"))
    return chance.choice(
        ("$1", "$1@$2", "user-$1", "x", "$0", "\\$$1", "$2$1") if chance.random() < 0.6 else REPLACEMENTS
    )


def some_dn_text(chance: random.Random) -> str:
    """A name as mapping rules see it."""
    keys = ("CN", "OU", "O", "C", "L", "ST", "DC", "UID", "1.2.3")
    values = [
        chance.choice(("alice", "kafka.broker-1", "Example\\, Inc.", "DE", "ÄÖ", "#0c0161", some_text(chance, 6)))
        for _ in range(chance.randrange(1, 4))
    ]
    return chance.choice((",", ", ", ",", "+")).join(f"{chance.choice(keys)}={value}" for value in values)


def ssl_case(chance: random.Random, java: int) -> Case:
    """A name and rules for it."""
    name = some_dn_text(chance).replace(BEYOND, "x")
    rules = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.04:
            rules.append(
                chance.choice(("DEFAULT", "DEFAULT", "", "default", " DEFAULT ", "RULE:", "RULE:a/b", "x", "\n"))
            )
            continue
        pattern = some_pattern(chance, name)
        if chance.random() < 0.3:
            pattern = chance.choice(
                ("^CN=(.*?),OU=(.*?),.*$", "^.*[Cc][Nn]=([a-zA-Z0-9.-]*).*$", "CN=(.*)", "(.*)", ".*")
            )
        if "\\b" in pattern.lower() and not name.isascii():
            pattern = ".*"  # before Java 19, \\b knows the letters of all languages
        rules.append(
            f"RULE:{pattern}/{some_replacement(chance, pattern)}/{chance.choice(('', '', 'L', 'U') * 5 + ('X', 'Lx'))}"
        )
    text = chance.choice((",", ", ", " ,\n", ",")).join(rules)
    fields = (text.encode(), name.encode())
    return Case("ssl", fields, lambda: encode(parse_mapping_rules(text).apply(name)))


# --- Kerberos rules

COMMON_PRINCIPALS = ("kafka/broker1.example.com@EXAMPLE.COM", "alice@EXAMPLE.COM", "Bob/admin@EXAMPLE.COM")
PRINCIPALS = ("kafka/broker1.example.com@EXAMPLE.COM", "alice@EXAMPLE.COM", "alice@OTHER.ORG", "alice",
              "Bob/admin@EXAMPLE.COM", "a/b/c@R", "@R", "a@", "a@b@c", "/h@R", "", "a/b",
              "ÄLICE@EXAMPLE.COM")  # fmt: skip
FORMATS = ("$1", "$1@$0", "$2", "$1/$2@$0", "$0", "x$1y$2z", "$3", "$", "plain", "", "$1$1", "$$1", "$99999999999")


MATCHES = (".*", ".*@EXAMPLE.COM", "[a-z]*", "^.*$", ".+/.+", "kafka.*", "[^@]*@.*")
SUBSTITUTED = ("@.*", "[/@].*", "a", "^(.*)$", "", "(.*)@(.*)", "[.]", "^([^@/]*).*$", ".*")


def formatted(shape: str, principal: str) -> str:
    """What a rule's format makes of a principal, about."""
    name, _, realm = principal.partition("@")
    service, _, host = name.partition("/")
    return shape.replace("$0", realm).replace("$1", service).replace("$2", host)


def ungrouped(pattern: str) -> str:
    """A pattern without groups: a rule's match may not have a closing parenthesis."""
    return re.sub(r"\(\?[imsx:>=!<-]*(<?n(ame)?>)?|[()]", "", pattern)


def some_principal(chance: random.Random) -> str:
    """A principal of odd characters, often malformed."""
    return (
        some_text(chance, 8)
        + chance.choice(("", "/"))
        + some_text(chance, 5)
        + chance.choice(("@EXAMPLE.COM", "@R", ""))
    )


def kerberos_case(chance: random.Random, java: int) -> Case:
    """A principal and rules for it."""
    roll = chance.random()
    principal = (
        chance.choice(COMMON_PRINCIPALS if roll < 0.6 else PRINCIPALS) if roll < 0.85 else some_principal(chance)
    )
    principal = principal.replace(BEYOND, "x")
    rules = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.06:
            rules.append(
                chance.choice(("DEFAULT", "DEFAULT", "DEFAULT/L", "DEFAULTL", "default", "", "RULE:[1]", "RULE:[:x]"))
            )
            continue
        parts, shape = "2" if "/" in principal else "1", chance.choice(FORMATS[:4] if "/" in principal else FORMATS[:2])
        if chance.random() < 0.15:
            parts, shape = chance.choice(("0", "3", "", "02", "x")), chance.choice(FORMATS)
        found, plain = f"RULE:[{parts}:{shape}]", formatted(shape, principal)
        if chance.random() < 0.6:
            match = some_pattern(chance, plain) if chance.random() < 0.5 else chance.choice(MATCHES)
            found += f"({ungrouped(match) if chance.random() < 0.9 else match})"
        if chance.random() < 0.8:
            pattern = some_pattern(chance, plain) if chance.random() < 0.5 else chance.choice(SUBSTITUTED)
            pattern = pattern.replace("/", ".") if chance.random() < 0.9 else pattern
            found += f"s/{pattern}/{some_replacement(chance, pattern)}/{chance.choice(('', 'g') * 9 + ('x',))}"
        rules.append(found + chance.choice(("", "", "/L", "L", "/U", "/") * 4 + ("/X",)))
    if not principal.isascii():
        rules = [rule.replace("\\b", "").replace("\\B", "") for rule in rules]
    fields = (b"EXAMPLE.COM", principal.encode(), *(rule.encode() for rule in rules))
    return Case("kerberos", fields, lambda: encode(parse_kerberos_rules("EXAMPLE.COM", rules).short_name(principal)))


# --- JAAS

WORDS = ("org.apache.kafka.common.security.plain.PlainLoginModule", "required", "REQUISITE", "sufficient", "Optional",
         "username", "password", "user_alice", "=", ";", "{", "}", "KafkaServer", "x", "1", "-5.2.3", "-", "a-b", "$_*",
         '"', "'", "\\", "/", "//", "/*", "*/", "\n", "\r", "\r\n", "\t", "requ\u0131red", "\u00ff", "\u0090", "\u0100",
         "${some.property}", '"${some.property}/${/}"', '"${unknown}"', '"${{x}}${some.property}"',
         '"${empty.property}"', '"${some.property"', ",", ":", "@", "\ufeff", "😀", "\x7f", "\x80", "\xa0")  # fmt: skip
ESCAPES = (
    "\\n",
    "\\t",
    "\\\\",
    '\\"',
    "\\'",
    "\\101",
    "\\7",
    "\\400",
    "\\377",
    "\\x",
    "\\\n",
    "\\",
    "${some.property}",
    "${",
)


def quoted(chance: random.Random, text: str, quotes: str) -> str:
    """A text in quotes, with escapes among it."""
    quote = chance.choice(quotes)
    pieces = [chance.choice(ESCAPES) if chance.random() < 0.15 else character for character in text]
    return f"{quote}{''.join(pieces)}{quote if chance.random() < 0.98 else ''}"


def some_value(chance: random.Random, quotes: str) -> str:
    """A key or value of an option."""
    roll = chance.random()
    if roll < 0.4:
        return chance.choice(("admin", "secret-1", "a.b.C", "user_x", "true", "$x-1.5", "ü", "_"))
    if roll < 0.43:
        return chance.choice(("p@ss!word", "x/y", "http://h", "1x", "-5", "a*b"))
    return chance.choice(WORDS) if roll < 0.45 else quoted(chance, some_text(chance, 8), quotes)


def some_module(chance: random.Random, quotes: str) -> str:
    """A login module's text."""
    gap = chance.choice((" ", "\n    ", "\t", " /* c */ ", " // c\n ", "  "))
    equals = chance.choice(("=", "=", " = ", "= ", " ="))
    options = [
        f"{chance.choice(('username', 'password', some_value(chance, quotes)))}{equals}{some_value(chance, quotes)}"
        for _ in range(chance.randrange(4))
    ]
    name = chance.choice((*WORDS[:1], "a.B", some_value(chance, quotes)))
    flag = chance.choice((*WORDS[1:5], "Required", some_value(chance, quotes) if chance.random() < 0.1 else "required"))
    return gap.join([name, flag, *options]) + chance.choice(("", " ", gap)) + chance.choice((";",) * 20 + ("",))


def mutated(chance: random.Random, text: str) -> str:
    """A text with a few changes, most often none."""
    for _ in range(chance.choice((0, 0, 0, 0, 0, 1, 2))):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice((*WORDS, "")) + text[place + chance.randrange(3) :]
    return text


def jaas_case(chance: random.Random, java: int) -> Case:
    """The text of a property."""
    if chance.random() < 0.1:
        text = " ".join(chance.choices(WORDS, k=chance.randrange(9)))
    else:
        text = mutated(chance, " ".join(some_module(chance, "\"'") for _ in range(chance.choice((1, 1, 1, 2, 3)))))
    return Case("jaas", (text.encode(),), lambda: modules_answer(parse_jaas(text)))


def file_case(chance: random.Random, java: int) -> Case:
    """A JAAS file."""
    contexts = []
    for _ in range(chance.choice((0, 1, 1, 2))):
        modules = "\n".join(some_module(chance, '"""\'') for _ in range(chance.choice((0, 1, 1, 2))))
        contexts.append(
            f"{chance.choice(('KafkaServer', 'KafkaClient', 'a.b', some_value(chance, chr(34))))} {{ {modules} }};"
        )
    text = mutated(chance, "\n".join(contexts))
    return Case("file", (text.encode(),), lambda: contexts_answer(parse_jaas_file(text, PROPERTIES)))


def modules_answer(modules: Iterable[LoginModule]) -> str:
    """Login modules as the oracle writes them."""
    found = []
    for module in modules:
        options = sorted(module.options.items(), key=lambda option: option[0].encode("utf-16-be"))
        found.append(
            " ".join([encode(module.name), module.flag, *(f"{encode(k)}={encode(v)}" for k, v in options)]) + ";"
        )
    return "".join(found)


def contexts_answer(contexts: dict[str, list[LoginModule]]) -> str:
    """The contexts of a file as the oracle writes them."""
    names = sorted(contexts, key=lambda name: name.encode("utf-16-be"))
    return "".join(f"{encode(name)}{{{modules_answer(contexts[name])}}}" for name in names)


# --- the run

KINDS: tuple[Callable[[random.Random, int], Case], ...] = (dn_case, ssl_case, kerberos_case, jaas_case, file_case)


def run(cases: int, seed: int, java: str = "java") -> tuple[Counter[str], list[str]]:
    """Ask about so many cases; what happened, and the differences."""
    counts: Counter[str] = Counter()
    differences: list[str] = []
    with Oracle(java) as oracle:
        for number, start in enumerate(range(0, cases, BATCH)):
            chance = random.Random(f"{seed}/{number}")
            draw = KINDS[number % len(KINDS)]
            batch = [draw(chance, oracle.version) for _ in range(min(BATCH, cases - start))]
            for case, theirs in zip(batch, oracle.ask([case.question for case in batch]), strict=True):
                ours = case.answer()
                counts[f"{case.kind} {verdict(ours, theirs)}"] += 1
                if verdict(ours, theirs) == "different":
                    fields = [field.hex() if case.kind == "dn" else field.decode() for field in case.fields]
                    differences.append(
                        f"{case.kind} {fields!r}: Java {readable(theirs)}, kwire {readable(ours or '')}"[:700]
                    )
            if len(differences) >= DIFFERENCES_MAX:
                break
    return counts, differences


def verdict(ours: str | None, theirs: str) -> str:
    """How two answers compare."""
    if ours is None:
        return "unsupported"
    if ours != theirs:
        return "different"
    return "refused" if ours == REFUSED else "equal"


def readable(answer: str) -> str:
    """An answer that people can read, if it is one field."""
    try:
        return repr(base64.b64decode(answer, validate=True).decode())
    except ValueError:
        return repr(answer)


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = campaign_parser("security_names", __doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--java", default="java", help="the Java that is asked")
    arguments = parser.parse_args()
    started = time.monotonic()
    counts, differences = run(arguments.cases, arguments.seed, arguments.java)
    facts = {"campaign": "security_names", "seed": arguments.seed, "cases": counts.total()}
    return report(facts, started, (counts, differences))


if __name__ == "__main__":
    raise SystemExit(main())
