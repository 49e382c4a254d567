// Runs one model in ONNX Runtime, as src/cli/measure.cpp runs a graph in rlx, and prints a line of JSON:
//   node ort_case.mjs PACKAGES MODEL measure SECONDS webgpu|cpu   wall and CPU ms of a warm run, medians
//   node ort_case.mjs PACKAGES MODEL check              largest difference between the WebGPU and the CPU provider
// PACKAGES is the directory in which npm has installed onnxruntime-node.
import { createRequire } from "node:module";

const [packages, model, mode, seconds, provider] = process.argv.slice(2);
const ort = createRequire(`${packages}/`)("onnxruntime-node");
const LEAST_RUNS = 3;
const MOST_RUNS = 2000;

function openSession(provider, fallback) {
  const webgpu = provider === "webgpu";
  return ort.InferenceSession.create(model, {
    executionProviders: [provider],
    intraOpNumThreads: webgpu ? 1 : 0,
    logSeverityLevel: webgpu && !fallback ? 4 : 3, // a refused fallback is no error here
    extra: {
      session: {
        disable_cpu_ep_fallback: webgpu && !fallback ? "1" : "0",
        intra_op: { allow_spinning: "0" }, // idle threads that spin would count as CPU time
      },
    },
  });
}

// Wholly on the provider where that works; else the nodes that it lacks run on the CPU, and the result says so.
async function openBest(provider) {
  try {
    return { session: await openSession(provider, false), whole: true };
  } catch (error) {
    if (!String(error).includes("fallback to CPU EP")) throw error;
    return { session: await openSession(provider, true), whole: false };
  }
}

const elements = (shape) => shape.reduce((product, size) => product * size, 1);

// The ranges of rlx's random inputs: floats from -1 to 1; integers below 10, or 2 where the table of types has no more.
function randomInputs(session) {
  let state = 1;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const inputs = {};
  for (const { name, type, shape } of session.inputMetadata) {
    const bound = name === "token_type_ids" ? 2 : 10;
    const values = type === "int64" ? new BigInt64Array(elements(shape)) : new Float32Array(elements(shape));
    for (let i = 0; i < values.length; ++i) {
      values[i] = type === "int64" ? BigInt(Math.floor(next() * bound)) : 2 * next() - 1;
    }
    inputs[name] = new ort.Tensor(type, values, shape);
  }
  return inputs;
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

async function measure() {
  const { session, whole } = await openBest(provider);
  const inputs = randomInputs(session);
  const outputs = {}; // memory allocated beforehand, as in rlx
  for (const { name, type, shape } of session.outputMetadata) {
    outputs[name] = new ort.Tensor(type, new Float32Array(elements(shape)), shape);
  }
  await session.run(inputs, outputs);
  await session.run(inputs, outputs);
  const wall = [];
  const cpu = [];
  const start = performance.now();
  while (wall.length < LEAST_RUNS || (wall.length < MOST_RUNS && performance.now() - start < seconds * 1e3)) {
    const cpuBefore = process.cpuUsage(); // of the process, all threads, in microseconds
    const before = performance.now();
    await session.run(inputs, outputs);
    wall.push(performance.now() - before);
    const { user, system } = process.cpuUsage(cpuBefore);
    cpu.push((user + system) / 1e3);
  }
  return { wall_ms: median(wall), cpu_ms: median(cpu), runs: wall.length, all_webgpu: provider === "webgpu" && whole };
}

async function check() {
  const { session } = await openBest("webgpu");
  const inputs = randomInputs(session);
  const got = await session.run(inputs);
  const want = await (await openSession("cpu", true)).run(inputs);
  let error = 0;
  let largest = 0;
  for (const { name } of session.outputMetadata) {
    for (let i = 0; i < want[name].data.length; ++i) {
      const difference = Math.abs(got[name].data[i] - want[name].data[i]);
      if (!(difference <= error)) error = difference; // so that a NaN is kept
      largest = Math.max(largest, Math.abs(want[name].data[i]));
    }
  }
  return { error: Number.isFinite(error) ? error : null, largest };
}

console.log(JSON.stringify(await (mode === "check" ? check() : measure())));
process.exit(0); // without tearing down the device, which may take long
