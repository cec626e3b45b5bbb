import { useEffect, useReducer, useRef, useState } from "react";

import type { LookupAnswer } from "./types";

/** An address below that of Airflow's UI, which may lie below a path. */
export const address = (path: string): string => new URL(path, document.baseURI).href;

/** A request that nobody answers for so long has failed. */
const PATIENCE_MS = 15_000;

export interface Polled<T> {
  data: T | undefined;
  /** Why the last request failed, though an earlier one may have been answered. */
  problem: string | undefined;
}

async function problemOf(answer: Response): Promise<string> {
  if (answer.status === 401) return "You are logged out: log in to Airflow again.";
  try {
    const { detail } = (await answer.json()) as { detail?: unknown };
    if (typeof detail === "string") return detail;
    const said = Array.isArray(detail) ? (detail as { msg?: string }[]).map(({ msg }) => msg) : [];
    return said.filter(Boolean).join("; ") || `${answer.status}: ${JSON.stringify(detail)}`;
  } catch {
    return `Airflow answered ${answer.status} ${answer.statusText}`;
  }
}

/** Asks again and again, while the page is seen. What has not changed comes as 304, and draws nothing. */
export function usePolled<T>(path: string, everyMs: number): Polled<T> {
  const [polled, setPolled] = useState<Polled<T>>({ data: undefined, problem: undefined });
  const tag = useRef<string | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const cut = new AbortController();
    tag.current = null;
    setPolled({ data: undefined, problem: undefined });

    const ask = async (): Promise<void> => {
      if (!document.hidden) {
        try {
          const headers: HeadersInit = tag.current === null ? {} : { "If-None-Match": tag.current };
          const answer = await fetch(address(`stateful-streams/api/${path}`), {
            headers,
            signal: AbortSignal.any([cut.signal, AbortSignal.timeout(PATIENCE_MS)]),
            cache: "no-store",
          });
          if (answer.ok) {
            const data = (await answer.json()) as T;
            tag.current = answer.headers.get("ETag");
            setPolled({ data, problem: undefined });
          } else if (answer.status === 304) {
            setPolled((before) => (before.problem === undefined ? before : { ...before, problem: undefined }));
          } else {
            const problem = await problemOf(answer);
            setPolled((before) => ({ ...before, problem }));
          }
        } catch (error) {
          if (cut.signal.aborted) return;
          const problem = `Airflow's API server does not answer (${String(error)}): what is shown is old.`;
          setPolled((before) => ({ ...before, problem }));
        }
      }
      timer = setTimeout(() => void ask(), everyMs);
    };

    void ask();
    const onSeen = (): void => {
      if (document.hidden) return;
      clearTimeout(timer);
      void ask();
    };
    document.addEventListener("visibilitychange", onSeen);
    return () => {
      cut.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onSeen);
    };
  }, [path, everyMs]);
  return polled;
}

/** Draws what calls it once a second: how long ago something was goes on while nothing else changes. */
export function useSeconds(): void {
  const [, tick] = useReducer((ticks: number) => ticks + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, 1_000);
    return () => clearInterval(timer);
  }, []);
}

async function post(path: string, body: unknown): Promise<unknown> {
  const answer = await fetch(address(path), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await problemOf(answer));
  return answer.json();
}

/** What a store holds of a key. The key is not in the address, which proxies log. */
export const lookUp = async (id: string, store: string, key: string[]): Promise<LookupAnswer> =>
  (await post(`stateful-streams/api/applications/${encodeURIComponent(id)}/lookup`, { key, store })) as LookupAnswer;

/** A run of a DAG, as Airflow's own API knows it, which decides what the user may see and start. */
export interface Run {
  dagId: string;
  runId: string;
  beganAtMs: number;
}

interface AirflowRun {
  dag_id: string;
  dag_run_id: string;
  run_after: string;
}

const runOf = (run: AirflowRun): Run => ({
  beganAtMs: Date.parse(run.run_after),
  dagId: run.dag_id,
  runId: run.dag_run_id,
});

const pathOf = ({ dagId, runId }: Run): string =>
  `api/v2/dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}`;

async function get(path: string): Promise<unknown> {
  const answer = await fetch(address(path));
  if (!answer.ok) throw new Error(await problemOf(answer));
  return answer.json();
}

/** What became of a run. */
export const runState = async (run: Run): Promise<string> => ((await get(pathOf(run))) as { state: string }).state;

interface AirflowTask {
  task_id: string;
  map_index: number;
  state: string | null;
  rendered_map_index: string | null;
}

/** Which tasks of a run failed, and what others say of what they came to. */
export async function outcomesOf(run: Run): Promise<string[]> {
  const { task_instances: tasks } = (await get(`${pathOf(run)}/taskInstances`)) as { task_instances: AirflowTask[] };
  return tasks.flatMap(({ map_index: index, rendered_map_index: said, state, task_id: id }) =>
    state === "failed"
      ? [`${id} failed: see its log`]
      : said !== null && said !== String(index)
        ? [`${id}: ${said}`]
        : [],
  );
}

/** The newest runs of some DAGs that failed since then. */
export async function failedRuns(dagIds: string[], sinceMs: number): Promise<Run[]> {
  const found = await post("api/v2/dags/~/dagRuns/list", {
    dag_ids: dagIds,
    order_by: "-run_after",
    page_limit: 5,
    run_after_gte: new Date(sinceMs).toISOString(),
    states: ["failed"],
  });
  return (found as { dag_runs: AirflowRun[] }).dag_runs.map(runOf);
}

/** Start a run of a DAG. */
export const startRun = async (dagId: string, conf: Record<string, unknown>): Promise<Run> =>
  runOf((await post(`api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`, { logical_date: null, conf })) as AirflowRun);
