import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** What the bundle is built of: the same is computed by tests/unit/page/test_bundle.py. */
function digestOfSources(): string {
  const inSources = readdirSync("src", { recursive: true, encoding: "utf-8" })
    .filter((name) => /\.(ts|tsx)$/.test(name))
    .map((name) => join("src", name));
  const files = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", ...inSources].sort();
  const digest = createHash("sha256");
  for (const file of files) digest.update(`${file}\0`).update(readFileSync(file)).update("\0");
  return digest.digest("hex");
}

/** The first line of the bundle. A banner of Rollup's would be minified away. */
const saysWhatItIsBuiltOf: Plugin = {
  name: "says-what-it-is-built-of",
  enforce: "post",
  generateBundle(_, bundle) {
    for (const file of Object.values(bundle)) {
      if (file.type === "chunk") file.code = `// built of ${digestOfSources()}\n${file.code}`;
    }
  },
};

export default defineConfig({
  plugins: [saysWhatItIsBuiltOf],
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  esbuild: { jsx: "automatic", legalComments: "inline" },
  build: {
    target: "es2022",
    outDir: "../bundle",
    emptyOutDir: true,
    lib: { entry: "src/main.tsx", formats: ["iife"], name: "StatefulStreamsPage", fileName: () => "page.js" },
    rollupOptions: {
      // Airflow's UI gives its own: there is one React and one theme on a page.
      external: ["react", "react/jsx-runtime", "@chakra-ui/react", "react-router-dom"],
      output: {
        globals: {
          react: "React",
          "react/jsx-runtime": "ReactJSXRuntime",
          "@chakra-ui/react": "ChakraUI",
          "react-router-dom": "ReactRouterDOM",
        },
      },
    },
  },
});
