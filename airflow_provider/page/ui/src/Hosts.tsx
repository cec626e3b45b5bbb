import { Box, Button, Heading, SimpleGrid, Text } from "@chakra-ui/react";
import { useState } from "react";

import { ago, bytes, count, duration, seconds, time } from "./format";
import { Figure, Figures, Section } from "./Parts";
import type { Copy, Details, Host, Task } from "./types";

interface Cell {
  task: Task;
  copy: Copy;
}

/** The same glyphs in the legend and in the cells; what is wrong has a shape of its own. */
function lookOf(copy: Copy): { glyph: string; palette: string } {
  if (copy.error || ["failed", "missing", "silent", "closed"].includes(copy.state)) {
    return { glyph: "✕", palette: "red" };
  }
  if (copy.state === "running") return { glyph: "●", palette: "green" };
  if (copy.state === "warm") return { glyph: "○", palette: "blue" };
  return { glyph: "◐", palette: "orange" };
}

const LEGEND = [
  ["●", "active, running"],
  ["○", "standby, warm"],
  ["◐", "being taken over, restored or started"],
  ["✕", "failed, silent or missing"],
] as const;

const TaskCell = ({ cell, chosen, onChoose }: { readonly cell: Cell; readonly chosen: boolean; readonly onChoose: () => void }) => {
  const { glyph, palette } = lookOf(cell.copy);
  const share = cell.copy.restored_share;
  return (
    <Button
      aria-label={`task ${cell.task.task}, ${cell.copy.role} on ${cell.copy.instance}: ${cell.copy.state}`}
      aria-pressed={chosen}
      bg={{ base: `${palette}.100`, _dark: `${palette}.900` }}
      borderColor={chosen ? "fg" : "transparent"}
      borderWidth="2px"
      color={{ base: `${palette}.900`, _dark: `${palette}.100` }}
      data-state={cell.copy.state}
      data-testid="cell"
      minW="3.2rem"
      onClick={onChoose}
      px={1}
      size="xs"
    >
      <span aria-hidden="true">{glyph}</span>
      {cell.task.task}
      {typeof share === "number" ? ` ${Math.floor(100 * share)}%` : ""}
    </Button>
  );
};

const HostCard = ({
  cells,
  chosen,
  host,
  onChoose,
  stages,
}: {
  readonly cells: Cell[];
  readonly chosen: string | null;
  readonly host: Host;
  readonly onChoose: (cell: Cell) => void;
  readonly stages: Map<number, string>;
}) => {
  const numbers = [...new Set(cells.map(({ task }) => Number(task.task.split("_")[0])))];
  return (
    <Box
      borderColor={host.lives ? "border" : "border.error"}
      borderRadius="md"
      borderWidth="1px"
      data-testid="host"
      p={3}
    >
      <Heading as="h4" size="sm" wordBreak="break-word">
        {host.instance}: {host.state}
        {host.paused ? ", paused" : ""}
      </Heading>
      <Text color="fg.muted" fontSize="sm" wordBreak="break-word">
        {host.host || "no host is known"}
        {host.stores_host && host.stores_host !== host.host ? `, stores on ${host.stores_host}` : ""}; active for{" "}
        {host.active_for}, standby for {host.standby_for}
      </Text>
      {host.error ? (
        <Text color={{ base: "red.700", _dark: "red.300" }} fontSize="sm" wordBreak="break-word">
          {host.error}
        </Text>
      ) : undefined}
      {numbers.map((number) => (
        <Box key={number} mt={2}>
          {stages.size > 1 ? (
            <Text fontSize="xs">
              {number}: {stages.get(number)}
            </Text>
          ) : undefined}
          <Box display="flex" flexWrap="wrap" gap={1}>
            {cells
              .filter(({ task }) => task.task.startsWith(`${number}_`))
              .map((cell) => (
                <TaskCell
                  cell={cell}
                  chosen={chosen === `${cell.task.task} ${cell.copy.instance}`}
                  key={cell.task.task}
                  onChoose={() => onChoose(cell)}
                />
              ))}
          </Box>
        </Box>
      ))}
      <Text color="fg.muted" fontSize="xs" mt={2} wordBreak="break-word">
        Disk: {bytes(host.disk_used_bytes)} used, {bytes(host.disk_free_bytes)} free
        {host.log_file ? `. Log: ${host.log_file}` : ""}
      </Text>
    </Box>
  );
};

