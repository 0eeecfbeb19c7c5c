"""The transaction coordinator: transactional ids, the log ``__transaction_state``, transaction markers."""
