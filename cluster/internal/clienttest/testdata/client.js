// Uses a cluster with ioredis's Cluster. Usage: client.js HOST:PORT. See ../doc.go.
const assert = require("node:assert/strict");
const readline = require("node:readline");
const Redis = require("ioredis");

const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// ask makes the test change the leader of a key.
async function ask(request) {
  console.log(request);
  assert.equal((await answers.next()).value, "done");
}

const at = process.argv[2].lastIndexOf(":");
const nodes = [{ host: process.argv[2].slice(0, at), port: Number(process.argv[2].slice(at + 1)) }];

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// eventually calls f until it succeeds. Only errors of a change of the leader may come before.
async function eventually(f) {
  const limit = Date.now() + 120_000;
  for (let failures = 0; ; failures++) {
    try {
      await f();
      return failures;
    } catch (err) {
      const text = `${err.message} ${err.lastNodeError ? err.lastNodeError.message : ""}`;
      const passing = /UNKNOWN|TRYAGAIN|CLUSTERDOWN|ClusterAllFailed|Failed to refresh|Connection is closed|max retries|Too many Cluster redirections|ECONN|timed out/;
      if (!passing.test(text) || Date.now() > limit) throw err;
    }
    await sleep(20);
  }
}

async function strings(c) {
  for (let i = 0; i < 50; i++) assert.equal(await c.set(`js:${i}`, i), "OK");
  for (let i = 0; i < 50; i++) assert.equal(await c.get(`js:${i}`), String(i));
  assert.equal(await c.get("js:absent"), null);
  await c.mset({ "js:{m}1": "a", "js:{m}2": "b" });
  assert.deepEqual(await c.mget("js:{m}1", "js:{m}9", "js:{m}2"), ["a", null, "b"]);
  assert.equal(await c.incrby("js:n", 7), 7);
  assert.equal(await c.incr("js:n"), 8);
  await assert.rejects(c.incr("js:{m}1"), /not an integer/);
}

async function expiry(c) {
  await c.set("js:e", "v", "EX", 100);
  const ttl = await c.ttl("js:e");
  assert.ok(ttl > 90 && ttl <= 100, `TTL ${ttl}`);
  assert.equal(await c.persist("js:e"), 1);
  assert.equal(await c.pexpire("js:e", 50), 1);
  const limit = Date.now() + 120_000;
  while (await c.exists("js:e")) {
    assert.ok(Date.now() < limit, "the key does not expire");
    await sleep(10);
  }
}

async function transaction(c) {
  const replies = await c.multi().set("js:{t}1", 1).incr("js:{t}1").get("js:{t}1").exec();
  assert.deepEqual(replies, [[null, "OK"], [null, 2], [null, "2"]]);
  const pipeline = await c.pipeline().incr("js:{p}").incr("js:{p}").exec();
  assert.deepEqual(pipeline, [[null, 1], [null, 2]]);
}

// replicas reads from the nodes that the client takes for replicas: values may be old, but each read has an answer.
async function replicas() {
  for (const scaleReads of ["slave", "all"]) {
    const r = new Redis.Cluster(nodes, { scaleReads });
    await Promise.all(Array.from({ length: 50 }, (_, i) => r.get(`js:${i}`)));
    r.disconnect();
  }
}

async function transfer(c) {
  await c.set("js:{moves}", 1);
  await ask("transfer js:{moves}");
  assert.equal(await c.incr("js:{moves}"), 2);
  assert.equal(await c.get("js:{moves}"), "2");
}

async function death(c) {
  for (let i = 0; i < 20; i++) await c.set(`js:{dies}${i}`, i);
  await ask("kill js:{dies}");
  const failures = await eventually(() => c.set("js:{dies}20", 20));
  console.log(`note the first write succeeded after ${failures} that failed`);
  for (let i = 21; i < 100; i++) await eventually(() => c.set(`js:{dies}${i}`, i));
  for (let i = 0; i < 100; i++) await eventually(async () => assert.equal(await c.get(`js:{dies}${i}`), String(i)));
}

async function main() {
  const c = new Redis.Cluster(nodes);
  for (const check of [strings, expiry, transaction, replicas, transfer, death]) await check(c);
  console.log("ok");
  c.disconnect();
  process.exit(0);
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
