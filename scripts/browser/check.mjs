// Looks at the pages of a running cluster with headless Chromium and says what holds: node check.mjs CLUSTER_DIR OUT
import { execFile } from 'node:child_process'
import { createServer, request } from 'node:http'
import { readFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'

const [dir, out] = process.argv.slice(2)
const run = promisify(execFile)
const apoidea = async (...args) => (await run('apoidea', args, { maxBuffer: 1 << 26 })).stdout
const ask = async (peer, ...args) => JSON.parse(await apoidea(...args, '--json', '--data-dir', `${dir}/peer${peer}`))
const sleep = (ms) => new Promise((r) => setTimeout(r, ms))

const maxBytes = 200_000, maxPaint = 300
let failed = 0
const check = (words, ok, found = '') => {
  if (!ok) failed++
  console.log(`${ok ? 'ok   ' : 'WRONG'} ${words}${found === '' ? '' : `: ${found}`}`)
}
// until tries again until fn is true, and returns after how many seconds that was; -1: not in time.
const until = async (seconds, fn) => {
  const begin = Date.now()
  for (;;) {
    if (await fn()) return (Date.now() - begin) / 1000
    if (Date.now() - begin > seconds * 1000) return -1
    await sleep(200)
  }
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
const complaints = []
const open = async (options = {}, watched = true) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  const page = await context.newPage()
  if (watched) {
    page.on('console', (m) => { if (m.type() === 'error' || m.type() === 'warning') complaints.push(m.text()) })
    page.on('pageerror', (e) => complaints.push(e.message))
  }
  return page
}

// The peer looked at is the one that answers for most of the ring, so that there is something to see.
const ring = (await ask(1, 'ring')).members
const byShare = ring.toSorted((a, b) => b.arc_share - a.arc_share)
const numbers = new Map()
for (let i = 1; i <= 8; i++) numbers.set((await ask(i, 'status')).peer, i)
const me = numbers.get(byShare[0].peer)
const { url, login } = await ask(me, 'dashboard')

// Without a login
{
  const page = await open()
  await page.goto(url)
  check('a browser that did not log in sees the page', (await page.textContent('h1')) === 'Apoidea')
  check('and gets no button', (await page.locator('button').count()) === 0)
  await page.context().close()
}

// Login, and what a load costs
const page = await open()
await page.goto(login)
check('the link that `apoidea dashboard` prints logs in', await page.locator('#b-pause').isVisible())
const session = await page.context().storageState()
{
  const again = await open({}, false)
  const res = await again.goto(login)
  check('and works once', res.status() === 403, `status ${res.status()}`)
  await again.context().close()
}
{
  // What a page of one word takes here, now: the browser's and the machine's own share of a paint.
  const plain = createServer((_, res) => { res.setHeader('Content-Type', 'text/html'); res.end('<!doctype html><title>x</title><p>word') })
  await new Promise((r) => plain.listen(0, '127.0.0.1', r))
  const paint = (p) => p.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity)
  const paints = [], waits = [], words = []
  let bytes = 0, foreign = 0
  for (let i = 0; i < 5; i++) {
    const p = await open({ storageState: session })
    const net = await p.context().newCDPSession(p)
    await net.send('Network.enable')
    let n = 0
    net.on('Network.dataReceived', (e) => { n += e.dataLength })
    p.on('request', (r) => { if (!r.url().startsWith(url) && !r.url().includes(`:${plain.address().port}/`)) foreign++ })
    await p.goto(url)
    await sleep(1500) // with the first of the stream
    bytes = Math.max(bytes, n)
    paints.push(await paint(p))
    waits.push(await p.evaluate(() => performance.getEntriesByType('navigation')[0].responseStart))
    await p.goto(`http://127.0.0.1:${plain.address().port}/`)
    await sleep(1000)
    words.push(await paint(p))
    await p.context().close()
  }
  plain.close()
  check(`a load takes less than ${maxBytes} bytes, its stream's first pieces included`, bytes > 0 && bytes < maxBytes, bytes)
  paints.sort((a, b) => a - b)
  waits.sort((a, b) => a - b)
  words.sort((a, b) => a - b)
  // The page of one word is the control: what the browser and the machine take is not the page's.
  check(`first paint is within ${maxPaint} ms of that of a page of one word (medians of five loads)`, paints[2] - words[2] < maxPaint,
    `${paints.map((t) => Math.round(t)).join(', ')} ms, the peer's part of it ${waits.map((t) => Math.round(t)).join(', ')} ms; a page of one word ${words.map((t) => Math.round(t)).join(', ')} ms; load average ${loadavg()[0].toFixed(1)} on ${cpus().length} processors`)
  check('nothing is asked of anybody else', foreign === 0, foreign)
}

