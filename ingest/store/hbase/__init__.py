"""The store of a city, in HBase behind its Thrift server; see README.md."""
