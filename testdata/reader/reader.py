"""Reads stores as docs/format.md has them, and logs as docs/hybridlog-format.md has them.

    python3 reader.py check DIR       the verdict, as 'copal check' gives it
    python3 reader.py export DIR      the entries, as 'copal export' writes them
    python3 reader.py hybridlog DIR   the entries of a log of bytes
    python3 reader.py serve           answers questions, a line of JSON each

It is written from these pages alone, with nothing but Python's own library, and it is their test: where
it had to guess, the page was mended. It reads copies: the life of the page cache is nothing to it.
"""

import hashlib
import json
import sys
import time

from export import Export
from hybridlog import Log
from store import Store
from texts import Damaged, Newer, NoStore


def judge(path, now):
    """judge is the verdict on a store and, where that is sound, its export."""
    store = Store(path)
    answer = {"keys": store.check(now), "records": store.records, "torn": store.torn}
    return answer | {"export": Export(store, now).text()}


def judge_log(path, _):
    """judge_log is the verdict on a log of bytes and, where that is sound, what is in it."""
    log, entries, sums = Log(path), [], hashlib.sha256()
    for address, data in log.entries():
        entries.append([address, len(data)])
        sums.update(data)
    return {"first": log.first, "end": log.end, "entries": entries, "sha256": sums.hexdigest()}


JUDGES = {"store": judge, "hybridlog": judge_log}


def verdict(what, path, now):
    try:
        return {"verdict": "sound"} | JUDGES[what](path, now)
    except Damaged as e:
        return {"verdict": "damaged", "why": str(e)}
    except Newer as e:
        return {"verdict": "newer", "why": str(e)}
    except NoStore:
        return {"verdict": "no store"}


def serve():
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(verdict(question["what"], question["dir"], question["now"])), flush=True)


def main(args):
    if args == ["serve"]:
        return serve()
    if len(args) != 2 or args[0] not in ("check", "export", "hybridlog"):
        sys.stderr.write(__doc__)
        return 2
    answer = verdict("hybridlog" if args[0] == "hybridlog" else "store", args[1], int(time.time() * 1000))
    export, why = answer.pop("export", ""), answer.get("why", "")
    if args[0] == "export" and answer["verdict"] == "sound":
        sys.stdout.buffer.write(export.encode())
    elif args[0] == "hybridlog":
        print(json.dumps(answer))
    else:
        print(answer["verdict"], why or ", ".join(f"{answer[n]} {n}" for n in ("records", "keys", "torn") if n in answer))
    return 0 if answer["verdict"] == "sound" else 6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