// What is shown is what the peer says
const value = (p, id) => p.locator(`#n-${id}`).getAttribute('value').then(Number)
{
  const names = ['pages', 'bytes', 'urls_seen', 'hosts_owned', 'errors']
  const before = await ask(me, 'status')
  await sleep(2500)
  const shown = {}
  for (const n of names) shown[n] = await value(page, n)
  const after = await ask(me, 'status')
  const wrong = names.filter((n) => shown[n] < before[n] || shown[n] > after[n])
  check('numbers lie between those of `status --json` before and after', wrong.length === 0, wrong.join() || names.map((n) => `${n} ${shown[n]}`).join(', '))
  check('the crawl goes on as one looks', after.pages > 0 && (await until(10, async () => (await value(page, 'pages')) > shown.pages)) >= 0)
}
check('hosts are listed with worker and round trip', (await page.locator('#hosts tbody tr').count()) > 0 && / ms/.test(await page.textContent('#hosts')))
check('four charts are drawn', (await page.locator('#charts svg .l.axis').count()) === 4)
check('the joins are in the log', (await page.locator('#log li').count()) > 0)
const dots = () => page.locator('#ring .dot').count()
const words = () => page.textContent('#walk')
check('the ring has eight peers and is closed', (await dots()) === 8 && /8 members, consistent/.test(await words()), `${await dots()} ${await words()}`)

const agree = (p) => p.evaluate(() => document.title === document.querySelector('#headline').textContent + document.body.dataset.title)
check('headline and title of the tab have the same words', await agree(page), await page.title())
check('the totals of the ring stand beside those of the peer', (await page.locator('#totals tbody td').count()) === 10)
check('what was fetched lately is listed, ten at most', (await until(20, async () => { const n = await page.locator('#lately li').count(); return n > 0 && n <= 10 })) >= 0)
check('the work of this peer is the first card', (await page.locator('main section.card').first().getAttribute('aria-labelledby')) === 'h-own')
check('with pages and bytes of today and in all', (await value(page, 'today_pages')) > 0 && (await value(page, 'today_bytes')) > 0 && (await value(page, 'today_work')) > 0 && (await value(page, 'all_pages')) > 0 && (await value(page, 'all_bytes')) > 0)
check('peers have their names beside their IDs', /peer\d [\w]{8}/.test(await page.textContent('#neighbours')) && /peer\d [\w]{8}/.test(await page.textContent('#who')) && /peer\d [\w]{8}/.test(await page.textContent('#ring svg')))
check('a new ring shows no refused requests', (await page.locator('#refused tr').count()) === 0, await page.textContent('#refused'))

// What axe, which looks for barriers, finds on a page.
const axe = readFileSync(new URL(import.meta.resolve('axe-core')), 'utf8')
const barriers = async (p) => {
  await p.evaluate(axe)
  return p.evaluate(async () => (await window.axe.run(document, { resultTypes: ['violations'] })).violations.map((v) => `${v.id}: ${v.nodes[0].target}`))
}
{
  const p = await open({ storageState: session })
  await p.goto(`${url}words`)
  const found = await barriers(p)
  check('the words are shown, without barriers', (await p.locator('.words dt').count()) > 30 && found.length === 0, found.join('; '))
  await p.context().close()
}

