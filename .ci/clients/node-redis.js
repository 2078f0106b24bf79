// What node-redis does with copal serve, at the unix socket that is given.

const assert = require("node:assert/strict");
const { createClient, WatchError } = require("redis");
const { version } = require("redis/package.json");

async function use(RESP) {
  const open = () => createClient({ socket: { path: process.argv[2] }, RESP, name: "test", database: 1 }).on("error", console.error).connect();
  const r = await open();
  await r.flushAll();
  assert.equal(await r.ping(), "PONG");
  assert.equal(await r.clientGetName(), "test");
  assert.match(await r.info("server"), /redis_version:7\.2\./);

  assert.equal(await r.set("k", "v", { EX: 100 }), "OK");
  assert.equal(await r.get("k"), "v");
  assert.ok((await r.ttl("k")) > 0);
  assert.equal(await r.set("k", "w", { NX: true }), null);
  assert.equal(await r.incrBy("n", 42), 42);
  await r.pExpire("n", 1);
  await new Promise((done) => setTimeout(done, 50));
  assert.equal(await r.get("n"), null);

  assert.equal(await r.hSet("h", { a: "1", b: "2" }), 2);
  assert.deepEqual({ ...(await r.hGetAll("h")) }, { a: "1", b: "2" });
  assert.equal(await r.rPush("l", ["1", "2"]), 2);
  assert.deepEqual(await r.lRange("l", 0, -1), ["1", "2"]);
  assert.equal(await r.sAdd("s", ["x", "y"]), 2);
  assert.deepEqual([...(await r.sMembers("s"))].sort(), ["x", "y"]);
  await r.zAdd("z", [{ value: "a", score: 1 }, { value: "b", score: 2.5 }]);
  assert.deepEqual(await r.zRangeWithScores("z", 1, 1), [{ value: "b", score: 2.5 }]);
  const keys = [];
  for await (const some of r.scanIterator({ COUNT: 2 })) keys.push(...some);
  assert.deepEqual(keys.sort(), ["h", "k", "l", "s", "z"]);

  const waiter = await open();
  const popped = waiter.blPop("queue", 20);
  await r.rPush("queue", "job");
  assert.deepEqual({ ...(await popped) }, { key: "queue", element: "job" });

  const replies = await Promise.all(Array.from({ length: 1000 }, (_, i) => r.set(`p${i}`, `${i}`)));
  assert.ok(replies.every((reply) => reply === "OK"));
  assert.equal(await r.get("p999"), "999");

  assert.deepEqual(await r.multi().set("t", "1").incr("t").exec(), ["OK", 2]);
  await waiter.watch("t");
  await r.set("t", "changed");
  await assert.rejects(waiter.multi().set("t", "lost").exec(), WatchError);
  await assert.rejects(r.lPush("h", "x"), /^.*WRONGTYPE Operation/);

  const listener = await open();
  const heard = [];
  let enough = () => {};
  const hear = (message, channel) => { heard.push([channel, message]); enough(); };
  const until = (n) => new Promise((done) => { enough = () => { if (heard.length >= n) done(); }; enough(); });
  await listener.subscribe("news", hear);
  assert.equal(await r.publish("news", "it"), 1);
  await until(1);
  await r.configSet("notify-keyspace-events", "KEA");
  await listener.pSubscribe("__keyevent@1__:*", hear);
  await r.set("noted", "1", { PX: 50 });
  await until(4);
  assert.deepEqual(heard, [["news", "it"], ["__keyevent@1__:set", "noted"], ["__keyevent@1__:expire", "noted"], ["__keyevent@1__:expired", "noted"]]);
  await r.configSet("notify-keyspace-events", "");
  for (const client of [listener, waiter, r]) await client.close();
}

use(2).then(() => use(3)).then(
  () => console.log(`node-redis ${version}: ok`),
  (err) => { console.error(`node-redis ${version}:`, err); process.exit(1); },
);
