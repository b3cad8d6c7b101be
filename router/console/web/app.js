// The page's live part: reads /v1/watch?draw, patches rows in place, draws the
// icicle. All words come from the peer; all of them go in as text.
const $ = (s, at = document) => at.querySelector(s)
const all = (s, at = document) => [...at.querySelectorAll(s)]
const byId = id => document.getElementById(id)
const svg = (name, attrs, kids = []) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const k in attrs) e.setAttribute(k, attrs[k])
  e.append(...kids)
  return e
}
const make = kind => byId('t-' + kind).content.querySelector(kind === 'decision' || kind === 'event' ? 'li' : 'tr').cloneNode(true)
const put = (e, text) => { if (e && e.textContent !== text) e.textContent = text }

function fill(el, row) {
  el.dataset.key = row.key
  const lit = el.classList.contains('lit')
  el.className = row.class
  if (lit) el.classList.add('lit')
  for (const c of all('[data-f]', el)) put(c, row.cells[c.dataset.f] ?? '')
  $('[data-id]', el)?.setAttribute('href', '/request?id=' + encodeURIComponent(row.cells.request ?? ''))
  $('[data-bar]', el)?.setAttribute('width', row.bar.toFixed(1) + '%')
  if (row.lines) {
    $('tbody', el).replaceChildren(...row.lines.map(l => {
      const tr = make('candidate')
      fill(tr, l)
      return tr
    }))
  }
  return el
}

// patch makes the children of parent show rows, and keeps those it can, so
// that focus, scroll and opened details stay. A row that is moved loses the
// focus in it: the others move around that one.
function patch(parent, rows, kind) {
  const have = new Map(all(':scope > [data-key]', parent).map(e => [e.dataset.key, e]))
  const held = [...have.values()].find(e => e.contains(document.activeElement))
  rows.forEach((row, i) => {
    const el = fill(have.get(row.key) ?? make(kind), row)
    have.delete(row.key)
    while (el === held && parent.children[i] !== el) parent.append(parent.children[i])
    if (parent.children[i] !== el) parent.insertBefore(el, parent.children[i] ?? null)
  })
  while (parent.children.length > rows.length) parent.lastElementChild.remove()
}

// --- sorting ---
let sort = { by: null, down: false } // null: as the peer lists them, trouble first
let last = null
function sorted(rows) {
  if (sort.by === null) return rows
  const sign = sort.down ? -1 : 1
  return rows.toSorted((a, b) => sign * (sort.by ? a.sort[sort.by] - b.sort[sort.by] : 0) || (sort.by ? 1 : sign) * a.key.localeCompare(b.key, undefined, { numeric: true }))
}
for (const th of all('th[data-sort]')) {
  const b = document.createElement('button')
  b.type = 'button'
  b.append(...th.childNodes)
  th.append(b)
  b.onclick = () => {
    const by = th.dataset.sort
    sort = { by, down: sort.by === by ? !sort.down : by !== '' }
    all('th[aria-sort]').forEach(o => o.removeAttribute('aria-sort'))
    th.setAttribute('aria-sort', sort.down ? 'descending' : 'ascending')
    if (last) patch(byId('replica-rows'), sorted(last.replicas), 'replica')
  }
}

// --- status ---
function spark(name, line) {
  const at = $(`[data-spark=${name}]`)
  $('polyline', at).setAttribute('points', line.points)
  put($('.range', at), line.range)
}

function matrix(d) {
  const same = (tr, n, tag) => {
    const have = all('.age', tr)
    for (let i = have.length; i < n; i++) tr.append(document.createElement(tag))
    have.slice(n).forEach(e => e.remove())
    return [...tr.children].slice(tr.children.length - n)
  }
  const names = d.columns ?? []
  document.documentElement.classList.toggle('wide-mesh', !names.length)
  $('.matrix').hidden = !names.length
  byId('peers').classList.toggle('broad', names.length > 4)
  if (names.length) same(byId('peer-head'), names.length, 'th').forEach((th, i) => { th.scope = 'col'; th.className = 'n age'; th.title = names[i]; put(th, String(i + 1)) })
  else all('#peer-head .age').forEach(e => e.remove())
  d.peers.forEach((p, row) => {
    const tr = byId('peer-rows').children[row], ages = p.ages ?? []
    if (!ages.length) return all('.age', tr).forEach(e => e.remove())
    same(tr, ages.length, 'td').forEach((td, i) => { td.className = 'n age ' + ages[i].class; put(td, ages[i].text) })
  })
}

