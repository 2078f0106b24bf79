"""Texts that end with a checksum, and the small files that stores and logs of bytes have in common."""

import os
import re


def _table():
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        yield n


CASTAGNOLI = list(_table())


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = CASTAGNOLI[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Damaged(Exception):
    pass


class Newer(Exception):
    pass


class NoStore(Exception):
    pass


HEX = "(0|[1-9a-f][0-9a-f]{0,15})"
FIXED = "([0-9a-f]{16})"
WORD = "([^ \n]+)"  # an identity that a platform gives
SEGMENT = "([1-9a-f][0-9a-f]{0,7}(?:-[1-9a-f][0-9a-f]{0,7})?)"


def unseal(text, what):
    """unseal verifies a text 'copal <what> <version> … <crc>⏎' and returns what stands between version and CRC."""
    title = b"copal " + what.encode() + b" "
    if not text.startswith(title) or not re.fullmatch(rb"[0-9a-f]{8}\n", text[-9:]):
        raise Damaged(f"no {what}")
    if crc32c(text[:-9]) != int(text[-9:-1], 16):
        raise Damaged(f"the checksum of {what}")
    version, _, rest = re.split(rb"([ \n])", text[len(title) : -10], 1) if re.search(rb"[ \n]", text[len(title) : -10]) else (text[len(title) : -10], b"", b"")
    if version != b"1":
        raise Newer(f"{what} of version {version.decode(errors='replace')}")
    return rest.decode(errors="surrogateescape")


def fields(pattern, line, what):
    m = re.fullmatch(pattern.replace("<h>", HEX).replace("<16>", FIXED).replace("<s>", SEGMENT).replace("<w>", WORD), line)
    if not m or "<w>" in pattern and any(len(w.encode(errors="surrogateescape")) > 128 for w in m.groups()):
        raise Damaged(f"{what}: {line[:60]!r}")
    return m.groups()


def number(word):
    return int(word, 16)


def place(segment):
    """place is what segments are ordered by: the place in the log, and the generation."""
    first, _, second = segment.partition("-")
    return number(first), number(second or "0")


def file_name(segment, suffix=".log"):
    order, generation = place(segment)
    return f"{order:08x}" + (f"-{generation:08x}" if generation else "") + suffix


def segment_named(name, suffix=".log"):
    """segment_named is the id of the segment whose file has this name, None for another file."""
    m = re.fullmatch(r"([0-9a-f]{8})(?:-([0-9a-f]{8}))?" + re.escape(suffix), name)
    if not m or number(m[1]) == 0 or m[2] and number(m[2]) == 0:
        return None
    return f"{number(m[1]):x}" + (f"-{number(m[2]):x}" if m[2] else "")


class Directory:
    """Directory is a directory in memory."""

    def __init__(self, path):
        self.files = {}
        for name in os.listdir(path):
            if os.path.isfile(os.path.join(path, name)):
                with open(os.path.join(path, name), "rb") as f:
                    self.files[name] = f.read()

    def __contains__(self, name):
        return name in self.files

    def __getitem__(self, name):
        if name not in self.files:
            raise Damaged(f"{name} is missing")
        return self.files[name]


# Small files of both formats


class Mark:
    def __init__(self, manifest, segment, offset, seq, failed=False):
        self.manifest, self.segment, self.offset, self.seq, self.failed = manifest, segment, offset, seq, failed


def read_mark(directory, what, owner, offset, seq, store):
    """read_mark is the newest mark, None where there is none."""
    best, foreign = None, False
    text = directory.files.get("SYNCED", b"")
    for slot in (text[:512], text[512:1024]):
        try:
            line = unseal(slot, what).rstrip(" ")
            w = fields(f"{owner} <16> edit <h> manifest <h> segment <s> {offset} <h> {seq} <h> sync (good|failed)", line, "SYNCED")
        except Damaged:
            continue
        if number(w[0]) != store:
            foreign = True
        elif best is None or number(w[1]) > best[0]:
            best = number(w[1]), Mark(number(w[2]), place(w[3]), number(w[4]), number(w[5]), w[6] == "failed")
    if best is None and foreign:
        raise Damaged("SYNCED is of another store")
    return best and best[1]


class Ring:
    """Ring is the file RING. It is what recovery may use of it, or not usable."""

    def __init__(self, text, what, owner, ident, sizes):
        pattern = f"{owner} <16> {ident} <16> " + " ".join(s + " <h>" for s in sizes) + " file <w>"
        w = fields(pattern, unseal(text[:4096], what).rstrip(" "), "RING")
        self.store, self.id = number(w[0]), number(w[1])
        self.sizes = [number(n) for n in w[2:-1]]
        if not self.id or not all(self.sizes):
            raise Damaged("RING has no bytes")
        self.whole = len(text) == 8192 + sum(self.sizes)
        self.parts, at = [], 8192
        for n in self.sizes:
            self.parts.append(text[at : at + n])
            at += n

    def load(self, part, offset, n):
        """load is what stands at the places of n bytes from an offset of the segment on."""
        data, out = self.parts[part], b""
        while len(out) < n:
            at = (offset + len(out)) % len(data)
            out += data[at : at + n - len(out)]
        return out
