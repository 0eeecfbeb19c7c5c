"""Kerberos through the system's library: keytabs and ticket caches as login modules name them, and GSS contexts.

It needs the package `gssapi` (``pip install kwire[gssapi]``), which is imported when a configuration names GSSAPI.
The library reads its realm and the addresses of key distribution centres from the file that the environment variable
KRB5_CONFIG names, by default ``/etc/krb5.conf``. What lives elsewhere: the messages of a login (`sasl.gssapi`).

The options of `com.sun.security.auth.module.Krb5LoginModule` that count are ``principal``, ``useKeyTab``, ``keyTab``,
``useTicketCache``, ``ticketCache`` and ``serviceName``. Those that tell a JVM how to keep keys and when to ask the user
have no effect. A password is never asked for.

The broker's side uses the library's replay cache (a file in ``/var/tmp``, unless KRB5RCACHENAME names another). Java's
clients do not ask for mutual authentication, so without a cache, whoever has recorded a login on a plaintext connection
could repeat it for some minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.extras import needed
from kwire.security.sasl.gssapi import GssError

if TYPE_CHECKING:
    from kwire.security.sasl.gssapi import GssContext

_SAYS_NOTHING: Final = ("", "Success", "Unknown error")
SERVICE_NAME: Final = "sasl.kerberos.service.name"


class KerberosLogin(NamedTuple):
    """Where keys or tickets come from. ``keytab`` or ``ticket_cache`` None: the library's default one. ``principal``
    None: the first of the keytab or cache. ``service``: the name of the brokers' principals before the slash."""

    service: str
    principal: str | None
    use_keytab: bool
    keytab: str | None
    ticket_cache: str | None


def kerberos_login(options: Mapping[str, str], service: str | None) -> KerberosLogin:
    """The login of a login module's options and `sasl.kerberos.service.name`. `ValueError` of one line."""
    own = options.get("serviceName")
    if own is not None and service is not None and own != service:
        raise ValueError(f"serviceName={own} contradicts {SERVICE_NAME}={service}")
    name = own or service
    if not name:
        raise ValueError(f"must have serviceName, or {SERVICE_NAME} must be set")
    use_keytab, use_cache = _is_true(options, "useKeyTab"), _is_true(options, "useTicketCache")
    if not use_keytab and not use_cache:
        raise ValueError("must have useKeyTab=true or useTicketCache=true: kwire asks nobody for a password")
    keytab = _path(options.get("keyTab"))
    principal = options.get("principal")
    return KerberosLogin(
        name,
        None if principal in (None, "*") else principal,
        use_keytab,
        keytab,
        _path(options.get("ticketCache")),
    )


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _path(text: str | None) -> str | None:
    """A file as Java's login module names it, with or without ``file:``."""
    if text is None:
        return None
    return text[len("file:") :] if text.lower().startswith("file:") else text


def import_gssapi() -> Any:
    """The package `gssapi`. `ValueError` of one line if it is missing."""
    try:
        import gssapi
    except ImportError as error:
        raise ValueError(f"{needed('gssapi')} ({error})") from None
    return gssapi


def default_realm() -> str:
    """This host's realm; empty if none is configured, as for Kafka."""
    gssapi = import_gssapi()
    try:
        name = gssapi.Name("name", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).partition("@")[2]


class Acceptor:
    """The broker's key, with which it accepts tickets. The keytab is read again for each of them, so a key that was
    added is found."""

    def __init__(self, login: KerberosLogin) -> None:
        """`GssError` if the keytab or the principal in it cannot be used."""
        self._gssapi = gssapi = import_gssapi()
        store = {"keytab": login.keytab} if login.keytab is not None else None
        mechanisms = [gssapi.MechType.kerberos]
        try:
            self._credentials = gssapi.Credentials(
                name=_name(gssapi, login), usage="accept", store=store, mechs=mechanisms
            )
        except gssapi.exceptions.GSSError as error:
            raise GssError(_text(error)) from None

    def context(self) -> GssContext:
        """The broker's side of a new context."""
        return _Context(self._gssapi, self._gssapi.SecurityContext(creds=self._credentials, usage="accept"))


class Initiator:
    """A client's keytab or ticket cache. With a keytab, the library asks for a new ticket when the last one ends."""

    def __init__(self, login: KerberosLogin) -> None:
        self._gssapi = import_gssapi()
        self._login = login

    def context(self, host: str) -> GssContext:
        """The client's side of a new context with the broker at a host. `GssError` if there is no ticket."""
        gssapi, login = self._gssapi, self._login
        if login.use_keytab:
            store = {"ccache": f"MEMORY:kwire {login.principal or ''} {login.keytab or ''}"}
            store |= {"client_keytab": login.keytab} if login.keytab is not None else {}
        else:
            store = {"ccache": login.ticket_cache} if login.ticket_cache is not None else {}
        try:
            credentials = gssapi.Credentials(name=_name(gssapi, login), usage="initiate", store=store or None)
            target = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
            context = gssapi.SecurityContext(
                name=target,
                creds=credentials,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=[gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity],
            )
        except gssapi.exceptions.GSSError as error:
            raise GssError(_text(error)) from None
        return _Context(gssapi, context)


def _name(gssapi: Any, login: KerberosLogin) -> Any:
    return None if login.principal is None else gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)


def _text(error: Any) -> str:
    """The library's reason on one line: its minor status, which is the specific one, unless it says nothing."""
    for code, is_major in ((error.min_code, False), (error.maj_code, True)):
        text = " ".join(" ".join(error.get_all_statuses(code, is_major)).split())
        if text not in _SAYS_NOTHING:
            return text
    return "refused"


class _Context:
    """A context of the library."""

    def __init__(self, gssapi: Any, context: Any) -> None:
        context.__DEFER_STEP_ERRORS__ = False  # raise them in `step`, not at the next use of the context
        self._context = context
        self._error = gssapi.exceptions.GSSError

    @property
    def complete(self) -> bool:
        """As `GssContext.complete`."""
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        """As `GssContext.peer`."""
        context = self._context
        try:
            return bytes(context.initiator_name if context.usage == "accept" else context.target_name).decode()
        except self._error as error:
            raise GssError(_text(error)) from None
        except UnicodeDecodeError:
            raise GssError("the principal's name is not UTF-8") from None

    def step(self, token: bytes) -> bytes:
        """As `GssContext.step`."""
        try:
            return self._context.step(token or None) or b""
        except self._error as error:
            raise GssError(_text(error)) from None

    def wrap(self, message: bytes) -> bytes:
        """As `GssContext.wrap`."""
        try:
            return bytes(self._context.wrap(message, False).message)
        except self._error as error:
            raise GssError(_text(error)) from None

    def unwrap(self, message: bytes) -> bytes:
        """As `GssContext.unwrap`."""
        try:
            return bytes(self._context.unwrap(message).message)
        except self._error as error:
            raise GssError(_text(error)) from None
