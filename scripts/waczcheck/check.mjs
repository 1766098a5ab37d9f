// Reads WACZ files with Webrecorder's own reader, as a replay tool does: the directory of the zip, then each record that the index names by a range
// of bytes. Checks the digests of the package and of every body. Run it where @webrecorder/wabac and warcio are installed: node check.mjs FILE...
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { createReadStream, statSync } from "node:fs";
import { createLoader, ZipRangeReader } from "@webrecorder/wabac";
import { WARCParser } from "warcio";

let bad = false;
const complain = (...words) => { console.error("check.mjs:", ...words); bad = true; };

// serve offers a file with ranges on loopback, which is what the reader asks for.
async function serve(file) {
  const size = statSync(file).size;
  const server = createServer((req, res) => {
    const [, from, to] = /bytes=(\d+)-(\d*)/.exec(req.headers.range ?? "") ?? [];
    const start = Number(from ?? 0), end = Math.min(to ? Number(to) : size - 1, size - 1);
    const head = { "Accept-Ranges": "bytes", "Content-Length": end - start + 1 };
    if (from) head["Content-Range"] = `bytes ${start}-${end}/${size}`;
    res.writeHead(from ? 206 : 200, head);
    if (req.method === "HEAD") res.end(); else createReadStream(file, { start, end }).pipe(res);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return [server, `http://127.0.0.1:${server.address().port}/x.wacz`];
}

async function bytes(reader) {
  const parts = [];
  for await (const part of reader) parts.push(part);
  return Buffer.concat(parts);
}
const sha256 = (b) => "sha256:" + createHash("sha256").update(b).digest("hex");

for (const file of process.argv.slice(2)) {
  const [server, url] = await serve(file);
  const zip = new ZipRangeReader(await createLoader({ url }));
  const entries = await zip.load();
  const load = async (name) => bytes((await zip.loadFile(name)).reader);

  const description = await load("datapackage.json");
  const digest = JSON.parse(await load("datapackage-digest.json"));
  if (digest.hash !== sha256(description)) complain(file, "datapackage-digest.json does not fit");
  const { resources, mainPageUrl } = JSON.parse(description);
  for (const r of resources) {
    const raw = await load(r.path);
    if (raw.length !== r.bytes || sha256(raw) !== r.hash) complain(file, r.path, "is not what datapackage.json says");
  }
  const named = new Set([...resources.map((r) => r.path), "datapackage.json", "datapackage-digest.json"]);
  for (const name of Object.keys(entries)) if (!named.has(name)) complain(file, name, "is in no list of resources");

  let records = 0;
  for (const line of (await load("indexes/index.cdx")).toString().trimEnd().split("\n")) {
    const entry = JSON.parse(line.slice(line.indexOf("{")));
    const { reader } = await zip.loadFile("archive/" + entry.filename, { offset: Number(entry.offset), length: Number(entry.length), unzip: false });
    const record = await new WARCParser(reader, { parseHttp: true }).parse();
    const body = await record.readFully(false);
    if (record.warcTargetURI !== entry.url) complain(file, line, "leads to", record.warcTargetURI);
    if (record.warcType === "response" && sha256(body) !== entry.digest) complain(file, entry.url, "has another digest");
    records++;
  }
  const pages = (await load("pages/pages.jsonl")).toString().trimEnd().split("\n").map((l) => JSON.parse(l));
  if (pages[0].format !== "json-pages-1.0" || pages.slice(1).some((p) => !p.url || Number.isNaN(Date.parse(p.ts)))) complain(file, "pages.jsonl");
  if (pages.length > 1 && !pages.some((p) => p.url === mainPageUrl)) complain(file, "mainPageUrl", mainPageUrl, "is no page");
  console.log(`${file}: ${records} records led to by the index, ${pages.length - 1} pages, ${resources.length} resources`);
  server.close();
}
process.exit(bad || process.argv.length === 2 ? 1 : 0);
