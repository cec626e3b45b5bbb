import { Box, Text } from "@chakra-ui/react";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import style from "uplot/dist/uPlot.min.css?inline";

import { usePolled } from "./api";
import { count } from "./format";
import { Section } from "./Parts";
import type { Details, Point, TrendAnswer } from "./types";

const POLL_MS = 30_000;
const HEIGHT_PX = 140;

const clock = (atS: number): string => new Date(1000 * atS).toISOString().slice(11, 19);

/** A figure over time, in UTC, drawn anew only where its points change. */
const Chart = ({ label, points }: { readonly label: string; readonly points: [number, number | null][] }) => {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const at = place.current;
    if (at === null) return undefined;
    const colour = getComputedStyle(at).color;
    const axis = { grid: { stroke: "rgba(128,128,128,0.25)" }, stroke: colour };
    plot.current = new uPlot(
      {
        axes: [{ ...axis, space: 90, values: (_, splits) => splits.map(clock) }, { ...axis, size: 64 }],
        cursor: { drag: { x: false, y: false } },
        height: HEIGHT_PX,
        legend: { show: false },
        scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
        series: [{}, { label, stroke: "#3182ce", width: 2 }],
        width: at.clientWidth,
      },
      [[], []],
      at,
    );
    const follow = new ResizeObserver(() => plot.current?.setSize({ height: HEIGHT_PX, width: at.clientWidth }));
    follow.observe(at);
    return () => {
      follow.disconnect();
      plot.current?.destroy();
    };
  }, [label]);
  useEffect(() => {
    if (points.length < 2) return; // of one there is no line
    plot.current?.setData([points.map(([atMs]) => atMs / 1000), points.map(([, value]) => value)]);
  }, [points]);
  const newest = points.at(-1)?.[1];
  const most = points.reduce((sofar, [, value]) => Math.max(sofar, value ?? 0), 0);
  return (
    <Box flex="1 1 20rem" minW={0}>
      <Text fontSize="sm">
        {label}: {typeof newest === "number" ? `${count(newest)} now` : "not known now"}, {count(most)} at the most
      </Text>
      <Box aria-label={`${label} over time`} color="fg" ref={place} role="img" w="100%" />
    </Box>
  );
};

function useLive(details: Details): Point[] {
  const live = useRef<Point[]>([]);
  const drawn = useRef<Details>(undefined);
  const { records_per_s, source_lag_records, source_lag_unknown } = details;
  useEffect(() => {
    live.current = [];
  }, [details.id]);
  const before = live.current.at(-1)?.at_ms ?? 0;
  // The page is drawn more often than there is an answer.
  const isNew = drawn.current !== details;
  drawn.current = details;
  if (isNew && details.tasks !== undefined && details.word !== "unknown" && Date.now() - before > 900) {
    // A sum of some tasks would be drawn as less than what waits.
    const point = { at_ms: Date.now(), records_per_s, source_lag_records: source_lag_unknown ? null : source_lag_records };
    live.current = [...live.current.slice(-899), point];
  }
  return live.current;
}

/** Lag and throughput: a point a minute of the last hours, and of each second since the page was opened. */
export const Trend = ({ details }: { readonly details: Details }) => {
  const { data } = usePolled<TrendAnswer>(`applications/${encodeURIComponent(details.id)}/trend`, POLL_MS);
  const live = useLive(details);
  const since = live[0]?.at_ms ?? Infinity;
  const points = [...(data?.points ?? []).filter((point) => point.at_ms < since), ...live];
  const series = (name: "records_per_s" | "source_lag_records"): [number, number | null][] =>
    points.flatMap((point) => (point[name] === undefined ? [] : [[point.at_ms, point[name]]]));
  return (
    <Section id="trend" title="Lag and throughput">
      <style>{style}</style>
      <Box display="flex" flexWrap="wrap" gap={4}>
        <Chart label="Records that wait" points={series("source_lag_records")} />
        <Chart label="Records/s" points={series("records_per_s")} />
      </Box>
      <Box as="ul" fontSize="sm" listStyleType="none" mt={2}>
        {(data?.ahead ?? []).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </Box>
    </Section>
  );
};