const ChosenTask = ({ cell: { copy, task } }: { readonly cell: Cell }) => (
  <Box aria-live="polite" bg="bg.subtle" borderRadius="md" data-testid="task" mt={3} p={3}>
    <Heading as="h4" size="sm">
      Task {task.task}, {copy.role} on {copy.instance}: {copy.state}
    </Heading>
    {copy.error ? <Text color={{ base: "red.700", _dark: "red.300" }}>{copy.error}</Text> : undefined}
    {copy.restore ? <Text>{copy.restore}</Text> : undefined}
    <Figures>
      <Figure label="Behind its changelog">
        {count(copy.lag_records)}
        {typeof copy.lag_s === "number" ? `, ${copy.lag_s.toFixed(1)} s` : ""}
      </Figure>
      {typeof copy.restored_in_s === "number" ? (
        <Figure label="Restored in">{duration(copy.restored_in_s)}</Figure>
      ) : undefined}
      {copy.role === "active" ? (
        <>
          <Figure label="Records/s">{count(copy.records_per_s)}</Figure>
          <Figure label="Records that wait">{count(copy.source_lag_records)}</Figure>
          <Figure label="Watermark">{time(copy.watermark_ms)}</Figure>
          <Figure label="Late, left out">
            {count(copy.late_records)}, {count(copy.left_out_records)}
          </Figure>
        </>
      ) : (
        <Figure label="Certified">
          {copy.certified_at_ms ? ago(copy.certified_at_ms) : "not yet"}
          {copy.divergences ? `, differed ${copy.divergences}x` : ""}
        </Figure>
      )}
      <Figure label="Its failure costs">{seconds(task.predicted_rto_ms)}</Figure>
      <Figure label="Its last failover took">{seconds(task.measured_rto_ms)}</Figure>
    </Figures>
    {task.prediction === null ? undefined : (
      <Text fontSize="sm" mt={2}>
        {task.prediction}
      </Text>
    )}
  </Box>
);

export const Hosts = ({ details }: { readonly details: Details }) => {
  const [chosen, setChosen] = useState<string | null>(null);
  const cells = (details.tasks_by_stage ?? []).flatMap(({ tasks }) =>
    tasks.flatMap((task) => task.copies.map((copy) => ({ copy, task }))),
  );
  const shown = cells.find(({ copy, task }) => `${task.task} ${copy.instance}` === chosen);
  const nowhere = (details.tasks_by_stage ?? []).flatMap(({ tasks }) =>
    tasks.filter(({ copies }) => copies.length === 0).map(({ task }) => task),
  );
  const stages = new Map((details.stages ?? []).map((stage) => [stage.number, stage.name]));
  return (
    <Section id="hosts" title="Instances and tasks">
      <Text color="fg.muted" fontSize="sm" mb={2}>
        {LEGEND.map(([glyph, words]) => `${glyph} ${words}`).join(" · ")}
      </Text>
      <SimpleGrid columns={{ base: 1, md: 2, xl: 3 }} gap={3}>
        {(details.hosts ?? []).map((host) => (
          <HostCard
            cells={cells.filter(({ copy }) => copy.instance === host.instance)}
            chosen={chosen}
            host={host}
            key={host.instance}
            onChoose={({ copy, task }) => {
              const key = `${task.task} ${copy.instance}`;
              setChosen(chosen === key ? null : key);
            }}
            stages={stages}
          />
        ))}
      </SimpleGrid>
      {nowhere.length === 0 ? undefined : (
        <Text color={{ base: "red.700", _dark: "red.300" }} data-testid="nowhere" mt={3} wordBreak="break-word">
          <span aria-hidden="true">✕</span> No instance has task {nowhere.join(", ")}.
        </Text>
      )}
      {shown === undefined ? undefined : <ChosenTask cell={shown} />}
    </Section>
  );
};
