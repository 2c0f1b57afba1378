"""The OpenAPI 3.1 document: a description of every route, and what puts them together.

Law of this room: a description states what a route takes and gives and nothing that the credential table states
already. Imported by whoever asks for the document, never at start; it knows no application and no request.
"""
