// What ioredis does with copal serve, at the unix socket that is given.

const assert = require("node:assert/strict");
const { Redis } = require("ioredis");
const { version } = require("ioredis/package.json");

async function use() {
  const open = () => new Redis(process.argv[2], { db: 1, connectionName: "test" });
  const r = open();
  await r.flushall();
  assert.equal(await r.ping(), "PONG");
  assert.equal(await r.client("GETNAME"), "test");
  assert.match(await r.info("server"), /redis_version:7\.2\./);

  assert.equal(await r.set("k", "v", "EX", 100), "OK");
  assert.equal(await r.get("k"), "v");
  assert.ok((await r.ttl("k")) > 0);
  assert.equal(await r.set("k", "w", "NX"), null);
  assert.equal(await r.incrby("n", 42), 42);
  await r.pexpire("n", 1);
  await new Promise((done) => setTimeout(done, 50));
  assert.equal(await r.get("n"), null);

  assert.equal(await r.hset("h", { a: "1", b: "2" }), 2);
  assert.deepEqual(await r.hgetall("h"), { a: "1", b: "2" });
  assert.equal(await r.rpush("l", "1", "2"), 2);
  assert.deepEqual(await r.lrange("l", 0, -1), ["1", "2"]);
  assert.equal(await r.sadd("s", "x", "y"), 2);
  assert.deepEqual((await r.smembers("s")).sort(), ["x", "y"]);
  await r.zadd("z", 1, "a", 2.5, "b");
  assert.deepEqual(await r.zrange("z", 1, 1, "WITHSCORES"), ["b", "2.5"]);
  const keys = [];
  for await (const some of r.scanStream({ count: 2 })) keys.push(...some);
  assert.deepEqual(keys.sort(), ["h", "k", "l", "s", "z"]);

  const waiter = open();
  const popped = waiter.blpop("queue", 20);
  await r.rpush("queue", "job");
  assert.deepEqual(await popped, ["queue", "job"]);

  const pipeline = r.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.set(`p${i}`, i);
  pipeline.get("p999");
  assert.deepEqual((await pipeline.exec())[1000], [null, "999"]);

  assert.deepEqual(await r.multi().set("t", 1).incr("t").exec(), [[null, "OK"], [null, 2]]);
  await waiter.watch("t");
  await r.set("t", "changed");
  assert.equal(await waiter.multi().set("t", "lost").exec(), null);
  await assert.rejects(r.lpush("h", "x"), /WRONGTYPE Operation/);

  const listener = open();
  const heard = [];
  let enough = () => {};
  const until = (n) => new Promise((done) => { enough = () => { if (heard.length >= n) done(); }; enough(); });
  listener.on("message", (channel, message) => { heard.push([channel, message]); enough(); });
  listener.on("pmessage", (_, channel, message) => { heard.push([channel, message]); enough(); });
  await listener.subscribe("news");
  assert.equal(await r.publish("news", "it"), 1);
  await until(1);
  await r.config("SET", "notify-keyspace-events", "KEA");
  await listener.psubscribe("__keyevent@1__:*");
  await r.set("noted", "1", "PX", 50);
  await until(4);
  assert.deepEqual(heard, [["news", "it"], ["__keyevent@1__:set", "noted"], ["__keyevent@1__:expire", "noted"], ["__keyevent@1__:expired", "noted"]]);
  await r.config("SET", "notify-keyspace-events", "");
  for (const client of [listener, waiter, r]) await client.quit();
}

use().then(
  () => console.log(`ioredis ${version}: ok`),
  (err) => { console.error(`ioredis ${version}:`, err); process.exit(1); },
);
