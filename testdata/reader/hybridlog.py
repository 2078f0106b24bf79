"""A log of bytes: docs/hybridlog-format.md."""

import struct

from texts import Damaged, Directory, Ring, crc32c, fields, file_name, number, place, read_mark, segment_named, unseal

BLOCK = 4096


class Frame:
    """Frame is the n-th of a segment, of bytes from begin on, or it raises Damaged."""

    def __init__(self, b, n, begin, seal):
        if len(b) < 16:
            raise Damaged("no frame")
        word, self.sum, check = struct.unpack(">QII", b[:16])
        self.end, self.entry = word & ~(1 << 63), word >> 63 == 1
        if check != crc32c(b[:12], crc32c(struct.pack(">Q", n), seal)):
            raise Damaged("no frame")
        if begin is None:
            begin = max(self.end - 1, 0)
        block = (begin // BLOCK + 1) * BLOCK
        if not begin < self.end <= block or not self.entry and self.end != block:
            raise Damaged("a frame that is elsewhere")


class Segment:
    """Segment is what a line of the manifest says of a segment, and its files."""

    def __init__(self, line):
        if line.startswith("sealed "):
            w = fields("sealed <s> salt <16> start <h> bytes <h> frames <h>", line, "MANIFEST")
            self.sealed, self.start, self.bytes, self.frames = True, *map(number, w[2:])
        else:
            w = fields("open <s> salt <16> bytes <h> frames <h> sum ([0-9a-f]{8})", line, "MANIFEST")
            self.sealed, self.known = False, tuple(map(number, w[2:]))
        self.name, self.salt, self.id = w[0], number(w[1]), place(w[0])
        self.found = {}  # frames that recovery has found, with their bytes
        self.skipped = (0, 0, 0)  # bytes, frames, and the sum of the block up to there

    def open(self, directory):
        self.text, self.sums = directory[file_name(self.name)], directory[file_name(self.name, ".sum")]
        w = fields("log <16> segment <s> salt <16>", unseal(self.sums[:128], "hybridsums").rstrip(" "), "the first line of frames")
        if w[1] != self.name or number(w[2]) != self.salt:
            raise Damaged(f"the frames of segment {self.name} are of another")
        self.begun = beginning(self.sums, self.salt)
        self.slots = max(len(self.sums) - 144, 0) // 16

    def seal(self):
        return crc32c(struct.pack(">QQ", self.salt, self.start))

    def frame(self, n):
        return self.sums[144 + 16 * n : 160 + 16 * n] if n < self.slots else b""


def beginning(sums, salt):
    """beginning is the address at which a segment begins, None where that is not said."""
    if len(sums) < 144:
        return None
    start, crc, zeros = struct.unpack(">QII", sums[128:144])
    return start if zeros == 0 and crc == crc32c(struct.pack(">QQ", salt, start)) else None


class Log:
    """Log is what a directory holds. It raises Damaged or Newer."""

    def __init__(self, path):
        d = self.directory = Directory(path)
        self.segments, self.first, self.end, self.torn, self.ring = [], 0, 0, False, None
        if "MANIFEST" not in d:
            self.nothing_newer(0)
            for name in ("RING", "SYNCED"):
                if d.files.get(name) or name == "RING" and name in d:
                    raise Damaged(f"MANIFEST is missing, and there is {name}")
            return
        self.manifest()
        self.mark = read_mark(d, "hybridmark", "log", "end", "frames", self.id)
        if self.mark and self.mark.manifest > self.edit:
            raise Damaged("MANIFEST is older than SYNCED")
        self.nothing_newer(max(s.id[0] for s in self.segments))
        self.open_ring()
        self.end = self.begin
        self.find_ends()
        if self.end < self.first:
            raise Damaged("the log ends before what is trimmed")

    def manifest(self):
        lines = unseal(self.directory["MANIFEST"], "hybridlog").split("\n")
        if len(lines) < 3 or lines[-1] != "end":
            raise Damaged("MANIFEST has no end")
        w = fields("log <16> edit <h> begin <h> first <h> trimmed <h> frames <h> sum ([0-9a-f]{8})", lines[0], "MANIFEST")
        self.id, self.edit, self.begin, self.first, *trimmed = map(number, w)
        self.trimmed = tuple(trimmed)
        self.running = lines[1].startswith("running ")
        if self.running:
            w = fields("running ring <16> spent <16> cache <w> file <w>", lines[1], "MANIFEST")
            self.ring_id, self.spent = number(w[0]), number(w[1])
        else:
            self.ring_id, self.spent = 0, number(fields("closed spent <16>", lines[1], "MANIFEST")[0])
        self.segments = [Segment(line) for line in lines[2:-1]]
        if not self.segments or self.segments[-1].sealed == self.running:
            raise Damaged("the last segment of MANIFEST")
        self.segments[0].skipped = self.trimmed

    def nothing_newer(self, newest):
        """nothing_newer looks for files of segments that the manifest does not know, and that hold something."""
        for name, text in self.directory.files.items():
            log, sums = segment_named(name), segment_named(name, ".sum")
            if not (log or sums) or place(log or sums)[0] <= newest:
                continue
            if log and text or sums and len(text) > 128 and self.says_beginning(text):
                raise Damaged(f"MANIFEST does not know {name}")

    def says_beginning(self, sums):
        try:
            w = fields("log <16> segment <s> salt <16>", unseal(sums[:128], "hybridsums").rstrip(" "), "frames")
        except Damaged:
            return True
        return beginning(sums, number(w[2])) is not None

    def open_ring(self):
        ring = None
        if "RING" in self.directory:
            ring = Ring(self.directory["RING"], "hybridring", "log", "ring", ["bytes", "frames"])
            if ring.store != self.id or not ring.whole:
                raise Damaged("RING is of another log, or was cut")
        if self.ring_id == 0:
            if ring and ring.id != self.spent and any(ring.parts[1]):
                raise Damaged("MANIFEST is older than RING")
        elif ring is None or ring.id != self.ring_id:
            raise Damaged("RING is not the one that MANIFEST names")
        else:
            self.ring = ring

    def find_ends(self):
        first_open = True
        for s in self.segments:
            s.open(self.directory)
            if s.sealed:
                if s.begun != s.start or len(s.text) < s.bytes or s.slots < s.frames:
                    raise Damaged(f"the files of segment {s.name}")
                self.end = s.start + s.bytes
                continue
            if s.known[1] > s.skipped[1]:
                s.skipped = s.known
            s.start, s.bytes, s.frames = self.end, 0, 0
            if not self.torn:
                self.scan(s, first_open)
            first_open = False
            if self.mark and self.mark.segment == s.id and s.bytes < self.mark.offset:
                raise Damaged("the log ends before what was synced")
        last = self.segments[-1]
        if not self.running and (len(last.text) > last.bytes or len(last.sums) > 144 + 16 * last.frames):
            raise Damaged("the log goes on where it was closed")

    def scan(self, s, first_open):
        end, n, block = s.skipped
        if s.slots < n or len(s.text) < end:
            raise Damaged(f"the files of segment {s.name} end early")
        if s.begun is not None and s.begun != s.start:
            if first_open:
                raise Damaged(f"segment {s.name} does not begin where the one before ends")
            return self.break_off(s, 0)
        s.bytes, s.frames = end, n
        if (mark := self.mark) and mark.segment == s.id and mark.seq > n and not self.synced(s):
            raise Damaged(f"segment {s.name} has no frame where it was synced")
        while frame := self.step(s, n, end, block):
            end, n, block = frame.end, n + 1, frame.sum if frame.end % BLOCK else 0
            if frame.entry:
                s.bytes, s.frames = end, n
        if n < s.slots or self.later_in_ring(s, n, end):
            self.break_off(s, end)
        self.end = s.start + s.bytes

    def synced(self, s):
        """synced reports whether the frame is there with which the mark ends."""
        return any(f.end == self.mark.offset and f.entry for f in self.frames(s, self.mark.seq - 1, None))

    def frames(self, s, n, begin):
        """frames are the n-th of the file, and of the ring, as far as they are frames."""
        seal = s.seal()
        for b in (s.frame(n), self.ring.load(1, 16 * n, 16) if self.ring else b""):
            try:
                yield Frame(b, n, begin, seal)
            except Damaged:
                pass

    def step(self, s, n, begin, block):
        for frame in self.frames(s, n, begin):
            for b in (s.text[begin : frame.end], self.ring.load(0, begin, frame.end - begin) if self.ring else b""):
                if len(b) == frame.end - begin and crc32c(b, block) == frame.sum:
                    s.found[n] = frame, b
                    return frame
        return None

    def later_in_ring(self, s, n, end):
        if not self.ring:
            return False
        for number_ in range(n, n + len(self.ring.parts[1]) // 16):
            try:
                frame = Frame(self.ring.load(1, 16 * number_, 16), number_, None, s.seal())
            except Damaged:
                continue
            if frame.entry and frame.end > end:
                return True
        return False

    def break_off(self, s, offset):
        """break_off ends the log at an offset of a segment, though there is more: torn, unless it was synced."""
        self.torn = True
        if self.mark and (self.mark.segment > s.id or self.mark.segment == s.id and self.mark.offset > offset):
            raise Damaged(f"segment {s.name} has something else at {offset}, and was synced")

    def entries(self):
        """entries are the entries behind what is trimmed: addresses and bytes. All bytes are verified."""
        for s in self.segments:
            if s.bytes == 0 or s.start + s.bytes <= self.first:
                continue
            end, n, block = self.trimmed if s is self.segments[0] else (0, 0, 0)
            begin, data = s.start + end, []
            while n < s.frames:
                if found := s.found.get(n):
                    frame, b = found
                else:
                    frame = Frame(s.frame(n), n, end, s.seal())
                    b = s.text[end : frame.end]
                if len(b) < frame.end - end or crc32c(b, block) != frame.sum:
                    raise Damaged(f"the bytes of segment {s.name}")
                data.append(b)
                end, n, block = frame.end, n + 1, frame.sum if frame.end % BLOCK else 0
                if frame.entry:
                    if begin >= self.first:
                        yield begin, b"".join(data)
                    begin, data = s.start + end, []
            if end != s.bytes:
                raise Damaged(f"the frames of segment {s.name}")
