import { Box, Button, Text } from "@chakra-ui/react";
import { useState } from "react";

import { count, seconds, time } from "./format";
import { runPath, Section, UiLink } from "./Parts";
import type { Event } from "./types";

const NOT_ANSWERED = "not answered";
const SO_FAR = "so far";
const PHASES: Record<string, string> = {
  [NOT_ANSWERED]: "red.500",
  [SO_FAR]: "orange.500",
  decided: "purple.500",
  detected: "gray.500",
  held: "yellow.500",
  "first output": "teal.500",
  owned: "blue.500",
};
const GLYPHS: Record<Event["outcome"], string> = { failed: "✕", open: "◐", passed: "✓", skipped: "–" };

/** A bar that is so many times as long as most is cut, so that the others can be read. */
const MOST_TIMES = 10;

const sumOf = (event: Event): number => event.phases_ms.reduce((sum, [, ms]) => sum + Math.max(0, ms), 0);

/** One that is not over has lasted until now. */
function untilNow(event: Event): Event {
  const restMs = Date.now() - event.at_ms - sumOf(event);
  if (event.kind !== "failover" || event.outcome !== "open" || event.recovered || restMs < 1_000) return event;
  return { ...event, phases_ms: [...event.phases_ms, [SO_FAR, restMs]] };
}

const said = (event: Event): string =>
  event.phases_ms.map(([name, ms]) => `${name} ${seconds(ms)}`).join(", ") || "nothing was measured";

/** What it cost, phase by phase, on one scale for all; the mark is what is promised. */
const Bar = ({ event, longestMs }: { readonly event: Event; readonly longestMs: number }) => {
  const percent = (ms: number): string => `${(100 * Math.max(0, ms)) / longestMs}%`;
  return (
    <Box aria-label={said(event)} bg="bg.muted" data-testid="bar" display="flex" h="0.9rem" position="relative" role="img" w="100%">
      <Box display="flex" overflow="hidden" w="100%">
        {event.phases_ms.map(([name, ms]) => (
          <Box
            bg={PHASES[name]}
            borderColor="bg"
            borderEndWidth="1px"
            flexShrink={0}
            key={name}
            minW={ms > 0 ? "3px" : undefined}
            title={`${name} ${seconds(ms)}`}
            w={percent(ms)}
          />
        ))}
      </Box>
      {sumOf(event) > longestMs ? (
        <Text as="span" bg="bg" fontSize="xs" lineHeight="0.9rem" ps={1} whiteSpace="nowrap">
          … {seconds(sumOf(event))}
        </Text>
      ) : undefined}
      {event.slo_rto_ms !== null && event.slo_rto_ms <= longestMs ? (
        <Box
          bg="fg"
          bottom="-3px"
          insetInlineStart={percent(event.slo_rto_ms)}
          position="absolute"
          title={`promised ${seconds(event.slo_rto_ms)}`}
          top="-3px"
          w="2px"
        />
      ) : undefined}
    </Box>
  );
};

const Evidence = ({ event }: { readonly event: Event }) => (
  <Box bg="bg.subtle" borderRadius="md" data-testid="evidence" fontSize="sm" mt={1} p={3} wordBreak="break-word">
    <Text>{event.evidence || "No evidence was noted."}</Text>
    {event.reason === null ? undefined : <Text fontWeight="semibold">{event.reason}</Text>}
    <Box as="ul" ms={4}>
      {event.decisions.map((decision) => (
        <li key={decision}>{decision}</li>
      ))}
    </Box>
    <Text>
      {said(event)}
      {event.predicted_rto_ms === null ? "" : `; predicted ${seconds(event.predicted_rto_ms)}`}
      {event.slo_met === null ? "" : event.slo_met ? "; as promised" : "; longer than promised"}
    </Text>
    <Text>
      {count(event.restored_records)} records replayed, {count(event.lost_records)} lost, {count(event.doubled_records)}{" "}
      doubled; tasks {event.tasks.join(", ") || "-"} of {event.instances.join(", ") || "-"}
    </Text>
    <Text>
      By{" "}
      {event.dag_id !== null && event.run_id !== null ? (
        <UiLink to={runPath(event.dag_id, event.run_id)}>the run {event.run_id}</UiLink>
      ) : (
        event.by
      )}
    </Text>
  </Box>
);

export const Timeline = ({ events: known }: { readonly events: Event[] }) => {
  const events = known.map(untilNow);
  const [open, setOpen] = useState<string | null>(null);
  const sums = events.map(sumOf).filter((ms) => ms > 0).sort((one, other) => one - other);
  const mostMs = MOST_TIMES * (sums[Math.floor(sums.length / 2)] ?? 1);
  const tookMs = Math.max(1, ...sums.filter((ms) => ms <= mostMs));
  const promisedMs = Math.max(0, ...events.map((event) => event.slo_rto_ms ?? 0));
  // A promise that nothing comes near would make all bars too short to be read.
  const longestMs = promisedMs < 4 * tookMs ? Math.max(tookMs, promisedMs) : tookMs;
  return (
    <Section id="timeline" title="Failovers, drills, restores and upgrades">
      {events.length === 0 ? <Text>Nothing is on record.</Text> : undefined}
      <Box display="flex" flexWrap="wrap" fontSize="sm" gap={3} mb={2}>
        {[NOT_ANSWERED, "detected", "decided", "held", "owned", "first output", SO_FAR].map((name) => (
          <Box alignItems="center" display="flex" gap={1} key={name}>
            <Box aria-hidden="true" bg={PHASES[name]} h="0.8rem" w="0.8rem" />
            {name}
          </Box>
        ))}
      </Box>
      <Box as="ol" listStyleType="none">
        {events.map((event) => {
          const key = `${event.kind}/${event.id}`;
          return (
            <Box as="li" data-testid="event" key={key} mb={2}>
              <Button
                aria-expanded={open === key}
                height="auto"
                justifyContent="flex-start"
                onClick={() => setOpen(open === key ? null : key)}
                p={1}
                size="sm"
                textAlign="start"
                variant="ghost"
                whiteSpace="normal"
                w="100%"
              >
                <span aria-hidden="true">{GLYPHS[event.outcome]}</span>
                {time(event.at_ms)} {[event.kind, event.cause, event.instances.join(", ")].filter(Boolean).join(" ")}: {event.outcome}
                {event.rto_ms === null ? "" : `, output again after ${seconds(event.rto_ms)}`}
              </Button>
              {event.phases_ms.length === 0 ? undefined : <Bar event={event} longestMs={longestMs} />}
              {open === key ? <Evidence event={event} /> : undefined}
            </Box>
          );
        })}
      </Box>
    </Section>
  );
};
