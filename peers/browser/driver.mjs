// Drives the Chromium of this machine for a test: reads a line of JSON for each step, and answers each with a line of JSON.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const PATIENCE = 30000;
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
let context, page;
// What must not happen, and where requests went.
const seen = { requests: [], errors: [], violations: [] };

async function open({ url, width = 1280, height = 900, dark = false, still = true }) {
  await context?.close();
  const options = { viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: still ? "reduce" : "no-preference" };
  context = await browser.newContext(options);
  page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") seen.errors.push(message.text());
  });
  await page.exposeFunction("reportViolation", (text) => seen.violations.push(text));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI}`));
  });
  const answer = await page.goto(url, { waitUntil: "domcontentloaded" });
  return answer.status();
}

// A second page of the same browser, with the same cookies.
async function openAnother({ url }) {
  const other = await context.newPage();
  await other.goto(url, { waitUntil: "domcontentloaded" });
  page = other;
}

const steps = {
  open, openAnother,
  run: ({ script }) => page.evaluate(script),
  // The browser's own waiting evaluates a string inside the page, which the page's policy forbids.
  wait: async ({ script }) => {
    for (const deadline = Date.now() + PATIENCE; !(await page.evaluate(script)); ) {
      if (Date.now() > deadline) throw new Error("it does not become true");
      await new Promise((done) => setTimeout(done, 50));
    }
  },
  click: ({ selector }) => page.click(selector),
  press: ({ key }) => page.keyboard.press(key),
  type: ({ text }) => page.keyboard.type(text),
  fill: ({ selector, text }) => page.fill(selector, text),
  choose: ({ selector, value }) => page.selectOption(selector, value),
  hover: ({ selector }) => page.hover(selector),
  resize: ({ width, height }) => page.setViewportSize({ width, height }),
  scheme: ({ dark }) => page.emulateMedia({ colorScheme: dark ? "dark" : "light" }),
  picture: async ({ path, full = false }) => {
    await page.screenshot({ path, fullPage: full });
  },
  cookies: () => context.cookies(),
  url: () => page.url(),
  seen: () => seen,
};

for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  let answer;
  try {
    answer = { done: (await steps[step.do](step)) ?? null };
  } catch (error) {
    answer = { failed: String(error?.message ?? error) };
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
