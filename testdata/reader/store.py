"""A store: which records count, and what they mean."""

import re

from keys import key_range
from records import Record
from texts import Damaged, Directory, Mark, Newer, NoStore, Ring, fields, file_name, number, place, read_mark, segment_named, unseal


class Segment:
    """Segment is what a line of the manifest says of a segment, and its file."""

    def __init__(self, words):
        self.sealed, self.name, self.id = words[0] == "sealed", words[1], place(words[1])
        self.salt, self.bytes, self.records, self.first, self.last = (number(w) for w in words[2:])

    def open(self, directory, store):
        self.text = directory[file_name(self.name)]
        head = self.text[:256].find(b"\n") + 1
        w = fields(
            "segment <s> salt <16> start <h> store <16>(?: through <h>)?",
            unseal(self.text[:head], "log"),
            "the first line of a segment",
        )
        if w[0] != self.name or number(w[1]) != self.salt or number(w[3]) != store:
            raise Damaged(f"{file_name(self.name)} is not the segment that MANIFEST names")
        self.head, self.found = head, {}  # found are the records by their offsets


class Store:
    """Store is what the log in a directory holds. It raises Damaged, Newer or NoStore."""

    def __init__(self, path):
        d = self.directory = Directory(path)
        self.next, self.whole, self.torn, self.records = 1, 1, 0, 0
        self.waiting, self.entries, self.elements, self.ranges = {}, {}, {}, []
        self.schemas, self.maps, self.parts = {}, {}, {}
        self.segments, self.ring, self.mark, self.hole = [], None, None, False
        self.unfinished()
        if "MANIFEST" not in d:
            return self.without_manifest()
        self.manifest()
        mark = read_mark(d, "synced", "store", "offset", "seq", self.id)
        if mark and mark.manifest > self.edit:
            raise Damaged("MANIFEST is older than SYNCED")
        self.bounds(mark)
        self.go_on(self.floor + 1)
        self.left_over(max((s.id for s in self.segments), default=(0, 0)))
        self.open_ring()
        for s in self.segments:
            s.open(d, self.id)
        for s in self.segments:
            self.segment(s)
        if self.mark and self.mark.seq >= self.next:
            raise Damaged("the log ends before what was synced")
        self.next = max(self.next, self.floor + 1)
        self.settle()

    def unfinished(self):
        """unfinished refuses a directory in which a store is being made."""
        if "UNFINISHED" not in self.directory:
            return
        body = unseal(self.directory["UNFINISHED"], "unfinished")
        if fields(r"work (\S+) source (\S+)", body, "UNFINISHED")[0] not in ("import", "copy"):
            raise NoStore()

    def without_manifest(self):
        d = self.directory
        if not any(segment_named(n) for n in d.files) and "LOCK" not in d:
            raise NoStore()
        for name in ("RING", "SYNCED", "BACKUP"):
            if name in d:
                raise Damaged(f"MANIFEST is missing, and there is {name}")
        self.left_over((0, 0))

    def manifest(self):
        text = self.directory["MANIFEST"]
        body = unseal(text, "manifest")
        lines = body.split("\n")
        if lines[-1] != "end" or len(lines) < 2:
            raise Damaged("MANIFEST has no end")
        w = fields("store <16> created <h> edit <h> floor <h>", lines[0], "MANIFEST")
        self.id, self.edit, self.floor = number(w[0]), number(w[2]), number(w[3])
        self.writing = None
        for word in ("writing ", "history "):
            if sum(line.startswith(word) for line in lines) > 1:
                raise Damaged(f"two lines {word}of MANIFEST")
        for line in lines[1:-1]:
            if re.match("(sealed|open) ", line):
                s = "(sealed|open) <s> salt <16> bytes <h> records <h> first <h> last <h>"
                self.segments.append(Segment(fields(s, line, "MANIFEST")))
            elif line.startswith("writing "):
                self.writing = number(fields("writing <16> cache <w> file <w>", line, "MANIFEST")[0])
            elif line.startswith("history "):
                fields("history <h> time <h> for (?:ever|<h>)(?: bytes (?:[1-9a-f][0-9a-f]{0,14}|[1-7][0-9a-f]{15}))?", line, "MANIFEST")
            elif not re.match("[a-z]", line):
                raise Newer(f"a line of MANIFEST: {line[:60]!r}")
        if any(not 0 < s.bytes <= 1 << 32 or s.last < s.first for s in self.segments):
            raise Damaged("the bounds of a segment of MANIFEST")
        for a, b in zip(self.segments, self.segments[1:]):
            if a.id >= b.id or b.sealed and not a.sealed:
                raise Damaged("segments of MANIFEST are out of order")

    def bounds(self, mark):
        """bounds finds out up to where the log was synced: by the manifest, or by the mark if that is farther."""
        stated = None
        for s in self.segments:
            stated = Mark(0, s.id, s.bytes, max(self.floor, s.last, stated.seq if stated else 0))
            if not s.sealed:
                break
        if mark is None or stated and (stated.segment, stated.offset) > (mark.segment, mark.offset):
            mark = stated
        self.mark = mark

    def left_over(self, newest):
        """left_over looks at files of segments that the manifest does not name."""
        for name, text in self.directory.files.items():
            segment = segment_named(name)
            if not segment or place(segment) <= newest or "BACKUP" in self.directory:
                continue
            line = text.find(b"\n") + 1
            try:
                unseal(text[:line], "log")
                whole = line == len(text)
            except Damaged:
                whole = len(text) <= 128 and line in (0, len(text))
            if not whole:
                raise Damaged(f"MANIFEST does not name {name}, which holds more than its first line")

    def open_ring(self):
        if "RING" not in self.directory:
            if self.writing:
                raise Damaged("RING is missing")
            return
        try:
            ring = Ring(self.directory["RING"], "ring", "store", "id", ["size"])
        except Damaged:
            return  # a power cut has left it unwritten
        if ring.store != self.id or self.writing and ring.id != self.writing:
            if self.writing:
                raise Damaged("RING is not the one that MANIFEST names")
            return
        self.ring = ring if ring.whole else None

    # Records in their order

    def segment(self, s):
        if self.hole:
            self.torn += len(s.text) - s.head
        elif s.sealed:
            self.sealed(s)
        else:
            self.open_end(s)

    def sealed(self, s):
        if s.records:
            self.go_on(s.first)
        at, n, text = s.head, 0, s.text[: s.bytes]
        if len(text) < s.bytes:
            raise Damaged(f"segment {s.name} ends early")
        while at < s.bytes:
            record = Record(text, at, s.salt)
            self.take(s, at, record)
            at, n = at + record.bytes, n + 1
        if n != s.records:
            raise Damaged(f"segment {s.name} has {n} records")
        if s.records:
            self.go_on(s.last + 1)

    def open_end(self, s):
        self.go_on(max(self.next, self.floor + 1))
        at = s.head
        first = self.record_at(s, at)
        if first and first.seq != self.next:
            if first.seq < self.next or self.mark.seq >= self.next:
                raise Damaged(f"segment {s.name} does not follow")
            self.hole = True
            self.torn += len(s.text) - s.head
            return
        while record := self.record_at(s, at, self.next):
            self.take(s, at, record)
            at += record.bytes
        ring = self.ring if self.writing is None else None
        if ring and (record := self.ring_record(s, at)) and record.seq == self.next:
            raise Damaged("MANIFEST is older than RING")
        if (self.mark.segment == s.id and self.mark.offset > at) or (self.mark.segment > s.id and self.mark.seq >= self.next and at < len(s.text)):
            raise Damaged(f"segment {s.name}: no record at {at}, before what was synced")
        if at < len(s.text):
            if self.writing is None:
                raise Damaged(f"segment {s.name} goes on where the store was closed")
            self.torn += len(s.text) - at

    def record_at(self, s, at, seq=None):
        """record_at is the record at an offset: of the file, or else of the ring. None where neither has one."""
        try:
            return Record(s.text, at, s.salt)
        except Damaged:
            pass
        synced = self.mark.offset if self.mark.segment == s.id else 0
        if self.ring is None or self.writing is None or self.mark.segment > s.id or at < synced:
            return None
        record = self.ring_record(s, at)
        return record if record and seq in (None, record.seq) else None

    def ring_record(self, s, at):
        for n in (1024, self.ring.sizes[0]):
            try:
                return Record(self.ring.load(0, at, min(n, self.ring.sizes[0])), at, s.salt, 0)
            except Damaged:
                pass
        return None

    def go_on(self, number):
        if number > self.next:
            self.whole = number  # there may be gaps before it
        self.next = number

    def take(self, s, at, record):
        compacted = s.id[1] > 0
        if record.seq > self.next and not compacted or record.seq < self.next:
            raise Damaged(f"record {record.seq:x} where {self.next:x} was expected")
        self.go_on(record.seq)
        self.next = record.seq + 1
        self.records += 1
        s.found[at] = record
        if record.op == "C":
            self.commit(record)
        elif record.group:
            self.waiting.setdefault(record.group, []).append(record)
        else:
            self.apply(record)

    def commit(self, record):
        members = self.waiting.pop(record.group, [])
        want = number(fields("<h>", record.value.decode(errors="replace"), "a commit")[0])
        if len(members) > want or len(members) < want and record.group >= self.whole:
            raise Damaged(f"group {record.group:x} has {len(members)} members of {want}")
        for member in members:
            member.counts = record.seq
            self.apply(member)

    # What records mean

    def apply(self, record):
        if record.kind == "t":
            n = number(fields("<h>", record.key.decode(errors="replace"), "a schema")[0])
            if n == 0 or self.schemas.setdefault(n, record.value) != record.value:
                raise Damaged(f"schema {n:x} is written twice")
        elif record.kind == "s":
            if record.key.startswith(b"map:"):
                self.maps[record.key[4:]] = record.op == "S"
        elif record.op == "R":
            self.ranges.append((record, key_range(record)))
        elif record.op != "P":
            table = self.elements if record.kind == "e" else self.entries
            entry = table.get((record.space, record.key))
            if entry is None or entry.counts <= record.counts:
                table[record.space, record.key] = record

    def settle(self):
        """settle takes out what range deletions delete."""
        for table, kinds in ((self.entries, "v"), (self.elements, "e")):
            ranges = [(r, has) for r, has in self.ranges if r.kind in kinds]
            for (space, key), record in list(table.items()) if ranges else ():
                for r, has in ranges:
                    if r.space == space and record.counts < r.counts and (not record.group or record.group != r.group) and has(key):
                        del table[space, key]
                        break

    def live(self, now):
        """live are the entries of key space 0 at a time, in Unix milliseconds: records by their keys."""
        for (space, key), record in sorted(self.entries.items()):
            if space == 0 and record.op == "S" and not 0 < record.expiry <= now:
                yield key, record

    def value(self, record):
        if "L" not in record.attributes:
            return record.value
        size, *places = record.value.decode(errors="replace").split(" ")
        piece, out, first = number(fields("<h>", size, "a list of parts")[0]), [], None
        for index, word in enumerate(places):
            name, offset = fields(r"<s>\.<h>", word, "a list of parts")
            segment = next((s for s in self.segments if s.name == name), None)
            part = segment and segment.found.get(number(offset))
            if not part or part.op != "P" or part.attributes["I"] != index or part.key != record.key:
                raise Damaged("a part of a value is missing")
            first = first or part.attributes["V"]
            if part.attributes["V"] != first or index + 1 < len(places) and len(part.value) != piece:
                raise Damaged("a part is of another value")
            out.append(part.value)
        if sum(map(len, out)) != record.attributes["L"]:
            raise Damaged("the parts of a value do not add up")
        return b"".join(out)

    def collections(self):
        """collections are the elements of each collection that elements say they are of: by id, sub-keys in order."""
        found = {}
        for (space, key), record in sorted(self.elements.items()):
            m = re.match(rb"([1-9a-f][0-9a-f]*):", key)
            if space == 0 and m and record.op == "S":
                found.setdefault(number(m[1]), []).append((key[m.end() :], record))
        return found

    def schema(self, record):
        """schema is codec and type of a value, None for raw bytes."""
        if record.schema == 0:
            return None
        if record.schema not in self.schemas:
            raise Damaged(f"schema {record.schema:x} is not in the log")
        codec, _, text = self.schemas[record.schema].partition(b" ")
        return codec, text

    def check(self, now):
        """check reads each entry, and returns how many there are."""
        keys, elements = 0, self.collections()
        for _, record in self.live(now):
            keys += 1
            if record.kind == "v":
                self.schema(record)
                self.value(record)
                continue
            of = Collection(record)
            for _, element in elements.get(of.id, ()):
                self.schema(element)
                self.value(element)
            if not elements.get(of.id):
                raise Damaged("a collection has no elements")
        return keys

    def map_names(self, now):
        """map_names are the names of declared maps that have entries."""
        used = {key.partition(b":")[0] for key, _ in self.live(now) if b":" in key}
        return sorted(unescape(name) for name, there in self.maps.items() if there and name in used)


class Collection:
    """Collection is what a meta says: the type, the id and, where it says so, the key that it had before."""

    def __init__(self, record):
        w = fields(r"([^ ]+) <h>(?: from (?s:.*))?", record.value.decode("latin-1"), "a meta")
        self.type, self.id = w[0], number(w[1])


def unescape(name):
    return re.sub(rb"%([0-9a-f]{2})", lambda m: bytes([number(m[1])]), name)
