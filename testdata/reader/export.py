"""The export of a store: docs/export-format.md."""

import base64
import datetime
import json
import re

from store import Collection
from texts import crc32c


class Export:
    def __init__(self, store, now):
        self.lines, self.crc, self.schemas, self.store = [], 0, [], store
        elements = store.collections()
        self.write(f'"copal":"export","version":1,"seq":{store.next - 1},"time":{json_time(now)}')
        for name in store.map_names(now):
            self.write(f'"map":{json_name(name)}')
        count = 0
        for key, record in store.live(now):
            count += 1
            schema = self.schema(record)
            line = f'"key":{json_name(key)}{schema}'
            if "t" in record.attributes:
                line += f',"content":{json_string(record.attributes["t"])}'
            if record.expiry:
                line += f',"expires":{json_time(record.expiry)}'
            if record.kind == "v":
                self.value(line, store.value(record))
                continue
            of = Collection(record)
            list_ = elements.get(of.id, [])
            self.write(f'{line},"collection":{json_string(of.type)},"elements":{len(list_)}')
            for sub, element in list_:
                schema = self.schema(element)
                self.value(f'"element":{json_name(sub)}{schema}', store.value(element))
        self.write(f'"end":{count},"crc32c":"{crc32c("".join(self.lines).encode()):08x}"')

    def text(self):
        return "".join(self.lines)

    def write(self, line):
        self.lines.append("{" + line + "}\n")

    def schema(self, record):
        schema = self.store.schema(record)
        if not schema:
            return ""
        if schema not in self.schemas:
            self.schemas.append(schema)
            codec, text = map(json_name, schema)
            self.write(f'"schema":{len(self.schemas)},"codec":{codec},"type":{text}')
        return f',"schema":{self.schemas.index(schema) + 1}'

    def value(self, line, value):
        mib = 1 << 20
        if len(value) <= mib:
            self.write(f"{line},{json_value(value)}")
            return
        self.write(f'{line},"bytes":{len(value)}')
        part = 0
        while value:
            n = min(mib, len(value))
            if n < len(value):  # a piece does not end within a character
                start = next((i for i in range(n, n - 4, -1) if value[i] & 0xC0 != 0x80), n)
                n = start
            part += 1
            self.write(f'"part":{part},{json_piece(value[:n])}')
            value = value[n:]


ESCAPES = {i: f"\\u{i:04x}" for i in range(32)} | {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 92: "\\\\"}


def json_string(text):
    return '"' + text.translate(ESCAPES) + '"'


def json_name(b):
    try:
        return json_string(b.decode())
    except UnicodeDecodeError:
        return '{"base64":"' + base64.b64encode(b).decode() + '"}'


def json_time(ms):
    if ms >= 253402300800000:
        return str(ms)
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ms)
    return f'"{at.isoformat(timespec="milliseconds")}Z"'


def no_constant(_):
    raise ValueError


def json_value(value):
    try:
        text = value.decode()
        if text == text.strip(" \t\r\n") and not re.search("[\r\n]", text):
            json.loads(text, parse_int=len, parse_float=len, parse_constant=no_constant)
            return '"value":' + text
    except ValueError:
        pass
    return json_piece(value)


def json_piece(value):
    encoded = base64.b64encode(value).decode()
    try:
        quoted = json_string(value.decode())
        if len(quoted.encode()) - 2 <= len(encoded):
            return '"text":' + quoted
    except UnicodeDecodeError:
        pass
    return f'"base64":"{encoded}"'
