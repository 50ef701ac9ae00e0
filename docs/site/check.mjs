// Checks the built site in Chromium. Each page, in both themes and at two widths, asks no other host,
// logs no error, draws its diagrams and does not scroll sideways. Each link leads to a page and an
// anchor that exist, or to a file of the repository. Each question of readers has its answer on a page
// that is among the first three hits of the search (the first, where it says so), and at most two
// clicks from the start page.
import { createServer } from 'node:http';
import { access, readFile } from 'node:fs/promises';
import path from 'node:path';
import { chromium } from 'playwright-core';

const base = '/stratos/';
const repository = 'https://github.com/stratos-sh/stratos';
const docs = path.resolve(import.meta.dirname, '..');
const folder = path.join(docs, 'build');
const types = {
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.xml': 'application/xml',
};
const problems = new Set();
const wrong = (text) => problems.add(text);

// fileFor finds the file of a path as GitHub Pages does: /stratos/install is install.html.
async function fileFor(name) {
  const wanted = name.slice(base.length) || 'index.html';
  for (const file of [wanted, `${wanted}.html`]) {
    try {
      return { file, body: await readFile(path.join(folder, file)) };
    } catch (error) {
      if (error.code !== 'ENOENT' && error.code !== 'EISDIR') throw error;
    }
  }
  return null;
}

async function serve() {
  const server = createServer(async (request, response) => {
    const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    const found = name.startsWith(base) ? await fileFor(name) : null;
    if (!found) {
      response.writeHead(404).end();
      return;
    }
    const type = types[path.extname(found.file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'Content-Type': type }).end(found.body);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return server;
}

const server = await serve();
const origin = `http://127.0.0.1:${server.address().port}`;
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });

// open makes a page of the browser whose requests and log are watched.
async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const at = () => page.url().slice(origin.length).replace(/[?#].*/, '');
  page.on('request', (r) => {
    if (!r.url().startsWith(`${origin}/`) && !/^(data|blob):/.test(r.url())) wrong(`${at()} asks ${r.url()}`);
  });
  page.on('console', (m) => m.type() === 'error' && wrong(`${at()} logs: ${m.text()} ${m.location().url}`));
  page.on('pageerror', (e) => wrong(`${at()} throws: ${e}`));
  return page;
}

// look opens a page and checks how it looks.
async function look(page, name, colorScheme, width) {
  await page.goto(origin + name, { waitUntil: 'networkidle' });
  const seen = await page.evaluate(() => ({
    over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    theme: document.documentElement.dataset.theme,
    blank: document.querySelectorAll('.docusaurus-mermaid-container:not(:has(svg))').length,
    failed: /Syntax error in text/.test(document.body.innerText),
  }));
  if (seen.over > 0) wrong(`${name} is ${seen.over} px wider than ${width} (${colorScheme})`);
  if (seen.theme !== colorScheme) wrong(`${name} is ${seen.theme}, want ${colorScheme}`);
  if (seen.blank > 0 || seen.failed) wrong(`${name} does not draw a diagram (${colorScheme}, ${width} px)`);
}

// readPage gives the links of the open page, its anchors and its text.
async function readPage(page) {
  return page.evaluate(() => ({
    links: [...document.querySelectorAll('a[href]')].map((a) => a.href),
    anchors: [...document.querySelectorAll('[id]')].map((e) => e.id),
    text: document.querySelector('main').innerText.replace(/\s+/g, ' '),
  }));
}

// checkLink says what is wrong with a link of the page from.
async function checkLink(read, from, link) {
  const url = new URL(link);
  if (url.origin === origin) {
    const to = read.get(url.pathname);
    const anchor = decodeURIComponent(url.hash.slice(1));
    if (!to && !(await fileFor(url.pathname))) wrong(`${from} links to ${url.pathname}, which is not there`);
    const missing = to && anchor && !to.anchors.includes(anchor);
    if (missing) wrong(`${from} links to ${url.pathname}${url.hash}: no such anchor`);
    return;
  }
  const file = link.match(`^${repository}/(?:blob|edit)/main/([^#?]*)`)?.[1];
  if (file) await access(path.join(docs, '..', file)).catch(() => wrong(`${from} links to ${file}, which is no file`));
}

// search gives the pages of the first three hits.
async function search(page, question) {
  await page.goto(`${origin}${base}search?q=${encodeURIComponent(question)}`, { waitUntil: 'networkidle' });
  await page.waitForFunction(() => /\d documents? found|No documents were found/.test(document.body.innerText));
  const hits = await page.$$eval('article h2 a', (all) => all.map((a) => new URL(a.href).pathname));
  return hits.slice(0, 3);
}

const sitemap = await readFile(path.join(folder, 'sitemap.xml'), 'utf8');
const pages = [...sitemap.matchAll(/<loc>https?:\/\/[^/]+(\/[^<]*)<\/loc>/g)]
  .map((m) => m[1]).filter((name) => name !== `${base}search`);
if (pages.length < 30) wrong(`the sitemap has ${pages.length} pages`);
const read = new Map();
const windows = ['light', 'dark'].flatMap((scheme) => [360, 1440].map((width) => ({ scheme, width })));
await Promise.all(windows.map(async ({ scheme, width }) => {
  const page = await open({ colorScheme: scheme, viewport: { width, height: 900 } });
  for (const name of pages) {
    await look(page, name, scheme, width);
    if (width === 1440) read.set(name, await readPage(page)); // a small window has no sidebar
  }
  await page.context().close();
}));
let links = 0;
for (const [name, { links: all }] of read) {
  for (const link of all) await checkLink(read, name, link);
  links += all.length;
}

const near = new Set([base]);
for (let clicks = 0; clicks < 2; clicks++) {
  for (const name of [...near]) (read.get(name)?.links ?? []).forEach((l) => near.add(new URL(l).pathname));
}
const questions = JSON.parse(await readFile(path.join(import.meta.dirname, 'questions.json'), 'utf8'));
if (questions.length < 30) wrong(`there are ${questions.length} questions`);
const page = await open({ viewport: { width: 1440, height: 900 } });
for (const { question, page: name, answer, first } of questions) {
  const want = base + name;
  if (!near.has(want)) wrong(`"${question}": ${want} is more than two clicks from the start page`);
  if (!read.get(want)?.text.includes(answer)) wrong(`"${question}": ${want} does not say "${answer}"`);
  const hits = await search(page, question);
  if (first ? hits[0] !== want : !hits.includes(want)) wrong(`"${question}" finds ${hits.join(', ') || 'nothing'}, want ${want}`);
}
await browser.close();
server.close();
for (const p of problems) console.error(p);
const done = `${pages.length} pages, ${links} links, ${questions.length} questions`;
console.log(`site-test: ${done}, ${problems.size} problems`);
process.exit(problems.size > 0 ? 1 : 0);
