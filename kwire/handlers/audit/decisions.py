"""`DecisionLog`: a line per decision of the authorizer, with Kafka's logger and levels (`kafka.authorizer.logger`).

- INFO: denied, and the client wanted the operation itself. At most `DENIALS_MAX` lines per principal in ten seconds,
  unless DEBUG is on: nobody can fill the disk with what they are refused. The next line says how many are missing.
- DEBUG: allowed.
- TRACE: everything else: resources that are left out of a list, and the bit fields of authorised operations.

What lives elsewhere: decisions (`kwire.handlers.acl_authorizer`), what was changed (`changes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.base.limited_log import LimitedLog
from kwire.base.logging import DEBUG, get_logger
from kwire.codec.protocol import API_FACTS
from kwire.handlers.context import Purpose
from kwire.security.acls.operations import pascal_case

if TYPE_CHECKING:
    from kwire.handlers.context import RequestContext
    from kwire.security.acls.operations import Operation

LOGGER_NAME: Final = "kafka.authorizer.logger"
DENIALS_MAX: Final = 100


class DecisionLog:
    """The lines of one authorizer. ``logger.level`` says which are wanted."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.logger = get_logger(LOGGER_NAME)
        self._limit = LimitedLog(self.logger, monotonic, by="principal", lines_max=DENIALS_MAX)

    def write(
        self,
        context: RequestContext,
        operation: Operation,
        allowed: bool,
        purpose: Purpose,
        rule: Callable[[], str],
    ) -> None:
        """Write the line of a decision, if the level asks for it. ``rule`` names what decided."""
        logger = self.logger
        fields: dict[str, object] = {}
        if allowed:
            event, write = "allowed", logger.trace if purpose is Purpose.REPORT else logger.debug
        elif purpose is not Purpose.ACCESS:
            event, write = "denied", logger.trace
        else:
            event, write = "denied", logger.info
            if logger.level > DEBUG:
                left_out = self._limit.admits(event, context.principal)
                if left_out is None:
                    return
                if left_out:
                    fields["left_out"] = left_out
        what, kind, name = operation
        facts = API_FACTS.get(context.api_key)
        write(
            event,
            principal=str(context.principal),
            operation=what.name,
            resource=f"{pascal_case(kind.name)}:LITERAL:{name}",
            host=context.client_host[1:],
            client_id=context.client_id,
            api="" if facts is None else pascal_case(facts.stem),
            api_version=context.api_version,
            rule=rule(),
            **fields,
        )
