// The same round on BullMQ: 1 KiB in, 1 KiB out, results gathered and checked by the submitter.
// Usage: node bullmq.mjs PORT JOBS        (submitter; starts two workers)
//        node bullmq.mjs PORT worker      (worker; ends when its input is closed)
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { once } from 'node:events';

const require = createRequire(process.env.BULLMQ_DIR + '/');
const { Queue, QueueEvents, Worker } = require('bullmq');
const [port, what] = process.argv.slice(2);
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const cpuUs = () => { const used = process.cpuUsage(); return used.user + used.system; };

if (what === 'worker') {
  const answer = 'r'.repeat(1024);
  const worker = new Worker('bench', async () => answer, { connection, concurrency: 200 });
  await worker.waitUntilReady();
  process.stdout.write('ready\n');
  process.stdin.resume();
  await once(process.stdin, 'end');
  process.stdout.write(`${cpuUs()}\n`, () => process.exit(0));
} else {
  const jobs = Number(what);
  const queue = new Queue('bench', { connection, streams: { events: { maxLen: 4 * jobs } } });
  const events = new QueueEvents('bench', { connection });
  await events.waitUntilReady();
  const workers = [0, 1].map(() => spawn(process.execPath, [process.argv[1], port, 'worker'],
    { stdio: ['pipe', 'pipe', 'inherit'], env: process.env }));
  for (const worker of workers) await once(worker.stdout, 'data');
  let done = 0, wrong = 0;
  const all = new Promise((resolve) => events.on('completed', ({ returnvalue }) => {
    if (String(returnvalue).length < 1024) wrong += 1;
    done += 1;
    if (done === jobs) resolve();
  }));
  const before = cpuUs(), start = performance.now();
  const data = { text: 'j'.repeat(1000) };
  for (let sent = 0; sent < jobs; sent += 1000) {
    await queue.addBulk(Array.from({ length: Math.min(1000, jobs - sent) }, () => ({ name: 'j', data })));
  }
  const timer = setTimeout(() => { console.error(`only ${done} of ${jobs} ended`); process.exit(1); }, 120000);
  await all;
  clearTimeout(timer);
  const seconds = (performance.now() - start) / 1000, client = cpuUs() - before;
  let worked = 0;
  for (const worker of workers) {
    worker.stdin.end();
    const [text] = await once(worker.stdout, 'data');
    worked += Number(text);
  }
  console.log(JSON.stringify({ jobs_per_s: jobs / seconds, client_us: client / jobs, worker_us: worked / jobs, wrong }));
  process.exit(wrong === 0 ? 0 : 1);
}
