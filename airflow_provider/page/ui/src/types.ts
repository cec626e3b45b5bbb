/** What the API answers: see airflow_provider/page/answers.py, which decides all of it. */

export type Word = "safe" | "degraded" | "standing still" | "unknown";

export interface Reason {
  text: string;
  means: Word;
  step: string | null;
  step_title: string | null;
}

export interface Card {
  id: string;
  word: Word;
  reasons: Reason[];
  more_reasons?: number;
  since_ms?: number | null;
  tasks?: number;
  instances?: number;
  source_lag_records?: number | null;
  /** Of so many tasks it is not known. */
  source_lag_unknown?: number;
  records_per_s?: number;
  standby_lag_records?: number | null;
  standbys_warm?: number;
  standbys?: number;
  predicted_rto_ms?: number | null;
  predicted_by_default?: boolean;
  slo_rto_ms: number | null;
  last_drill?: Event | null;
  dags: Record<string, string>;
}

export interface Event {
  kind: string;
  id: string;
  cause: string;
  outcome: "open" | "passed" | "failed" | "skipped";
  at_ms: number;
  ended_at_ms: number | null;
  phases_ms: [string, number][];
  rto_ms: number | null;
  slo_rto_ms: number | null;
  slo_met: boolean | null;
  predicted_rto_ms: number | null;
  evidence: string;
  reason: string | null;
  decisions: string[];
  instances: string[];
  tasks: string[];
  restored_records: number;
  lost_records: number | null;
  doubled_records: number | null;
  by: string;
  dag_id: string | null;
  run_id: string | null;
  /** Of what is on the time line: whether its tasks work again, as far as they have anything to do. */
  recovered?: boolean;
}

export interface Host {
  instance: string;
  state: string;
  lives: boolean;
  active_for: number;
  standby_for: number;
  host?: string;
  stores_host?: string;
  incarnation?: number;
  paused?: boolean;
  error?: string | null;
  heard_at_ms?: number;
  disk_folder?: string;
  disk_used_bytes?: number;
  disk_free_bytes?: number | null;
  log_file?: string | null;
}

export interface Stage {
  number: number;
  name: string;
  source: string | null;
  steps: string[];
  operation: string | null;
  store: string | null;
  key: string[];
  outputs: string[];
  records_per_s: number;
  source_lag_records: number | null;
  source_lag_unknown: number;
  watermark_ms: number | null;
  late_records: number;
  left_out_records: number;
}

export interface Edge {
  topic: string;
  of: number | null;
  to: number | null;
  kind: string;
}

export interface Copy {
  instance: string;
  role: "active" | "standby";
  state: string;
  lag_records?: number | null;
  lag_s?: number | null;
  error?: string | null;
  certified_at_ms?: number | null;
  divergences?: number;
  restore?: string | null;
  restored_share?: number | null;
  restored_in_s?: number | null;
  records_per_s?: number;
  source_lag_records?: number | null;
  watermark_ms?: number | null;
  late_records?: number;
  left_out_records?: number;
}

export interface Task {
  task: string;
  predicted_rto_ms: number | null;
  prediction: string | null;
  measured_rto_ms: number | null;
  copies: Copy[];
}

export interface DeadLetters {
  topic: string;
  offsets?: number;
  at_ms?: number;
  task?: string;
  exception?: string;
  message?: string;
  problem?: string;
}

export interface TopicFindings {
  at_ms: number;
  problem: string | null;
  findings: { topic: string; problem: string; fix: string; command: string | null }[];
}

export interface LookupAnswer {
  store: string;
  key: string[];
  found: {
    task: string;
    instance: string;
    stands: string;
    states: { name: string; value: string }[];
    complete: boolean;
  }[];
  unknown: Record<string, string>;
}

/** What lies behind the card is missing while nothing could be read. */
export interface Details extends Card {
  generation?: number | null;
  watching?: string;
  hosts?: Host[];
  stages?: Stage[];
  edges?: Edge[];
  tasks_by_stage?: { stage: number; tasks: Task[] }[];
  open_incidents?: string[];
  held_time?: string[];
  uneven_load?: string | null;
  dead_letters?: DeadLetters[];
  topics?: TopicFindings | null;
}

export interface ApplicationAnswer {
  application: Details;
  timeline: Event[];
  may_start: string[];
  may_look_up: boolean;
}

export interface Point {
  at_ms: number;
  records_per_s?: number | null;
  source_lag_records?: number | null;
}

export interface TrendAnswer {
  points: Point[];
  ahead: string[];
}
