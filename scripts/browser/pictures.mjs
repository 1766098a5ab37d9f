// Takes the pictures of the documentation from the page of one peer of a running cluster: node pictures.mjs CLUSTER_DIR OUT
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'

const [dir, out] = process.argv.slice(2)
const run = promisify(execFile)
const ask = async (peer, ...args) => JSON.parse((await run('apoidea', [...args, '--json', '--data-dir', `${dir}/peer${peer}`])).stdout)
const sleep = (ms) => new Promise((r) => setTimeout(r, ms))

// The peer that answers for most of the ring has the most to show.
const first = (await ask(1, 'ring')).members.toSorted((a, b) => b.arc_share - a.arc_share)[0].peer
let me = 1
while ((await ask(me, 'status')).peer !== first) me++

await ask(me, 'limits', 'set', 'bandwidth=4Mbit')
await sleep(150_000) // so that the charts have something to show

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--headless', '--no-sandbox', '--disable-gpu'] })
const { login } = await ask(me, 'dashboard')
const opened = await browser.newContext()
await (await opened.newPage()).goto(login)
const session = await opened.storageState()
await opened.close()

const url = new URL('/', login).href
const page = async (colorScheme) => {
  const p = await (await browser.newContext({ storageState: session, colorScheme, viewport: { width: 1180, height: 880 }, reducedMotion: 'reduce' })).newPage()
  await p.goto(url)
  await sleep(2500)
  return p
}
const light = await page('light')
await light.screenshot({ path: `${out}/dashboard.png` })
await light.locator('section:has(> #ring)').screenshot({ path: `${out}/dashboard-ring.png` })
await light.locator('section:has(> #hosts)').screenshot({ path: `${out}/dashboard-hosts.png` })
await light.click('summary')
await sleep(500)
await light.locator('section:has(> #used)').screenshot({ path: `${out}/dashboard-limits.png` })
const dark = await page('dark')
await dark.locator('section:has(> #charts)').screenshot({ path: `${out}/dashboard-charts.png` })
await browser.close()
