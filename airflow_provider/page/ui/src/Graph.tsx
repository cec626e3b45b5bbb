import { Box } from "@chakra-ui/react";
import { useEffect, useMemo, useRef, useState } from "react";

import { count } from "./format";
import { draw, HIGH, WIDE } from "./layout";
import type { Details } from "./types";

const MARGIN = 4;
const MOST_CHARS = 24;
/** By style: Airflow's own says how large a text is, and counts more than an attribute. */
const NAME = { fontSize: 12, fontWeight: 600 };
const SMALL = { fontSize: 11 };

/** Both ends of a long name tell more than its beginning alone. */
const short = (text: string): string =>
  text.length <= MOST_CHARS ? text : `${text.slice(0, 13)}…${text.slice(14 - MOST_CHARS)}`;

/** Whether there is room for the layers side by side. */
function useRoom(): [React.RefObject<HTMLDivElement | null>, number] {
  const place = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  useEffect(() => {
    const at = place.current;
    if (at === null) return undefined;
    const follow = new ResizeObserver(() => setRoom(at.clientWidth));
    follow.observe(at);
    return () => follow.disconnect();
  }, []);
  return [place, room];
}

/** The job as boxes and arrows. What it says is in the list below it, too, which a screen reader is told. */
export const Graph = ({ details }: { readonly details: Details }) => {
  const [place, room] = useRoom();
  const { edges = [], stages = [] } = details;
  const drawing = useMemo(() => {
    const beside = draw(stages, edges, false);
    return beside.width <= 1.25 * room ? beside : draw(stages, edges, true);
  }, [edges, room, stages]);
  const { height, lines, nodes, width } = drawing;
  return (
    <Box color="fg" data-testid="drawing" ref={place}>
      <svg
        aria-hidden="true"
        style={{ display: "block", height: "auto", maxWidth: width + 2 * MARGIN, width: "100%" }}
        viewBox={`${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`}
      >
        <defs>
          <marker id="arrow" markerHeight="7" markerWidth="7" orient="auto" refX="9" refY="5" viewBox="0 0 10 10">
            <path d="M0 0 L10 5 L0 10 z" fill="currentColor" />
          </marker>
        </defs>
        {lines.map((line) => (
          <path
            d={line.path}
            data-testid="arrow"
            fill="none"
            key={`${line.from.id} ${line.to.id}`}
            markerEnd="url(#arrow)"
            opacity="0.7"
            stroke="currentColor"
            strokeWidth="1.5"
          />
        ))}
        {nodes.map((node) => (
          <g data-testid="node" key={node.id} transform={`translate(${node.x} ${node.y})`}>
            <title>{node.topic ?? `${node.stage?.number}: ${node.stage?.name}`}</title>
            <rect
              fill="currentColor"
              fillOpacity={node.stage === undefined ? 0.04 : 0.1}
              height={HIGH}
              rx={node.stage === undefined ? HIGH / 2 : 6}
              stroke="currentColor"
              strokeOpacity="0.5"
              width={WIDE}
            />
            <text fill="currentColor" style={NAME} textAnchor="middle" x={WIDE / 2} y={HIGH / 2 - 3}>
              {short(node.topic ?? `${node.stage?.number}: ${node.stage?.name ?? ""}`)}
            </text>
            <text fill="currentColor" style={SMALL} textAnchor="middle" x={WIDE / 2} y={HIGH / 2 + 13}>
              {short(node.kind ?? (node.stage?.store ? `store ${node.stage.store}` : (node.stage?.operation ?? "")))}
            </text>
          </g>
        ))}
        {lines.map((line) =>
          line.rate === undefined ? undefined : (
            <text
              data-testid="rate"
              fill="currentColor"
              key={`${line.from.id} ${line.to.id}`}
              paintOrder="stroke"
              stroke="var(--chakra-colors-bg)"
              strokeWidth="4"
              style={SMALL}
              textAnchor="middle"
              x={line.at[0]}
              y={line.at[1] - 4}
            >
              {count(line.rate)}/s
            </text>
          ),
        )}
      </svg>
    </Box>
  );
};
