import { Box, Button, Code, Heading, Text } from "@chakra-ui/react";
import { useState } from "react";

import { usePolled } from "./api";
import { paletteOf, Problem } from "./Parts";
import type { Reason } from "./types";

/** The runbook does not change while a page is open. */
const SELDOM_MS = 3_600_000;

/** What stands between backticks is what is typed, or seen as it is written. */
const Prose = ({ children }: { readonly children: string }) =>
  children.split("`").map((part, at) => (at % 2 === 1 ? <Code key={at}>{part}</Code> : part));

const Step = ({ anchor }: { readonly anchor: string }) => {
  const { data, problem } = usePolled<{ title: string; text: string }>(
    `runbook/${encodeURIComponent(anchor)}`,
    SELDOM_MS,
  );
  if (problem !== undefined) return <Problem>{problem}</Problem>;
  if (data === undefined) return <Text>…</Text>;
  return (
    <Box bg="bg.subtle" borderRadius="md" data-testid="step" mt={2} p={3}>
      <Heading as="h3" mb={1} size="sm">
        {data.title}
      </Heading>
      {data.text.split(/^\s*```\w*$/m).map((part, at) =>
        at % 2 === 1 ? (
          <Box as="pre" fontSize="sm" key={at} my={2} overflowX="auto" tabIndex={0} whiteSpace="pre">
            {part.replace(/^\n|\s+$/g, "")}
          </Box>
        ) : (
          <Text fontSize="sm" key={at} whiteSpace="pre-wrap" wordBreak="break-word">
            <Prose>{part.trim().replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replace(/\*\*?([^*\n]+)\*\*?/g, "$1")}</Prose>
          </Text>
        ),
      )}
    </Box>
  );
};

/** Why, and what to do next: each reason with the runbook's step, which opens below it. */
export const Reasons = ({ reasons }: { readonly reasons: Reason[] }) => {
  const [open, setOpen] = useState<string | null>(null);
  // By its step and place among those of that step: its text changes from one second to the next.
  const keys = reasons.map(
    ({ step }, at) => `${step ?? "none"} ${reasons.slice(0, at).filter((before) => before.step === step).length}`,
  );
  return (
    <Box as="ul" data-testid="reasons" listStyleType="none">
      {reasons.map((reason, at) => (
        <Box
          as="li"
          borderInlineStartColor={`${paletteOf(reason.means)}.solid`}
          borderInlineStartWidth="4px"
          key={keys[at]}
          mt={2}
          ps={3}
        >
          <Text wordBreak="break-word">{reason.text}</Text>
          {reason.step === null ? undefined : (
            <Button
              aria-expanded={open === keys[at]}
              height="auto"
              mt={1}
              onClick={() => setOpen(open === keys[at] ? null : (keys[at] ?? null))}
              py={1}
              size="sm"
              variant="outline"
              whiteSpace="normal"
            >
              What to do: {reason.step_title}
            </Button>
          )}
          {open === keys[at] && reason.step !== null ? <Step anchor={reason.step} /> : undefined}
        </Box>
      ))}
    </Box>
  );
};
