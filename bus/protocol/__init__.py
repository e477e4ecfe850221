"""The Kafka wire protocol: schema tables, the codec generated from them, frames, the API registry.

Never: sockets, or what a request means. Importing this package loads no generated module.
"""