// By keyboard
{
  const p = await open({ storageState: session })
  await p.goto(url)
  await p.locator('summary').click()
  await sleep(500)
  const wanted = await p.evaluate(() => [...document.querySelectorAll('button, select, input, summary, a[href], [tabindex="0"]')]
    .filter((e) => e.type !== 'hidden' && e.checkVisibility()).map((e, i) => (e.dataset.walk = String(i))).length)
  await p.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0) })
  await p.evaluate(() => { window.keyOf = (e) => e.closest('.outcomes')?.parentElement.id || e.id || e.getAttribute('href') || e.getAttribute('aria-labelledby') }) // links of a list that changes count as one
  const met = new Set()
  const faint = new Set()
  for (let i = 0; i < wanted + 20; i++) {
    await p.keyboard.press('Tab')
    const at = await p.evaluate(() => {
      const e = document.activeElement, s = getComputedStyle(e)
      return { name: e.id || e.getAttribute('href') || e.tagName, key: e === document.body ? '' : keyOf(e), outline: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 }
    })
    if (at.key) met.add(at.key)
    if (at.key && !at.outline) faint.add(at.name)
  }
  const all = await p.evaluate(() => [...document.querySelectorAll('button, select, input, summary, a[href]')]
    .filter((e) => e.type !== 'hidden' && e.checkVisibility()).map(keyOf))
  const missed = all.filter((k) => !met.has(k))
  check('Tab reaches every button, field and link', missed.length === 0 && all.includes('b-pause') && all.includes('b-limits'), missed.join() || `${all.length} of them`)
  check('and shows where it is', faint.size === 0, [...faint].join())
  const unnamed = await p.evaluate(() => [...document.querySelectorAll('button, select, input:not([type=hidden])')].filter((e) => !e.textContent.trim() && !e.labels?.length || e.tagName !== 'BUTTON' && !e.labels.length).length)
  check('every field has a label', unnamed === 0, unnamed)
  await p.context().close()
}

