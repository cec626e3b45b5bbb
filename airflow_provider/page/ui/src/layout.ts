import type { Edge, Stage } from "./types";

/** A stage or a topic, at its place in the drawing. */
export interface Node {
  id: string;
  stage?: Stage;
  topic?: string;
  kind?: string;
  x: number;
  y: number;
}

/** From the border of one node to that of another. */
export interface Line {
  from: Node;
  to: Node;
  path: string;
  /** Records a second that the stage at its end takes; not known of what a stage writes. */
  rate?: number;
  /** Where the rate stands. */
  at: [number, number];
}

export interface Drawing {
  nodes: Node[];
  lines: Line[];
  width: number;
  height: number;
}

export const WIDE = 168;
export const HIGH = 46;
const BETWEEN_LAYERS = 64;
const BETWEEN_NODES = 18;

const stageId = (number: number): string => `stage ${number}`;
const topicId = (topic: string): string => `topic ${topic}`;

/** What leads from where to where; each topic is one node, however many stages read it. */
function arrows(edges: Edge[]): { from: string; to: string }[] {
  const found = new Map<string, { from: string; to: string }>();
  const add = (from: string, to: string): unknown => found.set(`${from}\0${to}`, { from, to });
  for (const { of, to, topic } of edges) {
    if (of !== null) add(stageId(of), topicId(topic));
    if (to !== null) add(topicId(topic), stageId(to));
  }
  return [...found.values()];
}

/** By node, how many arrows lead to it at the most: so each arrow leads on. No job's graph has a circle. */
function layersOf(ids: string[], all: { from: string; to: string }[]): Map<string, number> {
  const layer = new Map(ids.map((id) => [id, 0]));
  for (let round = 0; round < ids.length; round += 1) {
    let moved = false;
    for (const { from, to } of all) {
      const least = (layer.get(from) ?? 0) + 1;
      if ((layer.get(to) ?? 0) < least) {
        layer.set(to, least);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return layer;
}

/**
 * Layers of nodes, in the direction in which records flow: to the right, or down where there is no room for that.
 * Within a layer, nodes stand in the order of those that lead to them, so that few arrows cross.
 */
export function draw(stages: Stage[], edges: Edge[], down: boolean): Drawing {
  const all = arrows(edges);
  const kinds = new Map(edges.map((edge) => [edge.topic, edge.kind]));
  const of = new Map<string, Omit<Node, "x" | "y">>();
  for (const topic of kinds.keys()) of.set(topicId(topic), { id: topicId(topic), topic, kind: kinds.get(topic) });
  for (const stage of stages) of.set(stageId(stage.number), { id: stageId(stage.number), stage });
  const layer = layersOf([...of.keys()], all);
  const layers: string[][] = [];
  for (const [id, at] of layer) (layers[at] ??= []).push(id);
  const place = new Map<string, number>();
  for (const ids of layers) {
    const mean = (id: string): number => {
      const before = all.filter(({ to }) => to === id).map(({ from }) => place.get(from) ?? 0);
      return before.length === 0 ? 0 : before.reduce((sum, one) => sum + one, 0) / before.length;
    };
    ids.map((id) => [mean(id), id] as const)
      .sort(([a], [b]) => a - b)
      .forEach(([, id], at) => place.set(id, at - (ids.length - 1) / 2));
  }
  const most = Math.max(1, ...layers.map((ids) => ids.length));
  const [along, across] = down ? [HIGH + BETWEEN_LAYERS, WIDE + BETWEEN_NODES] : [WIDE + BETWEEN_LAYERS, HIGH + BETWEEN_NODES];
  const nodes = new Map<string, Node>();
  for (const [id, node] of of) {
    const a = (layer.get(id) ?? 0) * along;
    const b = ((place.get(id) ?? 0) + (most - 1) / 2) * across;
    nodes.set(id, { ...node, ...(down ? { x: b, y: a } : { x: a, y: b }) });
  }
  const lines = all.flatMap(({ from: fromId, to: toId }) => {
    const [from, to] = [nodes.get(fromId), nodes.get(toId)];
    if (from === undefined || to === undefined) return [];
    const [x1, y1] = down ? [from.x + WIDE / 2, from.y + HIGH] : [from.x + WIDE, from.y + HIGH / 2];
    const [x2, y2] = down ? [to.x + WIDE / 2, to.y] : [to.x, to.y + HIGH / 2];
    const bend = down ? `${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2}` : `${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2}`;
    const at: [number, number] = [(x1 + x2) / 2, (y1 + y2) / 2];
    return [{ from, to, path: `M${x1} ${y1} C${bend} ${x2} ${y2}`, rate: to.stage?.records_per_s, at }];
  });
  const [deep, broad] = [layers.length * along - BETWEEN_LAYERS, most * across - BETWEEN_NODES];
  return { nodes: [...nodes.values()], lines, width: down ? broad : deep, height: down ? deep : broad };
}
