"""People's questions about people: who asked what, when and why, before it is answered."""