// Contrast as rendered, in both modes, and screenshots
const contrast = () => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return { r: m[0], g: m[1], b: m[2], a: m[3] ?? 1 } }
  const lum = ({ r, g, b }) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0)
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a === 1) return c } return { r: 255, g: 255, b: 255 } }
  const bad = []
  let n = 0
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((k) => k.nodeType === 3 && k.textContent.trim()) || !e.checkVisibility() || ['TITLE', 'DESC', 'title', 'desc', 'NOSCRIPT', 'SCRIPT', 'OPTION'].includes(e.tagName) || e.classList.contains('skip')) continue
    const s = getComputedStyle(e)
    const ink = lum(parse(e.closest('svg') ? s.fill : s.color)), under = lum(ground(e))
    const c = (Math.max(ink, under) + 0.05) / (Math.min(ink, under) + 0.05)
    n++
    if (c < 4.5) bad.push(`${e.tagName} "${e.textContent.trim().slice(0, 20)}" ${c.toFixed(2)}`)
  }
  return { n, bad }
}
for (const scheme of ['light', 'dark']) {
  for (const [size, width, height] of [['wide', 1280, 900], ['800', 800, 900], ['400', 400, 800], ['narrow', 360, 740]]) {
    const p = await open({ storageState: session, viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce', deviceScaleFactor: size === 'wide' ? 1 : 2 })
    await p.goto(url)
    await sleep(1500)
    const { n, bad } = await p.evaluate(contrast)
    check(`${scheme}, ${size}: all text has a contrast of 4.5`, n > 30 && bad.length === 0, bad.join('; ') || `${n} texts`)
    const over = await p.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    check(`${scheme}, ${size}: the page is not wider than ${width} px`, over <= 0, over)
    const cut = await p.evaluate(() => [...document.querySelectorAll('table, tbody :is(th, td), #log li, button')].filter((e) => {
      const r = e.getBoundingClientRect(), card = (e.closest('.log, .card') ?? document.body).getBoundingClientRect()
      return e.checkVisibility() && r.left < card.right && (r.right > card.right + 1 || r.bottom > card.bottom + 1)
    }).map((e) => e.textContent.trim().slice(0, 30)))
    check(`${scheme}, ${size}: no table, button or event is cut`, cut.length === 0, cut.join('; '))
    const found = await barriers(p)
    check(`${scheme}, ${size}: no barriers (axe)`, found.length === 0, found.join('; '))
    const moving = await p.evaluate(() => [...document.querySelectorAll('body *')].filter((e) => { const s = getComputedStyle(e); return s.transitionDuration !== '0s' || s.animationName !== 'none' }).length)
    check(`${scheme}, ${size}: nothing moves for who asked for that`, moving === 0, moving)
    await p.screenshot({ path: `${out}/dashboard-${size}-${scheme}.png`, fullPage: size !== 'wide' })
    if (size === 'wide') await p.screenshot({ path: `${out}/dashboard-whole-${scheme}.png`, fullPage: true })
    await p.context().close()
  }
}

// The buttons
await page.selectOption('#for', '30m')
await page.click('#b-pause')
check('a pause is shown within 2 s', (await until(2, async () => /Paused/.test(await page.textContent('#state')))) >= 0)
{
  const l = await ask(me, 'limits')
  const minutes = (new Date(l.holds[0]?.until ?? 0) - Date.now()) / 60000
  check('and holds as `limits --json` says, for 30 minutes', l.paused && l.holds[0].rule === 'user' && minutes > 28 && minutes <= 30, `${minutes.toFixed(1)} minutes left`)
}
await page.screenshot({ path: `${out}/dashboard-paused.png` })
await page.waitForSelector('#b-resume')
check('the focus went to the button that ends it', (await until(2, () => page.evaluate(() => document.activeElement.id === 'b-resume'))) >= 0)
await page.keyboard.press('Enter')
check('it ends by keyboard within 2 s', (await until(2, async () => !(await ask(me, 'status')).state.includes('paused') && !/Paused/.test(await page.textContent('#state')))) >= 0)
await page.click('summary')
await page.fill('#s-bandwidth', 'fast')
await page.click('#b-limits')
check('a limit that cannot be is refused with its name and value', (await until(2, async () => /bandwidth.*fast/.test(await page.textContent('#said')))) >= 0, await page.textContent('#said'))
await page.fill('#s-bandwidth', '2Mbit')
await page.click('#b-limits')
check('a limit is in force within 2 s', (await until(2, async () => (await ask(me, 'limits')).caps.bandwidth === 250000)) >= 0)
check('and drawn in the chart as a line', (await until(8, async () => (await page.locator('#chart-bandwidth .l.c-cap').count()) > 0)) >= 0)
await page.screenshot({ path: `${out}/dashboard-limits.png`, fullPage: true })
await page.fill('#s-bandwidth', 'none')
await page.click('#b-limits')
check('and is taken back', (await until(2, async () => (await ask(me, 'limits')).caps.bandwidth === 0)) >= 0)

// A job
{
  const asked = new Set()
  const site = createServer((req, res) => {
    asked.add(req.url)
    res.statusCode = req.url === '/' || req.url === '/second' ? 200 : 404
    res.setHeader('Content-Type', 'text/html')
    res.end('<title>a job</title><p>a page of the job <a href="/second">second</a> <a href="/none">none</a>')
  })
  await new Promise((r) => site.listen(0, '127.0.0.1', r))
  await page.fill('#url', 'ftp://x.example/')
  await page.click('#b-post')
  check('a job that cannot be is refused', (await until(5, async () => /ftp/.test(await page.textContent('#said')))) >= 0, await page.textContent('#said'))
  await page.fill('#url', `http://job.localhost:${site.address().port}/`)
  await page.click('#b-post')
  check('a job is posted by the form', (await until(10, async () => /posted/.test(await page.textContent('#said')))) >= 0, await page.textContent('#said'))
  const id = (await ask(me, 'jobs')).at(-1).id
  const row = page.locator(`#j-${id}`)
  check('and listed with its URL', (await until(10, async () => /job\.localhost/.test(await row.textContent()))) >= 0)
  check('and is crawled', (await until(30, () => asked.has('/') && asked.has('/second'))) >= 0, [...asked].join())
  check('with the pages fetched', (await until(20, async () => (await row.locator('[data-l=Pages]').textContent()).startsWith('2 '))) >= 0, await row.locator('[data-l=Pages]').textContent())
  site.close()
}
{
  const id = (await ask(me, 'jobs'))[0].id // still running
  const row = page.locator(`#j-${id}`)
  const becomes = (state) => until(10, async () => (await row.textContent()).includes(state) && (await ask(me, 'job', 'show', id)).state === state)
  await row.locator('[value=pause]').click()
  check('a button pauses a job', (await becomes('paused')) >= 0, await page.textContent('#said'))
  await row.locator('[value=resume]').click()
  check('another resumes it', (await becomes('running')) >= 0, await page.textContent('#said'))
  let question = ''
  page.once('dialog', (d) => { question = d.message(); return d.dismiss() })
  await row.locator('[value=cancel]').click()
  check('to cancel a job needs a confirmation', question.length > 0 && (await ask(me, 'job', 'show', id)).state === 'running', question)
}

// Without a script
{
  const p = await open({ storageState: session, javaScriptEnabled: false })
  await p.goto(url)
  check('without a script the page is whole', (await p.locator('#charts svg').count()) === 4 && (await value(p, 'pages')) > 0)
  await p.click('#b-pause')
  check('and its buttons work', /Paused/.test(await p.textContent('#state')) && /Paused/.test(await p.textContent('#said')))
  await p.click('#b-resume')
  check('both of them', !/Paused/.test(await p.textContent('#state')))
  await p.context().close()
}

// Other sites
{
  const token = await page.locator('#controls input[name=form]').first().getAttribute('value')
  const evil = createServer((_, res) => {
    res.setHeader('Content-Type', 'text/html')
    res.end(`<form method="post" action="${url}pause"><input name="form" value="${token}"><button>go</button></form>`)
  })
  await new Promise((r) => evil.listen(0, '127.0.0.1', r))
  for (const host of ['127.0.0.1', 'evil.localhost']) {
    const p = await open({ storageState: session }, false)
    await p.goto(`http://${host}:${evil.address().port}/`)
    const [res] = await Promise.all([p.waitForResponse((r) => r.url().startsWith(url)), p.click('button')])
    check(`a form of another site (${host}) is refused, even with the page's own word`, res.status() === 403 && !(await ask(me, 'limits')).paused, `status ${res.status()}`)
    await p.context().close()
  }
  evil.close()
  const port = new URL(url).port
  const p = await open({ storageState: session }, false)
  const res = await p.goto(`http://rebound.localhost:${port}/`)
  check('a name that was pointed at this machine is refused', res.status() === 421, `status ${res.status()}`)
  await p.context().close()
  const status = await new Promise((resolve) => request({ host: '127.0.0.1', port, path: '/', headers: { Host: 'rebound.example' } }, (r) => resolve(r.statusCode)).end())
  check('and so is any other wrong Host', status === 421, `status ${status}`)
}

// A peer dies
const victim = byShare[1]
await apoidea('cluster', 'kill', '--dir', dir, String(numbers.get(victim.peer)))
const t0 = Date.now()
const told = await until(40, async () => (await page.textContent('#log')).includes(`peer${numbers.get(victim.peer)} failed`))
check('the death of a peer is told', told >= 0, `after ${told.toFixed(1)} s`)
check('its dot is gone', (await until(10, async () => (await dots()) === 7)) >= 0)
await page.evaluate(() => scrollTo(0, 0))
await page.screenshot({ path: `${out}/dashboard-open.png` })
const closed = await until(60, async () => /7 members, consistent/.test(await words()))
check('and the ring closes over it', closed >= 0 && (await dots()) === 7, `${((Date.now() - t0) / 1000).toFixed(1)} s after the death: ${await words()}`)
await page.screenshot({ path: `${out}/dashboard-closed.png` })

// A job is canceled
{
  const id = (await ask(me, 'jobs'))[0].id
  page.once('dialog', (d) => d.accept())
  await page.locator(`#c-${id}`).click()
  check('a confirmed cancel ends the job', (await until(10, async () => (await page.textContent(`#j-${id}`)).includes('canceled') && (await ask(me, 'job', 'show', id)).state === 'canceled')) >= 0, await page.textContent('#said'))
  check('and takes its buttons away', (await page.locator(`#j-${id} button`).count()) === 0)
}

// The peer itself goes, and comes back
await apoidea('cluster', 'kill', '--dir', dir, String(me))
const gone = await until(8, async () => /Not responding/.test(await page.textContent('#headline')))
check('a page whose peer is gone says so in its headline within 5 s', gone >= 0 && gone <= 5, `${gone.toFixed(1)} s`)
check('and in the title of the tab', (await agree(page)) && /^Not responding/.test(await page.title()), await page.title())
check('and says nothing of the ring any more', !/consistent/.test(await words()), await words())
await page.screenshot({ path: `${out}/dashboard-gone.png` })
const quiet = complaints.filter((c) => !/ERR_CONNECTION|ERR_INCOMPLETE_CHUNKED|status of 400/.test(c)) // its death, and the limit that was refused
check('the console is quiet', quiet.length === 0, quiet.join('; '))

await browser.close()
console.log(failed === 0 ? `screenshots in ${out}` : `${failed} of these are wrong`)
process.exit(failed === 0 ? 0 : 1)
