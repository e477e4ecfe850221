"""Pure decisions: the image and a request in, records and a reply out."""
