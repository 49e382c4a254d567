// Runs a model in ONNX Runtime, as src/measure/measure.cpp runs a graph in rlx. peer_ort.cpp starts it and talks to it in lines:
// first the job as JSON, answered by "ready WHOLE DISPATCHES DIFFERENCE VERSION", then numbers of seconds, each answered by
// "measured WALL_MS CPU_MS RUNS" (medians), or "error TEXT".
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname } from "node:path";
import { createInterface } from "node:readline";

const LEAST_RUNS = 3;
const MOST_RUNS = 2000;
const PROFILED_RUNS = 3;

const say = (...words) => process.stdout.write(`@rlx ${words.join(" ")}\n`);

// --- Arrays of NumPy's files ---

// ONNX Runtime's names of the types, and what its tensors keep them in.
const TYPES = {
  "<f4": ["float32", Float32Array],
  "<f2": ["float16", Uint16Array],
  "<f8": ["float64", Float64Array],
  "<i8": ["int64", BigInt64Array],
  "<u8": ["uint64", BigUint64Array],
  "<i4": ["int32", Int32Array],
  "<u4": ["uint32", Uint32Array],
  "<i2": ["int16", Int16Array],
  "<u2": ["uint16", Uint16Array],
  "|i1": ["int8", Int8Array],
  "|u1": ["uint8", Uint8Array],
  "|b1": ["bool", Uint8Array],
};

function readNpy(path) {
  const file = readFileSync(path);
  const begin = file[6] === 1 ? 10 : 12;
  const end = begin + (file[6] === 1 ? file.readUInt16LE(8) : file.readUInt32LE(8));
  const header = file.toString("latin1", begin, end);
  const [type, Numbers] = TYPES[/'descr': '([^']+)'/.exec(header)[1]];
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].match(/\d+/g)?.map(Number) ?? [];
  return { type, shape, data: new Numbers(new Uint8Array(file.subarray(end)).buffer) };
}

const half = (bits) => {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
};
const numbers = (type) => (type === "float16" ? half : Number);

// --- The session ---

function openSession(ort, job, fallback, extra = {}) {
  const webgpu = job.provider === "webgpu";
  return ort.InferenceSession.create(job.model, {
    executionProviders: [job.provider],
    freeDimensionOverrides: job.dims,
    intraOpNumThreads: webgpu ? 1 : 0,
    logSeverityLevel: webgpu && !fallback ? 4 : 3, // a refused fallback is no error here
    extra: {
      session: {
        disable_cpu_ep_fallback: webgpu && !fallback ? "1" : "0",
        intra_op: { allow_spinning: "0" }, // idle threads that spin would count as CPU time
      },
    },
    ...extra,
  });
}

// Wholly on the provider where that works; else the nodes that it lacks run on the CPU, and the answer says so.
async function openBest(ort, job) {
  try {
    return { session: await openSession(ort, job, false), whole: true };
  } catch (error) {
    if (!String(error).includes("fallback to CPU EP")) throw error;
    return { session: await openSession(ort, job, true), whole: false };
  }
}

function inputsOf(ort, job, session) {
  const inputs = {};
  for (const name of session.inputNames) {
    if (!(name in job.inputs)) throw new Error(`the input '${name}' has no value`);
    const { type, shape, data } = readNpy(job.inputs[name]);
    inputs[name] = new ort.Tensor(type, data, shape);
  }
  return inputs;
}

// The largest difference from rlx's outputs, as a fraction of the largest finite value. NaN if only one of the two has a
// number.
function difference(job, results) {
  let error = 0;
  let largest = 0;
  for (const [name, path] of Object.entries(job.outputs)) {
    const want = readNpy(path);
    const wanted = numbers(want.type);
    const got = results[name];
    const gotten = numbers(got.type);
    if (got.data.length !== want.data.length) return NaN;
    for (let i = 0; i < want.data.length; ++i) {
      const a = wanted(want.data[i]);
      const b = gotten(got.data[i]);
      if (Object.is(a, b)) continue;
      const apart = Math.abs(a - b);
      if (!Number.isFinite(apart)) return NaN;
      error = Math.max(error, apart);
    }
    largest = want.data.reduce((most, value) => {
      const size = Math.abs(wanted(value));
      return Number.isFinite(size) ? Math.max(most, size) : most;
    }, largest);
  }
  return error === 0 ? 0 : error / largest;
}

// A profile has an event for each dispatch. What happens only in the first run, such as the preparation of weights, is not
// counted.
async function countDispatches(ort, job, inputs, whole) {
  if (job.provider !== "webgpu") return -1;
  const profile = { enableProfiling: true, profileFilePrefix: job.profile };
  const session = await openSession(ort, job, !whole, profile);
  for (let run = 0; run < PROFILED_RUNS; ++run) await session.run(inputs);
  session.endProfiling();
  const folder = dirname(job.profile);
  const file = `${folder}/${readdirSync(folder).find((name) => name.startsWith(`${basename(job.profile)}_`))}`;
  const counts = new Map();
  for (const event of JSON.parse(readFileSync(file, "utf8"))) {
    if (event.cat === "Api" && event.args?.cache_key) counts.set(event.name, (counts.get(event.name) ?? 0) + 1);
  }
  rmSync(file);
  await session.release();
  const total = [...counts.values()].reduce((sum, count) => sum + Math.floor(count / PROFILED_RUNS), 0);
  return total || -1; // a device without timestamps has no such events
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

async function measure(session, inputs, outputs, seconds) {
  const wall = [];
  const cpu = [];
  await session.run(inputs, outputs);
  const start = performance.now();
  while (wall.length < LEAST_RUNS || (wall.length < MOST_RUNS && performance.now() - start < seconds * 1e3)) {
    const cpuBefore = process.cpuUsage(); // of the process, all threads, in microseconds
    const before = performance.now();
    await session.run(inputs, outputs);
    wall.push(performance.now() - before);
    const { user, system } = process.cpuUsage(cpuBefore);
    cpu.push((user + system) / 1e3);
  }
  return [median(wall), median(cpu), wall.length];
}

async function* answers(lines) {
  const job = JSON.parse((await lines.next()).value);
  const ort = createRequire(`${job.package}/`)(job.package);
  const version = JSON.parse(readFileSync(`${job.package}/package.json`, "utf8")).version;
  const { session, whole } = await openBest(ort, job);
  const inputs = inputsOf(ort, job, session);
  const outputs = await session.run(inputs);
  const apart = difference(job, outputs);
  const dispatches = await countDispatches(ort, job, inputs, whole);
  // Memory allocated beforehand, as in rlx.
  for (const [name, { type, data, dims }] of Object.entries(outputs)) outputs[name] = new ort.Tensor(type, data.slice(), dims);
  yield ["ready", whole ? 1 : 0, dispatches, apart, version];
  for await (const seconds of lines) yield ["measured", ...(await measure(session, inputs, outputs, Number(seconds)))];
}

try {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for await (const answer of answers(lines)) say(...answer);
} catch (error) {
  say("error", String(error?.message ?? error).replaceAll(/\s+/g, " "));
}
process.exit(0); // without tearing down the device, which may take long
