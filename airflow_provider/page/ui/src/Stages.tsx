import { Box, Heading, Text } from "@chakra-ui/react";

import { count, time, waiting } from "./format";
import { Graph } from "./Graph";
import { Figure, Figures, Section } from "./Parts";
import type { DeadLetters, Details, Edge, Stage } from "./types";

const Topic = ({ edge, rate }: { readonly edge: Edge; readonly rate?: number }) => (
  <Text fontFamily="mono" fontSize="sm" wordBreak="break-all">
    <span aria-hidden="true">↓ </span>
    {edge.topic}
    <Text as="span" color="fg.muted" fontFamily="body">
      {" "}
      ({edge.kind}
      {rate === undefined ? "" : `, ${count(rate)} records/s`})
    </Text>
  </Text>
);

const StageBox = ({ stage }: { readonly stage: Stage }) => (
  <Box borderColor="border" borderRadius="md" borderWidth="1px" data-testid="stage" my={1} p={3}>
    <Heading as="h4" size="sm">
      {stage.number}: {stage.name}
    </Heading>
    <Text fontSize="sm" wordBreak="break-word">
      {[...stage.steps, stage.operation].filter(Boolean).join(" → ")}
      {stage.store === null ? "" : `, store ${stage.store}`}
    </Text>
    <Figures>
      <Figure label="Records that wait">{waiting(stage)}</Figure>
      <Figure label="Watermark">{time(stage.watermark_ms)}</Figure>
      <Figure label="Late">{count(stage.late_records)}</Figure>
      <Figure label="Left out">{count(stage.left_out_records)}</Figure>
    </Figures>
  </Box>
);

/** The job from its sources down to its sinks, in the order of its stages, with the rates of now. */
export const Stages = ({ details }: { readonly details: Details }) => (
  <Section id="graph" title="The job">
    {details.edges?.length === 0 ? (
      <Text color="fg.muted" fontSize="sm">
        The job was not described: the deploy DAG does that for one whose topics its job file names.
      </Text>
    ) : (
      <Graph details={details} />
    )}
    {(details.stages ?? []).map((stage) => (
      <Box key={stage.number}>
        {(details.edges ?? [])
          .filter((edge) => edge.to === stage.number)
          .map((edge) => (
            <Topic edge={edge} key={edge.topic} rate={stage.records_per_s} />
          ))}
        <StageBox stage={stage} />
        {(details.edges ?? [])
          .filter((edge) => edge.of === stage.number && edge.to === null)
          .map((edge) => (
            <Topic edge={edge} key={edge.topic} />
          ))}
      </Box>
    ))}
  </Section>
);

export const LeftOut = ({ letters }: { readonly letters: DeadLetters[] }) => (
  <Section id="dead-letters" title="Dead letters">
    {letters.length === 0 ? <Text>The job has no dead-letter topic.</Text> : undefined}
    {letters.map((one) => (
      <Box key={one.topic} mb={2}>
        <Text fontFamily="mono" fontSize="sm" wordBreak="break-all">
          {one.topic}: {one.problem ?? (one.exception === undefined ? "none" : `${count(one.offsets)} offsets`)}
        </Text>
        {one.exception === undefined ? undefined : (
          <Text fontSize="sm" wordBreak="break-word">
            The newest, {time(one.at_ms)}, task {one.task}: {one.exception}: {one.message}
          </Text>
        )}
      </Box>
    ))}
  </Section>
);
