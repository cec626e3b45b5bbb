import type { Card } from "./types";

const numbers = new Intl.NumberFormat("en");

/** A whole number, "-" where it is not known: as the command line writes it. */
export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? "-" : numbers.format(Math.round(value));

/** How many records wait, as far as that is known of all tasks. */
export function waiting(of: { source_lag_records?: number | null; source_lag_unknown?: number }): string {
  const unknown = of.source_lag_unknown ?? 0;
  if (unknown === 0) return count(of.source_lag_records);
  const tasks = unknown === 1 ? "1 task" : `${unknown} tasks`;
  return typeof of.source_lag_records === "number"
    ? `${count(of.source_lag_records)}, and of ${tasks} not known`
    : "not known";
}

export const seconds = (ms: number | null | undefined): string =>
  ms === null || ms === undefined ? "-" : ms < 100_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms / 1000);

export function duration(inSeconds: number): string {
  if (inSeconds < 90) return `${Math.round(inSeconds)} s`;
  if (inSeconds < 5_400) return `${Math.round(inSeconds / 60)} min`;
  if (inSeconds < 172_800) return `${Math.round(inSeconds / 3600)} h`;
  return `${Math.round(inSeconds / 86_400)} d`;
}

export const ago = (atMs: number): string => `${duration(Math.max(0, Date.now() - atMs) / 1000)} ago`;

export const lastDrill = ({ last_drill }: Pick<Card, "last_drill">): string =>
  last_drill ? `${last_drill.outcome} ${ago(last_drill.at_ms)}` : "none";

/** The number where no calendar has it, as the command line shows what another program wrote. */
export function time(atMs: number | null | undefined): string {
  if (atMs === null || atMs === undefined) return "-";
  const date = new Date(atMs);
  return Number.isNaN(date.valueOf()) ? `${atMs} ms` : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "-";
  const unit = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let left = value;
  while (left >= 1024 && at < unit.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${left.toFixed(at === 0 ? 0 : 1)} ${unit[at]}`;
}
