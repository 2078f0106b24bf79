"""What redis-py does with copal serve, at the unix socket that is given."""

import sys
import threading
import time

import redis

path = sys.argv[1]


def client(**options):
    return redis.Redis(unix_socket_path=path, decode_responses=True, **options)


def same(what, got, want):
    if got != want:
        sys.exit(f"redis-py {redis.__version__}: {what}: {got!r}, want {want!r}")


def messages(pubsub, n):
    """The next n messages, without those about subscriptions."""
    until, found = time.time() + 20, []
    while len(found) < n and time.time() < until:
        message = pubsub.get_message(ignore_subscribe_messages=True, timeout=1)
        if message:
            found.append((message["channel"], message["data"]))
    return found


for protocol in (2, 3):
    r = client(protocol=protocol, client_name="test", db=1)
    r.flushall()
    same("ping", r.ping(), True)
    same("client name", r.client_getname(), "test")
    same("version", r.info("server")["redis_version"][:4], "7.2.")

    same("set", r.set("k", "v", ex=100), True)
    same("get", r.get("k"), "v")
    same("ttl", 0 < r.ttl("k") <= 100, True)
    same("set nx", r.set("k", "w", nx=True), None)
    same("getdel", r.getdel("k"), "v")
    same("incr", r.incrby("n", 41) + r.incr("n"), 83)
    same("expire", (r.pexpire("n", 1), time.sleep(0.05), r.get("n"))[2], None)

    same("hash", (r.hset("h", mapping={"a": "1", "b": "2"}), r.hgetall("h")), (2, {"a": "1", "b": "2"}))
    same("list", (r.rpush("l", "1", "2", "3"), r.lrange("l", 0, -1)), (3, ["1", "2", "3"]))
    same("set of members", (r.sadd("s", "x", "y"), r.smembers("s")), (2, {"x", "y"}))
    r.zadd("z", {"a": 1, "b": 2.5})
    same("sorted set", [tuple(pair) for pair in r.zrange("z", 0, -1, withscores=True)], [("a", 1), ("b", 2.5)])
    same("scan", sorted(r.scan_iter(count=2)), ["h", "l", "s", "z"])
    same("other database", client(db=0).dbsize(), 0)

    found = []
    waiter = threading.Thread(target=lambda: found.append(client(db=1).blpop("queue", timeout=20)))
    waiter.start()
    r.rpush("queue", "job")
    waiter.join()
    same("blpop", [tuple(pair) for pair in found], [("queue", "job")])

    with r.pipeline(transaction=False) as p:
        for i in range(1000):
            p.set(f"p{i}", i)
        p.get("p999")
        same("pipeline", p.execute()[-1], "999")

    def move(p):
        n = int(p.get("p5"))
        p.multi()
        p.set("p5", n + 1).get("p5")

    same("transaction", r.transaction(move, "p5"), [True, "6"])
    with r.pipeline() as p:
        p.watch("p6")
        r.set("p6", "changed")
        p.multi()
        p.set("p6", "lost")
        try:
            p.execute()
            sys.exit("a transaction counts although its key has changed")
        except redis.WatchError:
            pass
    try:
        r.lpush("h", "x")
        sys.exit("a hash was taken for a list")
    except redis.ResponseError as e:
        same("wrong type", str(e), "WRONGTYPE Operation against a key holding the wrong kind of value")

    listener = r.pubsub()
    listener.subscribe("news")
    listener.get_message(timeout=20)
    same("publish", r.publish("news", "it"), 1)
    same("pub/sub", messages(listener, 1), [("news", "it")])
    r.config_set("notify-keyspace-events", "KEA")
    listener.psubscribe("__keyevent@1__:*")
    listener.get_message(timeout=20)
    r.set("noted", "1", px=50)
    same("notifications", messages(listener, 3), [("__keyevent@1__:set", "noted"), ("__keyevent@1__:expire", "noted"), ("__keyevent@1__:expired", "noted")])
    r.config_set("notify-keyspace-events", "")

print(f"redis-py {redis.__version__}: ok")
