// Tells whether naga, the WGSL compiler of wgpu and Firefox, accepts our kernels and can write them as MSL and HLSL:
//   node check_naga.mjs DIRECTORY      with the .wgsl files that RLX_WGPU_DUMP_WGSL leaves
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { nagaVersion, parseWgsl, validate, writeHlsl, writeMsl } from "naga-wasm";

const directory = process.argv[2];
const files = readdirSync(directory).filter((name) => name.endsWith(".wgsl"));
let refused = 0;
for (const name of files) {
  // naga knows subgroup functions without being asked to, and does not know the request.
  const source = readFileSync(join(directory, name), "utf8").replace("enable subgroups;\n", "");
  try {
    const module = parseWgsl(source);
    const info = validate(module);
    writeMsl(module, info, { langVersion: [2, 4] });
    writeHlsl(module, info);
  } catch (error) {
    refused += 1;
    console.error(`${name}: ${error.formatted ?? error.message}`);
  }
}
console.log(`naga ${nagaVersion}: ${files.length} modules, ${refused} refused`);
process.exit(refused === 0 && files.length > 0 ? 0 : 1);
