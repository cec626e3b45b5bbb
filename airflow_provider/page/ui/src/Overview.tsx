import { Box, Heading, SimpleGrid, Text } from "@chakra-ui/react";

import { usePolled, useSeconds } from "./api";
import { ago, lastDrill, seconds, waiting } from "./format";
import { Figure, Figures, paletteOf, Problem, UiLink, WordBadge } from "./Parts";
import type { Card } from "./types";

const POLL_MS = 2_000;

export const PredictedRto = ({ card }: { readonly card: Card }) => (
  <>
    {card.predicted_by_default && typeof card.predicted_rto_ms === "number" ? "~" : ""}
    {card.word === "standing still"
      ? "it stands still"
      : typeof card.predicted_rto_ms === "number"
        ? seconds(card.predicted_rto_ms)
        : "not known"}
    {card.slo_rto_ms === null ? " (none promised)" : ` of ${seconds(card.slo_rto_ms)} promised`}
  </>
);

const nextStep = (card: Card): string => {
  const [reason] = card.reasons;
  if (reason === undefined) return "Nothing to do.";
  return reason.step_title === null ? "Look at the application." : `Next: ${reason.step_title} in the runbook.`;
};

const ApplicationCard = ({ card }: { readonly card: Card }) => (
  <Box
    as="li"
    bg="bg.panel"
    borderColor="border"
    borderRadius="md"
    borderWidth="1px"
    // After the others: these two are of one side.
    style={{ borderInlineStart: `6px solid var(--chakra-colors-${paletteOf(card.word)}-solid)` }}
    data-testid="card"
    listStyleType="none"
    p={4}
  >
    <Box alignItems="center" display="flex" flexWrap="wrap" gap={2} justifyContent="space-between">
      <Heading as="h3" size="md" wordBreak="break-word">
        <UiLink to={`?application=${encodeURIComponent(card.id)}`}>{card.id}</UiLink>
      </Heading>
      <WordBadge size="lg" word={card.word} />
    </Box>
    <Text lineClamp={3} mt={2} wordBreak="break-word">
      {card.reasons[0]?.text ?? "Every task is processed and has its warm standbys."}
    </Text>
    <Text fontWeight="semibold" mt={1}>
      {nextStep(card)}
      {typeof card.since_ms === "number" ? ` Not safe since ${ago(card.since_ms)}.` : ""}
    </Text>
    {card.tasks === undefined ? undefined : (
      <Figures>
        <Figure label="Records that wait">{waiting(card)}</Figure>
        <Figure label="Standbys warm">
          {card.standbys_warm} of {card.standbys}
        </Figure>
        <Figure label="A failure costs">
          <PredictedRto card={card} />
        </Figure>
        <Figure label="Last drill">{lastDrill(card)}</Figure>
      </Figures>
    )}
  </Box>
);

const WORST_FIRST = ["standing still", "unknown", "degraded", "safe"];

export const Overview = () => {
  const { data, problem } = usePolled<{ applications: Card[] }>("applications", POLL_MS);
  useSeconds();
  const cards = [...(data?.applications ?? [])].sort(
    (one, other) => WORST_FIRST.indexOf(one.word) - WORST_FIRST.indexOf(other.word) || one.id.localeCompare(other.id),
  );
  return (
    <Box data-testid="overview">
      <Heading as="h2" mb={3} size="lg">
        Streams
      </Heading>
      {problem === undefined ? undefined : <Problem>{problem}</Problem>}
      {data === undefined && problem === undefined ? <Text>Asking…</Text> : undefined}
      {data?.applications.length === 0 ? (
        <Text>There is no application whose DAGs you may read: stream_dags() in a DAG file makes one.</Text>
      ) : undefined}
      <SimpleGrid as="ul" columns={{ base: 1, md: 2, xl: 3 }} gap={4}>
        {cards.map((card) => (
          <ApplicationCard card={card} key={card.id} />
        ))}
      </SimpleGrid>
    </Box>
  );
};
