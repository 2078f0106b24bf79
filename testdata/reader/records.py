"""Records: lines of the log, each with a checksum over its place."""

import re
import struct

from texts import HEX, Damaged, Newer, crc32c, fields, number

HEAD = re.compile(
    rb"([0-9a-f]{8}) ([A-Z])([a-z]) H H H H((?: [A-Zg-z][!-~]*)*) H H ".replace(b"H", HEX.encode())
)
NUMBERS = "GILVX"


class Record:
    """Record is the one at an offset of text, or it raises Damaged."""

    def __init__(self, text, offset, salt, at=None):
        m = HEAD.match(text, at if at is not None else offset)
        if not m or m.end() - m.start() > 512:
            raise Damaged("no record")
        self.key_bytes, self.value_bytes = number(m[9]), number(m[10])
        if self.key_bytes > 0x10000 or self.value_bytes > 0x1000000:
            raise Damaged("no record")
        key, value = m.end(), m.end() + self.key_bytes + 1
        self.bytes = value + self.value_bytes + 1 - m.start()
        if m.start() + self.bytes > len(text):
            raise Damaged("the record is incomplete")
        if crc32c(text[m.start() + 8 : m.start() + self.bytes], crc32c(struct.pack(">QQ", salt, offset))) != int(m[1], 16):
            raise Damaged("the checksum of a record")
        self.op, self.kind = m[2].decode(), m[3].decode()
        self.space, self.schema, self.seq, self.time = (number(m[i]) for i in range(4, 8))
        self.attributes = self.parse(m[8].decode().split())
        self.key, self.value = text[key : key + self.key_bytes], text[value : value + self.value_bytes]
        if text[value - 1 : value] != b" " or text[m.start() + self.bytes - 1 : m.start() + self.bytes] != b"\n":
            raise Damaged("no record")
        if self.op not in "SDPCRE" or self.kind not in "vmets" or any(a.isupper() and a not in NUMBERS for a in self.attributes):
            raise Newer("a record")
        if self.op == "E" and "X" not in self.attributes:
            raise Damaged("the end of an entry without its deadline")
        self.group, self.expiry = self.attributes.get("G", 0), self.attributes.get("X", 0)
        self.counts = self.seq  # or the number of the group's commit

    def parse(self, words):
        found = {}
        for word in words:
            letter, argument = word[0], word[1:]
            if found and letter <= max(found):
                raise Damaged("attributes out of order")
            if letter in NUMBERS:
                (argument,) = fields("<h>", argument, "an attribute")
                argument = number(argument)
                if argument == 0 and letter != "I":
                    raise Damaged("an attribute of zero")
            elif not 1 <= len(argument) <= 128:
                raise Damaged("an attribute")
            found[letter] = argument
        if ("I" in found) != (self.op == "P") or ("V" in found) != (self.op == "P"):
            raise Damaged("a part")
        return found
