// Reads a folder of evenfold-manifest/1 and nothing of evenfold: written from docs/manifest-format.md alone.
// Usage: node reader.mjs FOLDER...; prints one JSON object: for each folder its verdict, split_id and splits.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parquetMetadata, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex");
const canonical = (value) => Array.isArray(value) ? `[${value.map(canonical).join(",")}]`
  : value !== null && typeof value === "object"
    ? `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`
    : JSON.stringify(value);
const H = (value) => sha256(canonical(value));
const refuse = (why) => { throw new Error(why); };

// Times stay whole microseconds, and dates whole days.
const parsers = { timestampFromMicroseconds: (micros) => micros, dateFromDays: (days) => days };

async function table(folder, name) {
  const bytes = readFileSync(join(folder, name));
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const metadata = parquetMetadata(file);
  const copy = metadata.key_value_metadata.find(({ key }) => key === "evenfold");
  return { rows: await parquetReadObjects({ file, compressors, parsers }), header: copy && JSON.parse(copy.value) };
}

function little(size, values, set) {
  const bytes = Buffer.alloc(size * values.length);
  values.forEach((value, i) => bytes[set](value, i * size));
  return bytes;
}
const int16 = (values) => little(2, values, "writeInt16LE");
const int32 = (values) => little(4, values, "writeInt32LE");

// The bytes of a column without missing values; a key has none.
const BYTES = {
  text: (values) => {
    const encoded = values.map((value) => Buffer.from(value));
    return Buffer.concat([little(8, encoded.map(({ length }) => BigInt(length)), "writeBigInt64LE"), ...encoded]);
  },
  float: (values) => little(8, values.map((value) => value + 0), "writeDoubleLE"),
  bool: (values) => Buffer.from(values.map(Number)),
  date: int32,
  int: (values) => little(8, values.map(BigInt), "writeBigInt64LE"),
  timestamp: (values) => little(8, values.map(BigInt), "writeBigInt64LE"),
};
const C = (type, values) => sha256(`${type}|${values.length}|`, BYTES[type](values));

const compare = (a, b) => typeof a === "string" ? Buffer.compare(Buffer.from(a), Buffer.from(b)) : a < b ? -1 : +(a > b);
const byKey = (key) => (a, b) => key.map((name) => compare(a[name], b[name])).find((sign) => sign !== 0) ?? 0;
const named = (key) => (row) => key.map((name) => String(row[name])).join("\u0000");

function headerOf(folder) {
  let header;
  try { header = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")); } catch { refuse("header"); }
  if (header.schema !== "evenfold-manifest/1") refuse("schema");
  return header;
}

function proveFiles(folder, header) {
  const listed = header.files.map(({ path }) => path);
  if (listed.some((path) => !/^[a-z]+(-\d{4})?\.parquet$/.test(path))) refuse("path");
  if (readdirSync(folder).some((name) => name.endsWith(".parquet") && !listed.includes(name))) refuse("unlisted");
  for (const { path, sha256: wanted } of header.files) {
    let bytes;
    try { bytes = readFileSync(join(folder, path)); } catch { refuse("missing"); }
    if (sha256(bytes) !== wanted) refuse("sha256");
  }
}

async function assigned(folder, header) {
  const names = header.files.map(({ path }) => path).sort();
  const key = header.spec.columns?.key ?? [];
  const tables = await Promise.all(names.filter((name) => name.startsWith("assignments-")).map((n) => table(folder, n)));
  const { files, ...said } = header;
  if (canonical(tables.at(-1).header) !== canonical(said)) refuse("copy");
  const rows = tables.flatMap((one) => one.rows);
  if (key.length) rows.sort(byKey(key));
  const status = new Map();
  for (const name of names.filter((one) => one.startsWith("status-")))
    for (const row of (await table(folder, name)).rows) status.set(named(key)(row), Number(row.status));
  for (const row of rows) row.status = status.get(named(key)(row)) ?? 0;
  return { rows, key };
}

// How often each row trains, -1 where it tests, for each (repeat, tested code): a row that is not active does neither.
function labelCounts(header, rows, repeats) {
  const parts = header.parts.map(({ code }) => code);
  return repeats.flatMap((column) => {
    const most = rows.reduce((so, row) => Math.max(so, row[column]), 0);
    const codes = parts.filter((code) => code >= 0);
    const tested = codes.length ? codes : Array.from({ length: most + 1 }, (_, i) => i);
    return tested.map((fold) => rows.map((row) => row.status !== 0 || row[column] < -1 ? 0
      : row[column] === fold ? -1 : parts.length ? +(row[column] === -1) : 1));
  });
}

async function splitsOf(folder, header, rows, repeats) {
  if (header.kind === "labels") return labelCounts(header, rows, repeats).map((counts) => sha256(int16(counts)));
  if (header.kind === "draws")
    return (await table(folder, "resamples.parquet")).rows.map(({ digest }) => Buffer.from(digest).toString("hex"));
  const counts = Array.from({ length: header.n_splits }, () => new Array(rows.length).fill(0));
  for (const { split, role, position } of (await table(folder, "splits.parquet")).rows)
    counts[split][Number(position)] += role === 1 ? -1 : 1;
  return counts.map((one) => sha256(int16(one)));
}

async function read(folder) {
  const header = headerOf(folder);
  proveFiles(folder, header);
  const { rows, key } = await assigned(folder, header);
  const repeats = Object.keys(rows[0]).filter((name) => name === "fold" || name.startsWith("fold_r"));
  const splits = await splitsOf(folder, header, rows, repeats);
  const columns = key.map((name) => C(header.types[name], rows.map((row) => row[name])));
  const status = rows.map((row) => row.status);
  const members = header.kind === "labels" ? [] : [...splits];
  if (status.some(Boolean)) members.push(sha256(int32(status)));
  const split_id = H({
    kind: header.kind,
    keys: key.length ? H(columns) : H({ positions: rows.length }),
    codes: sha256(int32(rows.flatMap((row) => repeats.map((name) => row[name])))),
    members: members.length ? members : null,
  });
  if (split_id !== header.split_id) refuse("split_id");
  return { verdict: "good", split_id, splits };
}

const verdicts = {};
for (const folder of process.argv.slice(2))
  verdicts[folder] = await read(folder).catch((error) => ({ verdict: "refused", because: error.message }));
console.log(JSON.stringify(verdicts));
