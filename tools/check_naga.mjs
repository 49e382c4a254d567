// Tells whether naga, the WGSL compiler of wgpu and Firefox, accepts our kernels and can write them as MSL and HLSL:
//   node check_naga.mjs DIRECTORY      with the .wgsl files that RLX_WGPU_DUMP_WGSL leaves
// What it has accepted is noted beside this file and not checked again.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { nagaVersion, parseWgsl, validate, writeHlsl, writeMsl } from "naga-wasm";

// The tests make several thousands. Far fewer: they did not run, or did not write what they made.
const fewest = 4000;

const notes = new URL("accepted", import.meta.url);
const ownText = readFileSync(new URL(import.meta.url));
const hashOf = (source) => createHash("sha256").update(ownText).update(source).digest("hex");

function check(source) {
  // naga knows subgroup functions without being asked to, and does not know the request.
  const module = parseWgsl(source.replace("enable subgroups;\n", ""));
  const info = validate(module);
  writeMsl(module, info, { langVersion: [2, 4] });
  writeHlsl(module, info);
}

const directory = process.argv[2];
const before = new Set(existsSync(notes) ? readFileSync(notes, "utf8").split("\n") : []);
const accepted = new Set();
let checked = 0;
let refused = 0;
for (const name of existsSync(directory) ? readdirSync(directory) : []) {
  // Tests give the label `broken` to what is wrong on purpose.
  if (!name.endsWith(".wgsl") || name.startsWith("broken-")) continue;
  const source = readFileSync(join(directory, name), "utf8");
  if (source.includes("enable chromium_")) continue; // for Dawn alone
  const hash = hashOf(source);
  if (accepted.has(hash)) continue;
  try {
    if (!before.has(hash)) {
      checked += 1;
      check(source);
    }
    accepted.add(hash);
  } catch (error) {
    refused += 1;
    console.error(`${name}: ${error.formatted ?? error.message}`);
  }
}
writeFileSync(notes, [...accepted].join("\n"));
const modules = accepted.size + refused;
console.log(`naga ${nagaVersion}: ${modules} modules, ${checked} of them new, ${refused} refused`);
if (modules < fewest) console.error(`naga: failed, ${modules} modules are too few; the tests make more than ${fewest}`);
process.exit(refused === 0 && modules >= fewest ? 0 : 1);
