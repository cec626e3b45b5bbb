"""Stores: RocksDB on a local disk, each write atomic with the position it stands for. Knows no Kafka."""
