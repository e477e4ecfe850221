"""What is stored, behind one port: `ingest.store.open` opens it; rows and questions are in
`ingest.store.port`."""
