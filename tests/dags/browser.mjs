// A real Chromium that does what it is told: a line of JSON in, {"on": "page", "do": "goto", "with": [...]}, a line out.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, modules, executable] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const context = await chromium.launchPersistentContext(folder, {
  executablePath: executable,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
  ],
  reducedMotion: "reduce",
});
const page = context.pages()[0] ?? (await context.newPage());
page.setDefaultTimeout(60_000);
const seen = { errors: [], hosts: [] };
page.on("pageerror", (error) => seen.errors.push(String(error)));
page.on("request", (request) => seen.hosts.push(new URL(request.url()).host));
const own = {
  seen: () => ({ errors: seen.errors, hosts: [...new Set(seen.hosts)] }),
  // What Airflow's own frame around the page does is Airflow's.
  axe: async (selector) => {
    await page.addScriptTag({ path: require.resolve("axe-core") });
    const found = await page.evaluate((inside) => globalThis.axe.run(inside), selector);
    return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ").slice(0, 600)}`);
  },
};
const objects = { context, keyboard: page.keyboard, own, page };

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let answer;
  try {
    const value = await objects[asked.on][asked.do](...asked.with);
    answer = { value: ["goto", "screenshot", "waitForSelector"].includes(asked.do) ? null : (value ?? null) };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await context.close();
