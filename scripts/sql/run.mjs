// Answers questions about the Parquet tables in a directory: run.mjs DIR FILE.sql|- [--check]
// Each statement in FILE stands in one line; lines with -- are shown as they are. --check reads all files with hyparquet too and compares the counts.
import { readFileSync, readdirSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'

const [dir, file, check] = process.argv.slice(2)
const parquet = (below) => existsSync(below) ? readdirSync(below, { recursive: true }).filter((name) => name.endsWith('.parquet')).map((name) => join(below, name)) : []
const quote = (text) => `'${text.replaceAll("'", "''")}'`
const list = (files) => `[${files.map(quote).join(', ')}]`

const db = await (await DuckDBInstance.create()).connect()
await db.run("SET TimeZone = 'UTC'")
const tables = {
  urls: parquet(dir).filter((name) => name.includes('subset=')),
  links: parquet(join(dir, 'links')),
  hosts: parquet(join(dir, 'hosts'))
}
for (const [name, files] of Object.entries(tables)) {
  if (files.length) await db.run(`CREATE VIEW ${name} AS SELECT * FROM read_parquet(${list(files)}, hive_partitioning = true, union_by_name = true)`)
}
const texts = ['text.ndjson', 'text.jsonl'].map((name) => join(dir, name)).find(existsSync)
if (texts) await db.run(`CREATE VIEW texts AS SELECT * FROM read_json(${quote(texts)}, format = 'newline_delimited')`)

const show = (value) => value === null ? '-' : typeof value === 'object' ? JSON.stringify(value) : String(value)
async function answer (sql) {
  const reader = await db.runAndReadAll(sql)
  const rows = [reader.columnNames(), ...reader.getRowsJson().map((row) => row.map(show))]
  const width = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)))
  for (const row of rows) console.log(row.map((cell, i) => cell.padEnd(width[i])).join('  ').trimEnd())
  console.log()
}

let failed = false
for (const line of readFileSync(file === '-' ? 0 : file, 'utf8').split('\n')) {
  if (line.startsWith('--') || !line.trim()) {
    if (line.trim()) console.log(line)
    continue
  }
  console.log(line)
  const missing = [['texts', 'export text -o ' + join(dir, 'text.ndjson')], ['links', 'export parquet --tables urls,links,hosts'], ['hosts', 'export parquet --tables urls,links,hosts']]
    .find(([name]) => new RegExp(`(FROM|JOIN) ${name}\\b`, 'i').test(line) && !(name === 'texts' ? texts : tables[name].length))
  if (missing) {
    console.log(`not answered: needs apoidea ${missing[1]}\n`)
    continue
  }
  try {
    await answer(line)
  } catch (err) {
    failed = true
    console.error(`error: ${err.message}`)
  }
}

if (check) {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet')
  const { compressors } = await import('hyparquet-compressors')
  for (const [name, files] of Object.entries(tables)) {
    let rows = 0
    for (const path of files) {
      const buffer = await asyncBufferFromFile(path)
      const objects = await parquetReadObjects({ file: buffer, compressors })
      rows += objects.length
      const told = Number((await parquetMetadataAsync(buffer)).num_rows)
      if (told !== objects.length) {
        failed = true
        console.error(`error: ${path}: hyparquet reads ${objects.length} rows of ${told}`)
      }
    }
    const duck = files.length ? Number((await db.runAndReadAll(`SELECT count(*) FROM ${name}`)).getRowsJson()[0][0]) : 0
    console.log(`${name}: ${rows} rows by hyparquet, ${duck} by DuckDB, ${files.length} files`)
    if (rows !== duck) failed = true
  }
}
process.exit(failed ? 1 : 0)
