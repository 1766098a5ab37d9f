// Reads WARC files with npm's warcio, recomputes every digest, and prints how many records there are of each type. A complaint goes to
// standard error and makes the status 1. Run it where warcio is installed: node check.mjs FILE...
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { WARCParser } from "warcio";

let bad = false;
const complain = (...words) => { console.error("check.mjs:", ...words); bad = true; };
console.warn = (...words) => complain("warcio warns:", ...words);

// A digest may be written in base 16 or base 32, padded or not.
function base32(bytes) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  let bits = 0, value = 0, out = "";
  for (const b of bytes) {
    value = (value << 8) | b; bits += 8;
    while (bits >= 5) { out += alphabet[(value >>> (bits - 5)) & 31]; bits -= 5; }
    value &= (1 << bits) - 1;
  }
  return bits ? out + alphabet[(value << (5 - bits)) & 31] : out;
}
function holds(label, bytes) {
  const [algorithm, want] = [label.slice(0, label.indexOf(":")), label.slice(label.indexOf(":") + 1)];
  const sum = createHash(algorithm.replace("-", "").toLowerCase()).update(bytes).digest();
  return want.toLowerCase() === sum.toString("hex") || want.replace(/=+$/, "").toUpperCase() === base32(sum);
}

// payload cuts the head off an HTTP message and takes its chunks apart.
function payload(block) {
  const end = block.indexOf("\r\n\r\n");
  if (end < 0) return Buffer.alloc(0);
  let body = block.subarray(end + 4);
  if (!/^transfer-encoding:.*chunked/im.test(block.subarray(0, end).toString("latin1"))) return body;
  const parts = [];
  for (;;) {
    const line = body.indexOf("\r\n");
    const size = parseInt(body.subarray(0, line).toString("latin1"), 16);
    if (!(size > 0)) return Buffer.concat(parts);
    parts.push(body.subarray(line + 2, line + 2 + size));
    body = body.subarray(line + 2 + size + 2);
  }
}

const counts = {};
for (const file of process.argv.slice(2)) {
  const parser = new WARCParser(createReadStream(file), { parseHttp: false });
  for await (const record of parser) {
    const block = Buffer.from(await record.readFully(false));
    const header = (name) => record.warcHeaders.headers.get(name);
    const where = `${file}: ${record.warcType} ${header("WARC-Record-ID")}`;
    counts[record.warcType] = (counts[record.warcType] ?? 0) + 1;
    if (block.length !== Number(header("Content-Length"))) complain(where, "has", block.length, "of", header("Content-Length"), "bytes");
    const ofBlock = header("WARC-Block-Digest"), ofPayload = header("WARC-Payload-Digest");
    if (!ofBlock || !holds(ofBlock, block)) complain(where, "block digest", ofBlock);
    if (record.warcType === "response" && !ofPayload) complain(where, "has no payload digest");
    // A revisit's payload digest is that of the record it refers to; its own block holds the head alone.
    if (ofPayload && record.warcType !== "revisit" && !holds(ofPayload, payload(block))) complain(where, "payload digest", ofPayload);
    if (record.warcType === "revisit" && !header("WARC-Refers-To")) complain(where, "refers to nothing");
  }
}
for (const type of Object.keys(counts).sort()) console.log(type, counts[type]);
process.exit(bad || process.argv.length === 2 ? 1 : 0);
