// SPDX-License-Identifier: GPL-2.0
//
// Adds the tasks of a schedule to BullMQ, or works on them.
//
//   node bullmq.mjs add REDIS SCHEDULE BATCH CALLS      prints how many seconds it took
//   node bullmq.mjs work REDIS TASKS OUT [URL]          writes a record of the runs
//
// load.h describes schedules and records. A BATCH of 1 adds one task per call, others use
// addBulk(). CALLS is the number of calls in flight. With URL, the handler calls it, and the
// endpoint measures the lateness. NODE_MODULES is the directory of bullmq and ioredis.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';

const require = createRequire(`${process.env.NODE_MODULES}/`);
const { Queue, Worker } = require('bullmq');
const Redis = require('ioredis');

const NAME = 'bench';
// A finished job leaves nothing behind, like a task of twheeld.
const OPTIONS = { removeOnComplete: true, removeOnFail: true };
const [verb, path, ...args] = process.argv.slice(2);
const connection = new Redis({ path, maxRetriesPerRequest: null });

function now() {
  return performance.timeOrigin + performance.now();
}

// Its JSON text has 200 bytes.
function body(n) {
  const id = n.toString(16).padStart(16, '0');
  return { id, text: 'x'.repeat(200 - 11 - 16 - 8) };
}

async function add([file, batch, calls]) {
  const due = readFileSync(file, 'utf8').trim().split('\n').map(Number);
  const queue = new Queue(NAME, { connection });
  let next = 0;

  await queue.waitUntilReady();
  const begin = now();
  function one(n) {
    const timestamp = Date.now();
    return { name: 't', data: body(n),
      opts: { timestamp, delay: Math.max(0, due[n] - timestamp), ...OPTIONS } };
  }
  async function caller() {
    while (next < due.length) {
      const from = next;
      next = Math.min(due.length, next + Number(batch));
      const jobs = [];
      for (let n = from; n < next; n++)
        jobs.push(one(n));
      if (Number(batch) === 1)
        await queue.add(jobs[0].name, jobs[0].data, jobs[0].opts);
      else
        await queue.addBulk(jobs);
    }
  }
  await Promise.all(Array.from({ length: Number(calls) }, caller));
  console.log(((now() - begin) / 1000).toFixed(6));
  await queue.close();
  connection.disconnect();
}

function call(agent, url, id, text) {
  return new Promise((resolve, reject) => {
    const req = http.request(url, { agent, method: 'POST', headers: { 'twheel-task': id,
      'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } }, (res) => {
      res.resume();
      res.on('end', resolve);
    });
    req.on('error', reject);
    req.end(text);
  });
}

function work([tasks, file, url]) {
  const agent = new http.Agent({ keepAlive: true });
  const seen = [];
  const worker = new Worker(NAME, async (job) => {
    const at = now();
    if (url)
      await call(agent, url, job.data.id, JSON.stringify(job.data));
    seen.push(`${parseInt(job.data.id, 16)} ${Math.round(at * 1e6)}`);
  }, { connection, concurrency: 100 });

  async function end() {
    writeFileSync(file, `${seen.join('\n')}\n`);
    await worker.close(true);
    connection.disconnect();
    process.exit(0);
  }
  worker.on('error', (e) => console.error(e));
  worker.on('ready', () => console.log('ready'));
  process.on('SIGTERM', end);
  setInterval(() => {
    if (seen.length >= Number(tasks))
      setTimeout(end, 300);
  }, 100);
}

if (verb === 'add')
  await add(args);
else
  work(args);
