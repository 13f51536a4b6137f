// Reads [[NAME, JSON], …] from standard input and parses each by the schema z<NAME> of the TypeScript SDK's module for
// next edit suggestions; prints what that makes of them, as JSON, with null for what it refuses.
//
//     node ts_nes_check.mjs SDK_FOLDER

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , folder] = process.argv;
const path = createRequire(folder + "/").resolve("@agentclientprotocol/sdk/experimental/nes");
const nes = await import(pathToFileURL(path));
const read = JSON.parse(readFileSync(0, "utf8")).map(([name, value]) => {
  const schema = nes[`z${name}`] ?? nes.validate[`z${name}`];
  const parsed = schema.safeParse(value);
  return parsed.success ? parsed.data : null;
});
console.log(JSON.stringify(read));
