"""ListTransactions (API key 66): the transactional ids that this broker coordinates, for administrators (KIP-664).

Behaviour: an empty filter matches all ids. The response repeats unknown states. Ids that the principal may not describe
are left out. COORDINATOR_LOAD_IN_PROGRESS while a partition is being loaded.

Versions: 1 transactions that have been running for longer than ``duration_filter`` milliseconds (KIP-994); 2 ids that
match a regular expression as a whole, in RE2's syntax: INVALID_REGULAR_EXPRESSION (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.codec.messages.list_transactions_request import ListTransactionsRequest
from kwire.codec.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from kwire.codec.protocol import ApiKey
from kwire.coordinator.transactions.records import STATES_BY_TEXT, Transaction
from kwire.handlers.api import Api
from kwire.handlers.authorization import is_allowed, transactional_id_operation
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import AclOperation


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    """List the transactions that match all filters."""
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES_BY_TEXT]
    wanted = _filter(request, context.services.doors.clock.time_ms())
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.text,
            )
            for one in context.services.transactions.transactions()
            if wanted(one)
            and is_allowed(context, transactional_id_operation(AclOperation.DESCRIBE, one.transactional_id))
        ],
    )


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    states = {STATES_BY_TEXT[name] for name in request.state_filters if name in STATES_BY_TEXT}
    producers = frozenset(request.producer_id_filters)
    duration_ms = request.duration_filter
    matches = _matcher(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def wanted(one: Transaction) -> bool:
        return (
            (not producers or one.producer_id in producers)
            and (not request.state_filters or one.state in states)
            and (duration_ms < 0 or now_ms - one.start_ms > duration_ms)
            and (matches is None or matches(one.transactional_id))
        )

    return wanted


def _matcher(pattern: str) -> Callable[[str], bool]:
    from kwire.coordinator.groups.consumer.topics import compile_regex

    compiled = compile_regex(pattern)
    return lambda text: compiled.fullmatch(text) is not None


API = Api(ApiKey.LIST_TRANSACTIONS, served=(0, 2), handle=handle)