function status(d) {
  last = d
  document.body.classList.remove('ok', 'warn', 'bad')
  document.body.classList.add(d.level)
  for (const part of ['header', '.verdict > p', '.numbers', 'footer', '.note']) {
    for (const e of all(part)) for (const c of all('[data-f]', e)) put(c, d.cells[c.dataset.f] ?? '')
  }
  const told = d.problems.map(p => `${p.text}\n${p.help}`).join('\n')
  if (byId('problems').dataset.told !== told) {
    byId('problems').dataset.told = told
    byId('problems').replaceChildren(...d.problems.map(p => {
      const li = document.createElement('li'), b = document.createElement('b')
      b.textContent = p.text
      li.append(b, `. ${p.help}.`)
      const more = p.help.match(/deploy\/README\.md#([a-z-]+)/)
      if (more) {
        const a = document.createElement('a')
        a.href = '/runbook#' + more[1]
        a.textContent = 'Runbook'
        li.append(' ', a)
      }
      return li
    }))
  }
  for (const name in d.sparks) spark(name, d.sparks[name])
  if (d.replicas.length) patch(byId('replica-rows'), sorted(d.replicas), 'replica')
  patch(byId('peer-rows'), d.peers, 'peer')
  matrix(d)
  if (d.branches?.length) patch(byId('branch-rows'), d.branches, 'branch')
  icicle(d)
  reach()
}

// --- icicle ---
let drawn = ''
const tall = 320
function icicle(d) {
  const root = byId('icicle')
  root.classList.toggle('bare', !d.tree.length) // before it is measured: what is hidden has no width
  const wide = root.clientWidth, now = JSON.stringify([d.tree, d.names, wide])
  if (now === drawn || !wide) return
  drawn = now
  const focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : null
  const deepest = Math.max(1, ...d.tree.map(b => b.to)), n = Math.max(1, d.names.length)
  root.replaceChildren(...d.tree.map((b, i) => {
    const cells = d.branches[i].cells, held = b.holders.length / n, w = wide * b.w - 12, h = tall * b.h
    const box = svg('svg', { x: 100 * b.x + '%', y: 100 * b.y + '%', width: 100 * b.w + '%', height: 100 * b.h + '%', role: 'treeitem', 'aria-level': b.level, tabindex: -1 })
    box.dataset.key = d.branches[i].key
    box.classList.toggle('deep', held > .85 && b.key !== '')
    const name = b.key ? `${cells.name} ${(b.to - b.from).toLocaleString('en')} tok ${cells.held}` : cells.name
    const text = b.key ? `${name}: tokens ${cells.tokens}, key ${cells.key}, held by ${cells.holders}; ${cells.share} ${d.unit}` : `${name}: ${b.bundled} small or unused prefixes; ${cells.share} ${d.unit}`
    box.setAttribute('aria-label', text)
    box.append(svg('rect', { class: 'b', width: '100%', height: '100%', 'fill-opacity': b.key ? held > .85 ? 1 : .1 + .45 * held : .07 }))
    const said = [name, name.split(' ')[0]].find(s => s.length * 7 < w)
    if (h > 14 && said) {
      const label = svg('text', { x: 6, y: Math.min(16, h / 2 + 4.5) })
      label.textContent = said
      box.append(label)
    }
    if (h > 36 && 6 * n < w && b.key) {
      d.names.forEach((r, j) => box.append(svg('rect', { class: 'tick' + (b.holders.includes(r) ? ' on' : ''), x: 6 + 6 * j, y: 23, width: 4, height: 9 })))
    }
    box.onpointerenter = box.onfocus = () => light(b.holders, text)
    box.onpointerleave = box.onblur = () => light([], '')
    return box
  }))
  const items = [...root.children]
  const start = items.find(e => e.dataset.key === focused) ?? items[0]
  start?.setAttribute('tabindex', 0)
  if (focused !== null) start?.focus()
  root.append(...d.tree.filter(b => b.gap > 0).map(b => {
    const y = 100 * b.y + 50 * b.h + '%'
    return svg('line', { class: 'gap', x1: 100 * (b.from - b.gap) / deepest + '%', x2: 100 * b.x + '%', y1: y, y2: y })
  }))
  const step = 2 ** Math.ceil(Math.log2(deepest / 10))
  byId('axis').replaceChildren(...Array.from({ length: Math.ceil(deepest / step) }, (_, i) => {
    const e = document.createElement('span')
    e.textContent = (i * step).toLocaleString('en') + (i ? '' : ' tokens')
    e.style.left = 100 * i * step / deepest + '%'
    return e
  }))
}
new ResizeObserver(() => { if (last) icicle(last); reach() }).observe(byId('icicle').parentElement)
function light(names, text) {
  put(byId('told'), text)
  for (const tr of byId('replica-rows').children) tr.classList.toggle('lit', names.includes(tr.dataset.key))
}
byId('icicle').onkeydown = e => {
  const items = all('[role=treeitem]', e.currentTarget), at = items.indexOf(document.activeElement)
  if (at < 0) return
  const level = i => +items[i].getAttribute('aria-level')
  const step = (from, by, ok) => { for (let i = from + by; i >= 0 && i < items.length; i += by) if (ok(i)) return i; return from }
  const to = {
    ArrowDown: () => step(at, 1, i => level(i) <= level(at)), ArrowUp: () => step(at, -1, i => level(i) <= level(at)),
    ArrowRight: () => at + 1 < items.length && level(at + 1) > level(at) ? at + 1 : at, ArrowLeft: () => step(at, -1, i => level(i) < level(at)),
    Home: () => 0, End: () => items.length - 1,
  }[e.key]
  if (!to) return
  e.preventDefault()
  items[at].setAttribute('tabindex', -1)
  items[to()].setAttribute('tabindex', 0)
  items[to()].focus()
}
byId('as-list').onchange = e => {
  document.documentElement.classList.toggle('list', e.target.checked)
  if (last) icicle(last)
  reach()
}
// What scrolls can be reached by keyboard, what does not is no stop.
function reach() {
  for (const e of all('.scroll, #problems')) {
    if (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1) e.tabIndex = 0
    else e.removeAttribute('tabindex')
  }
}

// --- logs ---
function log(id, row, kind) {
  const list = byId(id)
  const old = [...list.children].find(e => e.dataset.key === row.key)
  if (old) return fill(old, row)
  $('.none', list)?.remove()
  list.prepend(fill(make(kind), row))
  while (list.children.length > 60) list.lastElementChild.remove()
}
const open = () => $('#decisions details[open]') !== null
byId('decisions').addEventListener('toggle', () => { byId('paused').hidden = !open() }, true)
const hear = {
  status,
  event: row => log('events', row, 'event'),
  decision: row => { if (!open()) log('decisions', row, 'decision') },
}

// --- drain ---
byId('replica-rows').onclick = e => {
  const button = e.target.closest('[data-act]')
  if (!button) return
  const name = button.closest('tr').dataset.key, verb = button.textContent, ask = byId('ask')
  const running = last?.replicas.find(r => r.key === name)?.cells.inflight ?? '?'
  put($('h2', ask), `${verb === 'drain' ? 'Drain' : 'Undrain'} ${name}?`)
  put($('p', ask), verb === 'drain' ? `Every peer of the mesh stops sending new requests to ${name}. The ${running} that run there now finish.` : `Every peer of the mesh sends requests to ${name} again.`)
  put($('.do', ask), verb === 'drain' ? 'Drain' : 'Undrain')
  ask.onclick = async ev => {
    const answer = ev.target.closest('button')?.value
    if (answer) ask.close()
    if (answer !== 'yes') return
    try {
      const res = await fetch(`/v1/replicas/${encodeURIComponent(name)}/${verb}`, { method: 'POST' })
      if (!res.ok) throw new Error(res.status)
    } catch (err) { log('events', { key: 'x' + Date.now(), class: 'bad', bar: 0, cells: { time: new Date().toLocaleTimeString('en-GB'), mark: '✕', text: `${verb} ${name} failed: ${err.message}` } }, 'event') }
  }
  ask.showModal()
}

// --- feed: fetch rather than EventSource, which cannot tell a refusal ---
let heard = Date.now(), retry = 2000, stop = null
async function read(signal) {
  const res = await fetch('/v1/watch?draw', { signal })
  if (!res.ok) throw new Error(res.status)
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ;) {
    const { value, done } = await reader.read()
    if (done) return
    const parts = (rest + value).split('\n\n')
    rest = parts.pop()
    for (const part of parts) {
      const field = Object.fromEntries(part.split('\n').map(l => [l.slice(0, l.indexOf(':')), l.slice(l.indexOf(':') + 2)]))
      if (field.retry) retry = +field.retry
      if (!field.data) continue
      heard = Date.now()
      hear[field.event]?.(JSON.parse(field.data))
    }
  }
}
async function follow() {
  if (document.hidden || stop) return
  stop = new AbortController()
  const mine = stop
  try { await read(mine.signal) } catch { /* told by the stale mark */ }
  if (stop === mine) stop = null
  setTimeout(follow, retry)
}
document.addEventListener('visibilitychange', () => {
  if (document.hidden) { stop?.abort(); stop = null } else { heard = Date.now(); follow() }
})
setInterval(() => {
  const old = Date.now() - heard > 3000, lost = byId('lost')
  if (old && lost.hidden) put(lost, `✕ No news from ${$('[data-f=name]').textContent} since ${new Date(heard).toLocaleTimeString('en-GB')}. What you see is from then. Trying again.`)
  lost.hidden = !old
  document.body.classList.toggle('stale', old)
  document.body.classList.toggle('live', !old)
  put(byId('live'), old ? `not live: nothing heard for ${Math.round((Date.now() - heard) / 1000)} s` : 'live')
}, 500)
document.documentElement.classList.add('on')
follow()
