"""Ranges of keys, and the orders that they are in."""

import datetime
import re
import struct

from texts import Damaged, Newer


def key_range(record):
    """key_range is a function that tells whether a key is in the range of a range deletion."""
    low = record.key
    if not record.value:
        return lambda key: key.startswith(low)
    order, bounded, high = record.value.partition(b" ")
    if order == b"bytes":
        return lambda key: low <= key and (not bounded or key < high)
    by = order_named(order.decode(errors="replace"))
    prefix = low[: low.find(b":") + 1]
    if bounded and not high.startswith(prefix):
        raise Damaged("a range of keys of two maps")
    sort = lambda key: sort_key(by, key[len(prefix) :])  # noqa: E731
    first, last = sort(low), sort(high) if bounded else None
    return lambda key: key.startswith(prefix) and first <= sort(key) and (last is None or sort(key) < last)


class NoKey(Exception):
    pass


def order_named(name):
    """order_named is a function that makes sort keys of keys, or raises NoKey."""
    if name in ORDERS:
        return ORDERS[name]
    parts, rest = parse_parts(name)
    if rest:
        raise Newer(f"the order {name}")
    if re.fullmatch(r"\[\d+\](int|float|bool)", name):
        return parts[0]
    return lambda key: b"\1" + join_parts(parts, key)


def parse_parts(name):
    if name.startswith("struct{"):
        parts, rest = [], ";" + name[7:]
        while rest.startswith(";"):
            more, rest = parse_parts(rest[1:])
            parts += more
        if not rest.startswith("}"):
            raise Newer(f"the order {name}")
        return parts, rest[1:]
    if m := re.match(r"\[(\d+)\]", name):
        if listed := re.match(r"(int|float|bool)(?![a-z])", name[m.end() :]):
            return [listed_order(int(m[1]), ORDERS[listed[1]])], name[m.end() + listed.end() :]
        parts, rest = parse_parts(name[m.end() :])
        return parts * int(m[1]), rest
    m = re.match(r"[a-z]+", name)
    if not m or m[0] not in ORDERS:
        raise Newer(f"the order {name}")
    return [{"bytes": terminated, "hex": lambda b: terminated(of_hex(b)[1:])}.get(m[0], ORDERS[m[0]])], name[m.end() :]


def join_parts(parts, key):
    words = key.split(b"/") if parts or key else []
    if len(words) != len(parts):
        raise NoKey()
    if any(re.search(rb"%(?!2f|25)", w) for w in words):
        raise NoKey()
    return b"".join(of(w.replace(b"%2f", b"/").replace(b"%25", b"%")) for of, w in zip(parts, words))


def listed_order(n, of):
    def order(key):
        words = key.split(b",") if n or key else []
        if len(words) != n:
            raise NoKey()
        return b"".join(map(of, words))

    return order


def terminated(b):
    return b.replace(b"\0", b"\0\xff") + b"\0\0"


def of_int(key):
    if not re.fullmatch(rb"0|-?[1-9][0-9]*", key) or not -(1 << 63) <= int(key) < 1 << 64:
        raise NoKey()
    n = abs(int(key))
    size = (n.bit_length() + 7) // 8
    b = n.to_bytes(size, "big")
    return bytes([0x80 - size]) + bytes(x ^ 255 for x in b) if key[:1] == b"-" else bytes([0x80 + size]) + b


def of_float(key):
    try:
        f = float(key)
    except ValueError:
        raise NoKey()
    if float_text(f) != key:
        raise NoKey()
    if f != f:
        return bytes(8)
    b = struct.pack(">d", f or 0.0)
    return bytes(x ^ 255 for x in b) if b[0] & 0x80 else bytes([b[0] | 0x80]) + b[1:]


def float_text(f):
    """float_text is the one text of a float as a key."""
    if f != f or f in (float("inf"), float("-inf")):
        return b"NaN" if f != f else b"+Inf" if f > 0 else b"-Inf"
    if f == 0:
        return b"0"
    mantissa, _, exponent = f"{f!r}".replace("-", "", 1 if f < 0 else 0).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))  # digits before the point
    digits = digits.rstrip("0")
    sign = "-" if f < 0 else ""
    if not -4 <= point - 1 < 21:
        e = point - 1
        text = digits[0] + ("." + digits[1:] if digits[1:] else "") + f"e{'-' if e < 0 else '+'}{abs(e):02d}"
    elif point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[:point].ljust(point, "0") + ("." + digits[point:] if digits[point:] else "")
    return (sign + text).encode()


def of_bool(key):
    if key not in (b"true", b"false"):
        raise NoKey()
    return bytes([key == b"true"])


def of_time(key):
    m = re.fullmatch(rb"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{9})Z", key)
    if not m:
        raise NoKey()
    year, month, day, hour, minute, second, nano = map(int, m.groups())
    try:  # the year 400 days like the year 0, which Python does not have
        days = datetime.date(year + 400, month, day).toordinal() - datetime.date(400, 1, 1).toordinal()
        datetime.time(hour, minute, second)
    except ValueError:
        raise NoKey()
    return struct.pack(">QI", days * 86400 + hour * 3600 + minute * 60 + second, nano)


def of_hex(key):
    if not re.fullmatch(rb"(?:[0-9a-f]{2})*", key):
        raise NoKey()
    return b"\1" + bytes.fromhex(key.decode())


ORDERS = {"bytes": lambda b: b, "int": of_int, "float": of_float, "bool": of_bool, "time": of_time, "hex": of_hex}


def sort_key(order, key):
    try:
        return order(key)
    except NoKey:
        return b"\xff\xff" + key
