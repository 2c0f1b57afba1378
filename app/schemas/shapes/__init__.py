"""What answers look like, as ``TypedDict``: the response schemas of the OpenAPI document are made from these.

Law of this room: members are spelled as they are on the wire. One that may be absent is ``NotRequired``; one that
may be null says so. Nothing here is imported before somebody asks for the document.
"""
