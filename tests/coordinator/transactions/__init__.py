"""Tests of the state machine of transactional ids."""
