"""Has schemathesis send lines of JSON."""
import json
import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    if isinstance(value, (bytes, str)):
        return value if isinstance(value, bytes) else value.encode()
    return b"".join(json.dumps(each).encode() + b"\n" for each in (value if isinstance(value, list) else [value]))
