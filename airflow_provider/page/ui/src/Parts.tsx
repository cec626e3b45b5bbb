import { Badge, Box, Heading, Link, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { Link as RouterLink } from "react-router-dom";

import type { Word } from "./types";

/** A word has a shape and a colour of its own: none needs the colour to be told from another. */
const LOOKS: Record<Word, { glyph: string; palette: string }> = {
  safe: { glyph: "✓", palette: "green" },
  degraded: { glyph: "▲", palette: "orange" },
  "standing still": { glyph: "■", palette: "red" },
  unknown: { glyph: "?", palette: "gray" },
};

export const paletteOf = (word: Word): string => LOOKS[word].palette;

export const WordBadge = ({ size = "md", word }: { readonly size?: "md" | "lg"; readonly word: Word }) => (
  <Badge
    bg={{ base: `${LOOKS[word].palette}.100`, _dark: `${LOOKS[word].palette}.900` }}
    color={{ base: `${LOOKS[word].palette}.900`, _dark: `${LOOKS[word].palette}.100` }}
    data-testid="word"
    fontWeight="bold"
    size={size}
    whiteSpace="nowrap"
  >
    <span aria-hidden="true">{LOOKS[word].glyph}</span> {word}
  </Badge>
);

export const Section = ({
  children,
  id,
  title,
}: {
  readonly children: ReactNode;
  readonly id: string;
  readonly title: string;
}) => (
  <Box aria-labelledby={`${id}-title`} as="section" data-testid={id} mt={6}>
    <Heading as="h3" id={`${id}-title`} mb={2} size="md">
      {title}
    </Heading>
    {children}
  </Box>
);

export const Figure = ({
  children,
  label,
  title,
}: {
  readonly children: ReactNode;
  readonly label: string;
  readonly title?: string;
}) => (
  <Box minW="7rem" title={title}>
    <Text as="dt" color="fg.muted" fontSize="xs">
      {label}
    </Text>
    <Text as="dd" fontWeight="semibold">
      {children}
    </Text>
  </Box>
);

export const Figures = ({ children }: { readonly children: ReactNode }) => (
  <Box as="dl" display="flex" flexWrap="wrap" gap={4} mt={2}>
    {children}
  </Box>
);

export const Problem = ({ children }: { readonly children: ReactNode }) => (
  <Box borderColor="border.error" borderWidth="1px" color={{ base: "red.700", _dark: "red.300" }} mb={3} p={2} role="alert">
    {children}
  </Box>
);

/** To a place of Airflow's UI; the address of a run has characters that a path must not have. */
export const UiLink = ({ children, to }: { readonly children: ReactNode; readonly to: string }) => (
  <Link asChild color="fg.info" textDecoration="underline" wordBreak="break-word">
    <RouterLink to={to}>{children}</RouterLink>
  </Link>
);

export const runPath = (dagId: string, runId: string): string =>
  `/dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`;
