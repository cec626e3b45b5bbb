import { Box, Text } from "@chakra-ui/react";

import { ago } from "./format";
import { Section } from "./Parts";
import type { TopicFindings } from "./types";

/** What `topics verify` finds, each with what to do, and the command that does it where one does. */
export const Topics = ({ found }: { readonly found: TopicFindings | null | undefined }) => (
  <Section id="topics" title="Topics">
    {found ? undefined : <Text>Asking…</Text>}
    {found?.problem ? <Text wordBreak="break-word">{found.problem}</Text> : undefined}
    {found && !found.problem && found.findings.length === 0 ? (
      <Text>All are as the application needs them.</Text>
    ) : undefined}
    {(found?.findings ?? []).map((one) => (
      <Box data-testid="finding" key={one.problem} mb={3}>
        <Text wordBreak="break-word">{one.problem}</Text>
        <Text color="fg.muted" fontSize="sm" wordBreak="break-word">
          {one.fix}
        </Text>
        {one.command === null ? undefined : (
          <Box as="pre" bg="bg.subtle" borderRadius="md" fontSize="sm" mt={1} p={2} whiteSpace="pre-wrap" wordBreak="break-word">
            {one.command}
          </Box>
        )}
      </Box>
    ))}
    {found?.at_ms ? (
      <Text color="fg.muted" fontSize="sm">
        Looked at {ago(found.at_ms)}, every few minutes.
      </Text>
    ) : undefined}
  </Section>
);
