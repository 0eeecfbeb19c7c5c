"""Clients in Go, Node.js and Rust, and a Kafka Connect worker, each a program of its own."""
