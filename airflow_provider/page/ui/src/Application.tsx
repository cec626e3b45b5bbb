import { Box, Heading, Text } from "@chakra-ui/react";

import { Actions } from "./Actions";
import { usePolled, useSeconds } from "./api";
import { ago, count, lastDrill, waiting } from "./format";
import { Hosts } from "./Hosts";
import { Lookup } from "./Lookup";
import { PredictedRto } from "./Overview";
import { Figure, Figures, Problem, Section, WordBadge } from "./Parts";
import { Reasons } from "./Reasons";
import { FailedRuns } from "./Runs";
import { LeftOut, Stages } from "./Stages";
import { Timeline } from "./Timeline";
import { Topics } from "./Topics";
import { Trend } from "./Trend";
import type { ApplicationAnswer } from "./types";

const POLL_MS = 1_000;

const Lines = ({ id, lines, title }: { readonly id: string; readonly lines: string[]; readonly title: string }) =>
  lines.length === 0 ? undefined : (
    <Section id={id} title={title}>
      <Box as="ul" ms={4}>
        {lines.map((line) => (
          <Box as="li" key={line} wordBreak="break-word">
            {line}
          </Box>
        ))}
      </Box>
    </Section>
  );

export const Application = ({ id }: { readonly id: string }) => {
  const { data, problem } = usePolled<ApplicationAnswer>(`applications/${encodeURIComponent(id)}`, POLL_MS);
  useSeconds();
  if (data === undefined) {
    return problem === undefined ? <Text>Asking…</Text> : <Problem>{problem}</Problem>;
  }
  const { application: details, may_look_up: mayLookUp, may_start: mayStart, timeline } = data;
  return (
    <Box data-testid="application">
      {problem === undefined ? undefined : <Problem>{problem}</Problem>}
      <Box alignItems="center" display="flex" flexWrap="wrap" gap={3}>
        <Heading as="h2" size="lg" wordBreak="break-word">
          {details.id}
        </Heading>
        <WordBadge size="lg" word={details.word} />
        {typeof details.since_ms === "number" ? <Text>not safe since {ago(details.since_ms)}</Text> : undefined}
      </Box>
      {details.reasons.length === 0 ? <Text mt={2}>Every task is processed and has its warm standbys.</Text> : undefined}
      <Reasons reasons={details.reasons} />
      {details.word === "unknown" && details.hosts !== undefined ? (
        <Text fontWeight="semibold" mt={2}>
          What follows is what was known last.
        </Text>
      ) : undefined}
      {details.tasks === undefined ? undefined : (
        <>
          <Figures>
            <Figure label="A failure costs now">
              <PredictedRto card={details} />
            </Figure>
            <Figure label="Records that wait">{waiting(details)}</Figure>
            <Figure label="Records/s">{count(details.records_per_s)}</Figure>
            <Figure label="Standbys warm">
              {details.standbys_warm} of {details.standbys}
            </Figure>
            <Figure label="Last drill">{lastDrill(details)}</Figure>
            <Figure label="Generation">{details.generation ?? "none"}</Figure>
          </Figures>
          <Text color="fg.muted" fontSize="sm" mt={1}>
            {details.watching}
          </Text>
        </>
      )}
      <Actions details={details} mayStart={mayStart} />
      <Lines id="incidents" lines={details.open_incidents ?? []} title="Answered, and not over yet" />
      <FailedRuns dags={details.dags} />
      {details.hosts === undefined ? (
        details.word === "unknown" ? undefined : <Text>Asking…</Text>
      ) : (
        <>
          <Hosts details={details} />
          <Timeline events={timeline} />
          <Trend details={details} />
          <Stages details={details} />
          {mayLookUp ? <Lookup details={details} /> : undefined}
          <Topics found={details.topics} />
          <LeftOut letters={details.dead_letters ?? []} />
        </>
      )}
      <Lines
        id="notes"
        lines={[...(details.held_time ?? []), ...(details.uneven_load ? [details.uneven_load] : [])]}
        title="Worth knowing"
      />
    </Box>
  );
};
