"""JAAS texts. That they are read just as Java reads them is the campaign's matter (`campaigns.security_names`)."""

from __future__ import annotations

import pytest

from kwire.security.names.jaas import LoginModule, only_module, parse_jaas, parse_jaas_file

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_login_module_has_its_name_flag_and_options() -> None:
    text = f'{PLAIN} required username="admin" password=\'it is "secret"\' user_alice=wonder-land ;'
    expected = {"username": "admin", "password": 'it is "secret"', "user_alice": "wonder-land"}
    assert parse_jaas(text) == [LoginModule(PLAIN, "REQUIRED", expected)]


def test_a_text_may_have_several_modules_on_several_lines() -> None:
    found = parse_jaas("a.B Required x=a;\n\tc.D SUFFICIENT;\r\ne.F optional x='1' x = \"2\";")
    assert found == [
        LoginModule("a.B", "REQUIRED", {"x": "a"}),
        LoginModule("c.D", "SUFFICIENT", {}),
        LoginModule("e.F", "OPTIONAL", {"x": "2"}),
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"a\"b"', 'a"b'),
        (r"'a\'b'", "a'b"),
        (r'"\t\n\r\a\b\f\v"', "\t\n\r\a\b\f\v"),
        (r'"\101\60\7x\477"', "A0\ax'7"),
        (r'"back\\slash \x"', "back\\slash x"),
        ('"über 한국"', "über 한국"),
        ("über-1.5_$", "über-1.5_$"),
        ('""', ""),
    ],
)
def test_values_are_written_as_in_java(written: str, meant: str) -> None:
    assert only_module(f"m required o={written};").options == {"o": meant}


def test_a_slash_starts_a_comment_unless_it_is_quoted() -> None:
    text = """// users: x=y;
    m /* the module */ required /* not ;
      here */ a="http://host/" // no more b=1
      / as is this
      c='2' ;"""
    assert only_module(text).options == {"a": "http://host/", "c": "2"}


def test_a_quoted_text_ends_with_its_line() -> None:
    assert only_module('m required a="b\n c=d;').options == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " // nothing\n",
        "m",
        "m;",
        "m required",
        "m required a=b",
        "m necessary a=b;",
        "m required a;",
        "m required a=;",
        "m required a=b c;",
        "m required a b;",
        "'' required;",
        "= required;",
        "m required a=/b;",
        'm required a="b;',
        "m required a=1;",
        "m required a=-b;",
        "m required a=p@ss;",
        r"m required a=b\c;",
    ],
)
def test_a_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the JAAS text [^\n]+$"):
        parse_jaas(text)


def test_a_property_has_one_login_module() -> None:
    with pytest.raises(ValueError, match="has 2 login modules, but should have one"):
        only_module("a required; b required;")


def test_a_file_has_contexts_with_modules() -> None:
    text = f"""
    /* brokers */
    KafkaServer {{
        {PLAIN} required
            username="admin" // comment
            debug=true;
        com.sun.security.auth.module.Krb5LoginModule optional keyTab="${{home}}${{/}}kafka.keytab" empty="";
    }};
    "sasl_ssl.KafkaServer" {{ }};
    """
    assert parse_jaas_file(text, {"home": "/srv"}) == {
        "KafkaServer": [
            LoginModule(PLAIN, "REQUIRED", {"username": "admin", "debug": "true"}),
            LoginModule(
                "com.sun.security.auth.module.Krb5LoginModule",
                "OPTIONAL",
                {"keyTab": "/srv/kafka.keytab", "empty": ""},
            ),
        ],
        "sasl_ssl.KafkaServer": [],
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"${a}-${b}"', "1-2"),
        ('"${{a}}-x"', "${{a}}-x"),
        ('"${a}${{a}}"', "1${{a}}"),
        ('"${a"', "${a"),
        ('"x${"', "x${"),
        ('"$a"', "$a"),
    ],
)
def test_a_file_names_properties(written: str, meant: str) -> None:
    found = parse_jaas_file(f"c {{ m required o={written}; }};", {"a": "1", "b": "2"})
    assert found["c"][0].options == {"o": meant}


@pytest.mark.parametrize(
    "text",
    [
        "c",
        "c {",
        "c { }",
        "c { m required; } d { };",
        "c { m; };",
        "c { m needed; };",
        "c { m required a=1; };",  # a number is not a word in files
        "c { m required a='b'; };",
        "c { m required a=b c };",
        "c { }; c { };",
        'c { "" required; };',
        'c { m required a="${unknown}"; };',
        'c { m required a="${empty}"; };',
    ],
)
def test_a_wrong_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the JAAS (file|text) [^\n]+$"):
        parse_jaas_file(text, {"empty": ""})


def test_no_secret_is_in_messages_and_representations() -> None:
    module = only_module("m required password=hunter2;")
    assert "hunter2" not in repr(module)
    assert "hunter2" not in repr([module])
    for text in (
        "m required password=x hunter2;",
        "m required password=x; hunter2 hunter2;",
        "m hunter2;",
        "c { m required password=hunter2 hunter2; };",
        'hunter2 { m required p="${hunter2}"; };',
        "hunter2 { }; hunter2 { };",
    ):
        for parse in (parse_jaas, parse_jaas_file):
            with pytest.raises(ValueError) as refusal:
                parse(text)
            assert "hunter2" not in str(refusal.value)
