// Checks the built site in Chromium: each page, in both themes and at two widths, asks no other host,
// logs no error and does not scroll sideways; and the questions of readers are answered by one of the
// first three hits of the search, on a page at most two clicks from the start page.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { chromium } from 'playwright-core';

const base = '/stratos/';
const folder = path.resolve(import.meta.dirname, '..', 'build');
const types = {
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.xml': 'application/xml',
};
const problems = [];
const wrong = (text) => problems.push(text);

const server = createServer(async (request, response) => {
  const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
  if (!name.startsWith(base)) {
    response.writeHead(404).end();
    return;
  }
  const wanted = name.slice(base.length) || 'index.html';
  for (const file of [wanted, `${wanted}.html`]) {
    try {
      const body = await readFile(path.join(folder, file));
      response.writeHead(200, { 'Content-Type': types[path.extname(file)] ?? 'application/octet-stream' }).end(body);
      return;
    } catch (error) {
      if (error.code !== 'ENOENT' && error.code !== 'EISDIR') throw error;
    }
  }
  response.writeHead(404).end();
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const origin = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });

// open makes a page of the browser whose requests and log are watched.
async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on('request', (r) => {
    if (!r.url().startsWith(origin) && !/^(data|blob):/.test(r.url())) wrong(`${page.url()} asks ${r.url()}`);
  });
  page.on('console', (m) => m.type() === 'error' && wrong(`${page.url()}: ${m.text()}`));
  page.on('pageerror', (e) => wrong(`${page.url()}: ${e}`));
  return page;
}

const sitemap = await readFile(path.join(folder, 'sitemap.xml'), 'utf8');
const pages = [...sitemap.matchAll(/<loc>https?:\/\/[^/]+(\/[^<]*)<\/loc>/g)].map((m) => m[1]);
if (pages.length < 30) wrong(`the sitemap has ${pages.length} pages`);
for (const colorScheme of ['light', 'dark']) {
  for (const width of [360, 1440]) {
    const page = await open({ colorScheme, viewport: { width, height: 900 } });
    for (const name of pages) {
      await page.goto(origin + name, { waitUntil: 'networkidle' });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (over > 0) wrong(`${name} is ${over} px wider than ${width} (${colorScheme})`);
      const theme = await page.evaluate(() => document.documentElement.dataset.theme);
      if (theme !== colorScheme) wrong(`${name} is ${theme}, want ${colorScheme}`);
    }
    await page.context().close();
  }
}

const page = await open({ viewport: { width: 1440, height: 900 } });
const linksOf = async (name) => {
  await page.goto(origin + name, { waitUntil: 'networkidle' });
  const links = await page.$$eval('a[href]', (all) => all.map((a) => new URL(a.href).pathname));
  return links.filter((l) => l.startsWith(base)).map((l) => l.slice(base.length).replace(/\/$/, ''));
};
const near = new Set(await linksOf(base));
for (const name of [...near]) (await linksOf(base + name)).forEach((l) => near.add(l));
const questions = JSON.parse(await readFile(path.join(import.meta.dirname, 'questions.json'), 'utf8'));
if (questions.length < 30) wrong(`there are ${questions.length} questions`);
for (const { question, page: want } of questions) {
  if (!near.has(want)) wrong(`"${question}": ${want} is more than two clicks from the start page`);
  await page.goto(`${origin}${base}search?q=${encodeURIComponent(question)}`, { waitUntil: 'networkidle' });
  await page.waitForSelector('main article, main h1');
  await page.waitForTimeout(500);
  const hits = await page.$$eval('main article a[href]', (all) => all.map((a) => new URL(a.href).pathname));
  const first = [...new Set(hits)].slice(0, 3).map((h) => h.slice(base.length));
  if (!first.includes(want)) wrong(`"${question}" finds ${first.join(', ') || 'nothing'}, want ${want}`);
}
await browser.close();
server.close();
for (const p of problems) console.error(p);
console.log(`${pages.length} pages, ${questions.length} questions, ${problems.length} problems`);
process.exit(problems.length > 0 ? 1 : 0);
